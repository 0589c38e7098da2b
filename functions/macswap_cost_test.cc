#include "functions/macswap_cost.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>

namespace unis::functions {
namespace {

TEST(PacketCost, TakesNamesAndNumbers) {
  EXPECT_EQ(PacketCost::Parse("light")->Cycles(64), 50u);
  EXPECT_EQ(PacketCost::Parse("medium")->Cycles(1500), 150u);
  EXPECT_EQ(PacketCost::Parse("heavy")->Cycles(1), 250u);
  EXPECT_EQ(PacketCost::Parse("1234")->Cycles(64), 1234u);
  EXPECT_EQ(PacketCost().Cycles(64), 0u);
}

TEST(PacketCost, StepsIncludeTheirSize) {
  const auto cost = PacketCost::Parse("64:50,512:150,1500:250");
  ASSERT_TRUE(cost.ok());
  EXPECT_EQ(cost->Cycles(1), 50u);
  EXPECT_EQ(cost->Cycles(64), 50u);
  EXPECT_EQ(cost->Cycles(65), 150u);
  EXPECT_EQ(cost->Cycles(512), 150u);
  EXPECT_EQ(cost->Cycles(513), 250u);
  EXPECT_EQ(cost->Cycles(9000), 250u);  // longer than all
}

TEST(PacketCost, ZeroOnlyIfAllStepsAre) {
  EXPECT_TRUE(PacketCost().IsZero());
  EXPECT_TRUE(PacketCost::Parse("64:0,128:0")->IsZero());
  EXPECT_FALSE(PacketCost::Parse("64:0,128:1")->IsZero());
}

TEST(PacketCost, RefusesTheRest) {
  for (const char* const value :
       {"", "lite", "-1", "1.5", "64:", ":50", "64:50,", "64:50:3", "64:50,64:60", "128:1,64:2",
        "0:50", "65536:50", "64:50,100", "100000001", "64:50 "}) {
    EXPECT_FALSE(PacketCost::Parse(value).ok()) << value;
  }
  EXPECT_EQ(PacketCost::Parse("9:1,5:6").error().message,
            "bad cost step '5:6': sizes must grow from step to step");
}

TEST(PacketCost, ReadsBackWhatItWasGiven) {
  std::mt19937 random(4);
  for (int i = 0; i < 1'000; ++i) {
    std::string text;
    std::vector<CostStep> steps;
    for (std::uint32_t size = 0, n = 1 + random() % 6; n > 0; --n) {
      size += 1 + random() % 2000;
      steps.push_back({size, static_cast<std::uint32_t>(random() % 1000)});
      text += fmt::format("{}{}:{}", text.empty() ? "" : ",", size, steps.back().cycles);
    }
    const auto cost = PacketCost::Parse(text);
    ASSERT_TRUE(cost.ok()) << text;
    ASSERT_TRUE(std::ranges::equal(cost->steps(), steps)) << text;
  }
}

// The chain is really computed: its value is that of the multiplications.
TEST(ImitateWork, MultipliesOnceEveryThreeCycles) {
  std::uint32_t expected = 1;
  for (int i = 0; i < 17; ++i) expected *= 0x9e3779b1u;
  EXPECT_EQ(ImitateWork(1, 50), expected);
  EXPECT_EQ(ImitateWork(1, 51), expected);
  EXPECT_EQ(ImitateWork(7, 0), 7u);
}

}  // namespace
}  // namespace unis::functions
