#include "functions/dpi_rules.h"

#include <gtest/gtest.h>

#include <fstream>

namespace unis::functions {
namespace {

using enum DpiRule::Action;

std::string RuleError(std::string_view text) {
  const auto rule = ParseDpiRule(text);
  return rule ? "" : rule.error().message;
}

TEST(DpiRules, ReadsEveryWord) {
  EXPECT_EQ(*ParseDpiRule("7 alert - abc"), (DpiRule{.id = 7, .action = kAlert, .pattern = "abc"}));
  EXPECT_EQ(*ParseDpiRule("\t4294967295  drop \t ism  ^a b$  \r"), (DpiRule{.id = 4294967295,
                                                                            .action = kDrop,
                                                                            .caseless = true,
                                                                            .dot_all = true,
                                                                            .multi_line = true,
                                                                            .pattern = "^a b$"}));
  EXPECT_EQ(ParseDpiRule("1 forward m #!/bin/sh # not a comment")->pattern,
            "#!/bin/sh # not a comment");
}

TEST(DpiRules, SaysWhatIsWrong) {
  EXPECT_EQ(RuleError("x alert - a"),
            "bad rule id 'x': must be a whole number from 1 to 4294967295");
  EXPECT_EQ(RuleError("0 alert - a"),
            "bad rule id '0': must be a whole number from 1 to 4294967295");
  EXPECT_EQ(RuleError("1 deny - a"), "bad action 'deny': must be alert, drop or forward");
  EXPECT_EQ(RuleError("1 drop"),
            "rule 1 has no pattern; a rule is ID ACTION FLAGS PATTERN, with - for "
            "no flags");
  EXPECT_EQ(RuleError("1 drop ix a"), "bad flags 'ix': must be - or letters of i, s and m");
  EXPECT_EQ(RuleError(std::string_view("1 drop - a\0b", 12)),
            "the pattern of rule 1 has a NUL byte; write it as \\x00");
  EXPECT_EQ(RuleError("1 drop - a\\x00b"), "");
}

TEST(DpiRules, AFileIsReadLineByLine) {
  const std::string file = testing::TempDir() + "dpi.rules";
  std::ofstream(file) << "# rules\n\n5 alert i one\n  3 drop - two\n";
  const auto rules = ReadDpiRules(file);
  ASSERT_TRUE(rules.ok()) << rules.error().message;
  ASSERT_EQ(rules->size(), 2U);
  EXPECT_EQ((*rules)[0].line, 3U);
  EXPECT_EQ((*rules)[1].id, 3U);
  std::ofstream(file) << "5 alert - one\n6 alert - two\n5 drop - three\n";
  EXPECT_EQ(ReadDpiRules(file).error().message, file + ":3: rule 5 is already in line 1");
  std::ofstream(file) << "# nothing\n";
  EXPECT_EQ(ReadDpiRules(file).error().message, file + " has no rules");
}

}  // namespace
}  // namespace unis::functions
