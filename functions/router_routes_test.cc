#include "functions/router_routes.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace unis::functions {
namespace {

constexpr std::string_view kMacs = " 02:00:00:00:00:01 02:00:00:00:00:02";

TEST(ParseRoute, ReadsEveryField) {
  const std::string line = "10.1.0.0/16" + std::string(kMacs);
  const auto route = ParseRoute(Words(line));
  ASSERT_TRUE(route.ok());
  EXPECT_EQ(*route, (Route{{0x0a010000, 16}, {{{2, 0, 0, 0, 0, 1}}, {{2, 0, 0, 0, 0, 2}}}}));
}

TEST(ParseRoute, QuotesTheWrongWord) {
  const std::pair<const char*, const char*> cases[] = {
      {"10.0.0/8 a b", "bad prefix '10.0.0/8': must be A.B.C.D or A.B.C.D/LENGTH"},
      {"10.0.0.0/8",
       "a route has 3 words, PREFIX NEXT_HOP_MAC SRC_MAC, but this line has 1, the last "
       "'10.0.0.0/8'"},
      {"10.0.0.0/8 02:00 02:00:00:00:00:01",
       "bad next hop MAC '02:00': must be six hexadecimal bytes, like 02:00:00:00:00:01"},
      {"10.0.0.0/8 02:00:00:00:00:01 x",
       "bad source MAC 'x': must be six hexadecimal bytes, like 02:00:00:00:00:01"},
  };
  for (const auto& [line, message] : cases) {
    const auto route = ParseRoute(Words(line));
    ASSERT_FALSE(route.ok()) << line;
    EXPECT_EQ(route.error().message, message);
  }
}

class ReadRoutesTest : public testing::Test {
 protected:
  ReadRoutesTest() : file_(std::filesystem::path(testing::TempDir()) / "unis_functions_routes") {}
  ~ReadRoutesTest() override { std::filesystem::remove(file_); }
  std::string ErrorFor(const std::string& text) {
    std::ofstream(file_) << text;
    const auto routes = ReadRoutes(file_);
    return routes.ok() ? "" : routes.error().message;
  }
  std::filesystem::path file_;
};

TEST_F(ReadRoutesTest, RefusesAPrefixTwice) {
  const std::string route = "10.0.0.0/8" + std::string(kMacs) + "\n";
  EXPECT_EQ(ErrorFor(route), "");
  EXPECT_EQ(ErrorFor(route + "\n" + route),
            file_.string() + ":3: there is already a route for '10.0.0.0/8' in line 1");
}

TEST_F(ReadRoutesTest, RefusesAFileWithoutRoutes) {
  EXPECT_EQ(ErrorFor("# nothing\n"), file_.string() + " has no routes");
}

}  // namespace
}  // namespace unis::functions
