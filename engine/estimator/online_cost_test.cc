#include "engine/estimator/online_cost.h"

#include <gtest/gtest.h>

namespace unis {
namespace {

// A function that takes 32 packets every 1600 ns, looked at every 100 ns.
class Looks {
 public:
  explicit Looks(OnlineCost& cost) : cost_(cost) {}
  void Bursts(int count, bool busy = true) {
    for (int burst = 0; burst < count; ++burst) {
      Wait(15, busy);
      taken_ += 32;
      Wait(1, busy);
    }
  }
  void Wait(int looks, bool busy = true) {
    for (int look = 0; look < looks; ++look) cost_.Look(now_ += 100, taken_, busy);
  }

 private:
  OnlineCost& cost_;
  std::int64_t now_ = 0;
  std::uint64_t taken_ = 0;
};

TEST(OnlineCostTest, IsTheTimeFromBurstToBurst) {
  OnlineCost cost;
  Looks(cost).Bursts(1000);
  ASSERT_TRUE(cost.Result());
  EXPECT_DOUBLE_EQ(cost.Result()->median, 50);
}

TEST(OnlineCostTest, WhoeverPreemptsItChangesNothing) {
  OnlineCost cost;
  Looks looks(cost);
  for (int slice = 0; slice < 50; ++slice) {
    looks.Bursts(32);
    looks.Wait(30'000);  // others run
  }
  EXPECT_DOUBLE_EQ(cost.Result()->median, 50);
  EXPECT_DOUBLE_EQ(cost.Result()->q3, 50);
}

TEST(OnlineCostTest, WhoWaitsForPacketsIsNotMeasured) {
  OnlineCost cost;
  Looks looks(cost);
  for (int burst = 0; burst < 1000; ++burst) {
    looks.Bursts(1);
    looks.Wait(1, false);
  }
  EXPECT_EQ(cost.intervals(), 0U);
  EXPECT_FALSE(cost.Result());
}

TEST(OnlineCostTest, WhatPassesBetweenLooksIsNotCounted) {
  OnlineCost cost;
  for (std::int64_t i = 0; i < 1000; ++i) {
    cost.Look(i * 1'000'000, static_cast<std::uint64_t>(i) * 32, true);
    cost.Pause();
  }
  EXPECT_EQ(cost.intervals(), 0U);
}

TEST(OnlineCostTest, FewIntervalsAreNone) {
  OnlineCost cost;
  Looks looks(cost);
  looks.Bursts(static_cast<int>(OnlineCost::kEnough));
  EXPECT_FALSE(cost.Result());
  looks.Bursts(1);
  EXPECT_TRUE(cost.Result());
}

}  // namespace
}  // namespace unis
