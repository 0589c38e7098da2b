#include "functions/common/text.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <random>

namespace unis::functions {
namespace {

TEST(ParseNumber, TakesWholeNumbersInRange) {
  EXPECT_EQ(*ParseNumber("0", "n", 0, 9), 0u);
  EXPECT_EQ(*ParseNumber("9", "n", 0, 9), 9u);
  for (const char* const word : {"", "10", "-1", "+1", "1 ", "1x", "0x1", "99999999999999999999"}) {
    const auto number = ParseNumber(word, "answer", 0, 9);
    ASSERT_FALSE(number.ok()) << word;
    EXPECT_EQ(number.error().message,
              std::string("bad answer '") + word + "': must be a whole number from 0 to 9");
  }
}

TEST(ParseIpv4, ReadsWhatFormatWrites) {
  std::mt19937 random(1);
  for (int i = 0; i < 10'000; ++i) {
    const std::uint32_t address = static_cast<std::uint32_t>(random());
    ASSERT_EQ(*ParseIpv4(FormatIpv4(address), "address"), address);
  }
}

TEST(ParseIpv4, RefusesWhatIsNoAddress) {
  for (const char* const word : {"", "1.2.3", "1.2.3.4.5", "1.2.3.256", "1..2.3", "a.b.c.d",
                                 "1.2.3.4 ", "01.2.3.0004", "1.2.3.-4"}) {
    EXPECT_FALSE(ParseIpv4(word, "address").ok()) << word;
  }
}

TEST(ParseIpv4Prefix, TakesNetworksAndHosts) {
  EXPECT_EQ(*ParseIpv4Prefix("10.0.0.0/8", "prefix"), (Ipv4Prefix{0x0a000000, 8}));
  EXPECT_EQ(*ParseIpv4Prefix("10.1.2.3", "prefix"), (Ipv4Prefix{0x0a010203, 32}));
  EXPECT_EQ(*ParseIpv4Prefix("0.0.0.0/0", "prefix"), (Ipv4Prefix{0, 0}));
}

TEST(ParseIpv4Prefix, SaysWhatToWriteInstead) {
  EXPECT_EQ(
      ParseIpv4Prefix("10.0.0.1/8", "source").error().message,
      "bad source '10.0.0.1/8': bits are set beyond the length; write 10.0.0.0/8 or 10.0.0.1");
  for (const char* const word : {"10.0.0.0/33", "10.0.0.0/", "10.0.0.0/-1", "/8", "10.0.0.0/8/8"}) {
    EXPECT_FALSE(ParseIpv4Prefix(word, "source").ok()) << word;
  }
}

TEST(Ipv4Prefix, ContainsByBits) {
  std::mt19937 random(2);
  for (int i = 0; i < 10'000; ++i) {
    const auto length = static_cast<std::uint8_t>(random() % 33);
    Ipv4Prefix prefix{0, length};
    prefix.address = static_cast<std::uint32_t>(random()) & prefix.Mask();
    const std::uint32_t ip = prefix.address ^ (random() % 2 != 0 ? 1u << random() % 32 : 0);
    bool same = true;
    for (int bit = 0; bit < length; ++bit) {
      same = same && ((ip >> (31 - bit)) & 1) == ((prefix.address >> (31 - bit)) & 1);
    }
    ASSERT_EQ(prefix.Contains(ip), same);
  }
}

TEST(ParseMac, TakesSixBytes) {
  EXPECT_EQ(*ParseMac("02:0a:FF:00:00:01", "MAC"), (MacAddress{{2, 10, 255, 0, 0, 1}}));
  for (const char* const word : {"", "02:0a:ff:00:00", "02:0a:ff:00:00:01:02", "2:0a:ff:00:00:01",
                                 "02-0a-ff-00-00-01", "0g:00:00:00:00:00", "-1:00:00:00:00:00"}) {
    EXPECT_FALSE(ParseMac(word, "MAC").ok()) << word;
  }
}

TEST(Words, SplitsAndDropsComments) {
  using List = std::vector<std::string_view>;
  EXPECT_EQ(Words("  a\tb c # d"), (List{"a", "b", "c"}));
  EXPECT_EQ(Words("a#b\r"), (List{"a"}));
  EXPECT_EQ(Words("a\r"), (List{"a"}));
  EXPECT_EQ(Words(" # all comment"), List{});
  EXPECT_EQ(Words(""), List{});
}

class ReadLinesTest : public testing::Test {
 protected:
  ReadLinesTest() : file_(std::filesystem::path(testing::TempDir()) / "unis_functions_lines") {}
  ~ReadLinesTest() override { std::filesystem::remove(file_); }
  void Write(std::string_view text) { std::ofstream(file_) << text; }
  std::filesystem::path file_;
};

TEST_F(ReadLinesTest, NamesFileAndLineOfAFailure) {
  Write("# heading\n\none\ntwo");
  const Failure failure = ReadLines(file_, [](auto words, unsigned) {
    return words.front() == "two" ? Failure(Error{"no twos"}) : Failure();
  });
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->message, file_.string() + ":4: no twos");
}

TEST_F(ReadLinesTest, SaysWhyAFileCannotBeRead) {
  const auto never = [](auto, unsigned) { return Failure(); };
  EXPECT_EQ(ReadLines(file_ / "absent", never)->message,
            "cannot read " + (file_ / "absent").string() + ": No such file or directory");
  EXPECT_EQ(ReadLines(testing::TempDir(), never)->message,
            "cannot read " + testing::TempDir() + ": it is a directory");
}

}  // namespace
}  // namespace unis::functions
