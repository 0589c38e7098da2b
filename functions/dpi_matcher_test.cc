#include "functions/dpi_matcher.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string_view>

namespace unis::functions {
namespace {

std::vector<std::uint32_t> Scan(DpiMatcher& matcher, std::string_view payload) {
  const auto found =
      matcher.Scan({reinterpret_cast<const std::uint8_t*>(payload.data()), payload.size()});
  std::vector<std::uint32_t> sorted(found.begin(), found.end());
  std::ranges::sort(sorted);
  return sorted;
}

TEST(DpiMatcher, TellsEachRuleThatMatchesOnce) {
  auto matcher = DpiMatcher::Compile({{.id = 10, .pattern = "ab+"},
                                      {.id = 11, .caseless = true, .pattern = "^abc"},
                                      {.id = 12, .pattern = "\\x00\\xff"},
                                      {.id = 13, .dot_all = true, .pattern = "a.c$"}},
                                     "rules");
  ASSERT_TRUE(matcher.ok()) << matcher.error().message;
  using Rules = std::vector<std::uint32_t>;
  EXPECT_EQ(Scan(*matcher, "abbb ab"), Rules({0}));
  EXPECT_EQ(Scan(*matcher, "ABCabc"), Rules({0, 1, 3}));
  EXPECT_EQ(Scan(*matcher, std::string_view("x\0\xff", 3)), Rules({2}));
  EXPECT_EQ(Scan(*matcher, "a\nc"), Rules({3}));
  EXPECT_EQ(Scan(*matcher, ""), Rules());
  EXPECT_GT(matcher->database_bytes(), 0U);
}

TEST(DpiMatcher, NamesTheLineOfAPatternThatItDoesNotTake) {
  const auto matcher = DpiMatcher::Compile(
      {{.id = 1, .pattern = "fine", .line = 4}, {.id = 2, .pattern = "(a)\\1", .line = 9}},
      "rules");
  ASSERT_FALSE(matcher.ok());
  EXPECT_TRUE(matcher.error().message.starts_with(
      "rules:9: Hyperscan does not take the pattern '(a)\\1': "))
      << matcher.error().message;
}

}  // namespace
}  // namespace unis::functions
