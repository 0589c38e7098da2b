#include "engine/base/stolen_time.h"

#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <thread>

namespace unis {
namespace {

StolenNs Parse(const std::string& text) {
  std::istringstream stat(text);
  return ParseStolen(stat, 10);
}

TEST(StolenTimeTest, IsTheEighthFieldOfEachCpu) {
  EXPECT_EQ(Parse("cpu  9 9 9 9 9 9 9 9 9 9\n"
                  "cpu0 1 2 3 4 5 6 7 8 9 10\n"
                  "cpu12 1 2 3 4 5 6 7 80 9 10\n"
                  "intr 1 2 3 4 5 6 7 8 9\n"),
            (StolenNs{{0, 80}, {12, 800}}));
}

TEST(StolenTimeTest, WhatIsNoLineOfACpuIsPassedOver) {
  EXPECT_EQ(Parse("cpu1 1 2 3 4 5 6 7\n"
                  "cpux 1 2 3 4 5 6 7 8\n"
                  "cpu2x 1 2 3 4 5 6 7 8\n"
                  "cpu3 1 2 3 4 5 6 7 no\n"
                  "\n"),
            StolenNs{});
}

TEST(StolenTimeTest, ThisMachineTellsOfEachCpu) {
  EXPECT_GE(ReadStolen().size(), std::thread::hardware_concurrency());
}

}  // namespace
}  // namespace unis
