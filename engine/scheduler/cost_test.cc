// What the follower makes of looks at a function that takes bursts.
#include "engine/scheduler/cost.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "engine/scheduler/algorithm_one.h"

namespace unis {
namespace {

constexpr Nanoseconds kTurn = 150'000;
constexpr Nanoseconds kLookEvery = 1'000;

// A function with more work than it can do, and those who look at it. Turns follow one another
// without a gap: what happens in between is nothing to it.
struct Function {
  explicit Function(double believed) : follower(believed) {}

  // Runs for so long and is looked at every `every`.
  void Turn(Nanoseconds length, Nanoseconds every = kLookEvery) {
    follower.BeginTurn({.begin = now, .slice = slice, .interval = kLookEvery}, Seen(busy));
    for (const Nanoseconds end = now + length; now < end;) {
      const Nanoseconds step = std::min(every, end - now);
      now += step;
      ran += static_cast<double>(step);
      follower.Look(now, Seen(busy));
    }
    follower.EndTurn(length);
  }
  void Turns(int count, Nanoseconds length, Nanoseconds every = kLookEvery) {
    for (int i = 0; i < count; ++i) Turn(length, every);
  }
  // It took a burst whenever it had done the one before.
  CostFollower::Seen Seen(bool is_busy) {
    CostFollower::Seen seen{.taken = 0, .busy = is_busy};
    for (; taken_until <= ran; taken_until += kBatch * cost) seen.taken += kBatch;
    return seen;
  }

  CostFollower follower;
  double cost = 100;
  Nanoseconds slice = kTurn;
  bool busy = true;
  Nanoseconds now = 1'000'000;
  double ran = 0;
  double taken_until = 0;
};

TEST(CostFollowerTest, StartsWithTheCostThatItIsGiven) { EXPECT_EQ(CostFollower(123).ns(), 123); }

TEST(CostFollowerTest, FindsTheCostOfAFunctionInTwoTurns) {
  for (const double cost : {20.0, 37.0, 100.0, 240.0, 500.0}) {
    Function function(100);
    function.cost = cost;
    function.Turns(2, kTurn);
    EXPECT_NEAR(function.follower.ns(), cost, 0.05 * cost);
  }
}

TEST(CostFollowerTest, LooksThatAreFewAreEnough) {
  Function function(100);
  function.cost = 130;
  function.Turns(20, kTurn, 8'000);
  EXPECT_NEAR(function.follower.ns(), 130, 0.05 * 130);
}

TEST(CostFollowerTest, AJumpIsThereAfterThreeSamples) {
  Function function(100);
  function.Turns(10, kTurn);
  function.cost = 500;
  function.Turns(2, kTurn);
  EXPECT_NEAR(function.follower.ns(), 500, 25);
}

TEST(CostFollowerTest, WhatInterruptsItOnceIsNoCost) {
  Function function(100);
  function.Turns(10, kTurn);
  // Two samples at most are long: it takes nothing for as long as five slices.
  function.taken_until += 5 * kTurn;
  double worst = 0;
  for (int turn = 0; turn < 20; ++turn) {
    function.Turn(kTurn);
    worst = std::max(worst, std::abs(function.follower.ns() - 100));
  }
  EXPECT_LT(worst, 5);
}

TEST(CostFollowerTest, TimeWithoutWorkIsNoCost) {
  Function function(100);
  function.cost = 300;
  function.busy = false;
  function.Turns(50, kTurn);
  EXPECT_EQ(function.follower.ns(), 100);
}

TEST(CostFollowerTest, ALookWithoutWorkEndsWhatWasMeasured) {
  Function function(100);
  for (int turn = 0; turn < 20; ++turn) {
    function.follower.BeginTurn({.begin = function.now, .slice = kTurn, .interval = kLookEvery},
                                function.Seen(true));
    for (int look = 0; look < 30; ++look) {
      function.now += 5'000;
      function.follower.Look(function.now, {.taken = look % 2 ? kBatch : 0, .busy = look % 4 != 3});
    }
    function.follower.EndTurn(kTurn);
  }
  EXPECT_EQ(function.follower.ns(), 100);
}

TEST(CostFollowerTest, AFunctionThatCostsAHundredTimesAsMuchIsFoundInItsShortTurns) {
  Function function(10);
  function.cost = 1'000;
  for (int turn = 0; turn < 100; ++turn) {
    function.slice = static_cast<Nanoseconds>(function.follower.ns() * 1536);
    function.Turn(function.slice);
  }
  EXPECT_NEAR(function.follower.ns(), 1'000, 50);
}

TEST(CostFollowerTest, OneThatCostsAHundredthIsFoundToo) {
  Function function(2'000);
  function.cost = 20;
  for (int turn = 0; turn < 100; ++turn) {
    function.slice = static_cast<Nanoseconds>(function.follower.ns() * 1536);
    function.Turn(function.slice);
  }
  EXPECT_NEAR(function.follower.ns(), 20, 1);
}

TEST(CostFollowerTest, ASmallRingIsEnough) {
  Function function(100);
  function.cost = 200;
  function.slice = 3 * kBatch * 100;
  function.Turns(30, 3 * kBatch * 100);
  EXPECT_NEAR(function.follower.ns(), 200, 20);
}

// Of turns of 150 µs: a sample in 3 ms is enough.
TEST(CostFollowerTest, WantsFewLooks) {
  Function function(100);
  int looks = 0;
  for (int turn = 0; turn < 20; ++turn) {
    function.follower.BeginTurn({.begin = function.now, .slice = kTurn, .interval = kLookEvery},
                                function.Seen(true));
    const Nanoseconds end = function.now + kTurn;
    while (function.now < end) {
      const Nanoseconds next = std::min(end, std::max(function.follower.next_look(), function.now));
      function.ran += static_cast<double>(next - function.now);
      function.now = next;
      function.follower.Look(next, function.Seen(true));
      ++looks;
    }
    function.follower.EndTurn(kTurn);
  }
  EXPECT_LT(looks, 20 * 4) << "one turn in twenty has a sample";
  EXPECT_NEAR(function.follower.ns(), 100, 5);
}

}  // namespace
}  // namespace unis
