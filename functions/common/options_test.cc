#include "functions/common/options.h"

#include <gtest/gtest.h>

#include <initializer_list>

#include "functions/common/ports.h"

namespace unis::functions {
namespace {

class OptionTableTest : public testing::Test {
 protected:
  OptionTableTest() {
    table_.AddNumber("--count", "N", "how many", 1, 10, count_);
    table_.Add("--word", "WORD", "which\none", [this](std::string_view value) {
      word_ = value;
      return Failure();
    });
  }
  Failure Parse(std::initializer_list<std::string_view> words) {
    return table_.Parse({words.begin(), words.size()});
  }

  OptionTable table_;
  int count_ = 0;
  std::string word_;
};

TEST_F(OptionTableTest, TakesBothForms) {
  EXPECT_FALSE(Parse({"--count", "3", "--word=a=b"}));
  EXPECT_EQ(count_, 3);
  EXPECT_EQ(word_, "a=b");
}

TEST_F(OptionTableTest, SaysWhatIsWrong) {
  EXPECT_EQ(Parse({"--sum", "3"})->message, "unknown option '--sum'; --help lists them");
  EXPECT_EQ(Parse({"stray"})->message, "unknown option 'stray'; --help lists them");
  EXPECT_EQ(Parse({"--count"})->message, "option --count needs a value: --count N");
  EXPECT_EQ(Parse({"--count", "11"})->message,
            "bad value of --count '11': must be a whole number from 1 to 10");
}

TEST_F(OptionTableTest, KnowsItsOptions) {
  EXPECT_TRUE(table_.Knows("--word"));
  EXPECT_TRUE(table_.Knows("--word=x"));
  EXPECT_FALSE(table_.Knows("--vdev"));
  EXPECT_NE(table_.Help().find("      one\n"), std::string::npos);
}

TEST(ParsePortNames, TakesOneOrTwo) {
  EXPECT_EQ(ParsePortNames("a,b")->in, "a");
  EXPECT_EQ(ParsePortNames("a,b")->out, "b");
  EXPECT_EQ(ParsePortNames("a")->out, "a");
  for (const char* const value : {"", ",", "a,", ",b", "a,b,c"}) {
    EXPECT_FALSE(ParsePortNames(value).ok()) << value;
  }
}

}  // namespace
}  // namespace unis::functions
