// The search for the way that sends most, on cores whose ways send so many packets a second.
#include "engine/scheduler/line_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>

#include "engine/base/dice_for_test.h"

namespace unis {
namespace {

constexpr Nanoseconds kSecond = 1'000'000'000;
using Rates = std::array<double, LineSearch::kTurns.size()>;  // packets a second, of each way

struct SearchedCore {
  explicit SearchedCore(const Rates& rates, double noise = 0,
                        std::optional<std::size_t> known = std::nullopt)
      : rates(rates), noise(noise) {
    search.Start(known, now);
  }
  // What passed, as a share of what the best way would have passed.
  double RunFor(Nanoseconds time) {
    const Nanoseconds end = now + time;
    double passed = 0;
    while (now < end) {
      const Nanoseconds next = std::min(end, std::max(now + 1'000, search.next_look()));
      const double packets = rates[search.way()] * factor * static_cast<double>(next - now) / 1e9;
      passed += packets;
      sent += packets;
      now = next;
      if (!search.Look(now, static_cast<std::uint16_t>(static_cast<std::uint64_t>(sent)))) continue;
      ++changes;
      factor = 1 + noise * (dice.Between(0, 2000) / 1000.0 - 1);
    }
    return passed / (*std::ranges::max_element(rates) * static_cast<double>(time) / 1e9);
  }

  LineSearch search;
  Rates rates;
  double noise, factor = 1, sent = 0;
  Nanoseconds now = kSecond;
  int changes = 0;
  Dice dice{7};
};

TEST(LineSearchTest, FindsTheTurnThatSendsMost) {
  for (std::size_t best = 1; best < LineSearch::kTurns.size(); ++best) {
    Rates rates{1e6};
    for (std::size_t way = 1; way < rates.size(); ++way)
      rates[way] =
          4e6 / (1.0 + 0.3 * std::abs(static_cast<double>(way) - static_cast<double>(best)));
    SearchedCore core(rates, 0.03);
    core.RunFor(2 * kSecond);
    EXPECT_EQ(core.search.way(), best);
    EXPECT_EQ(core.search.found(), best);
  }
}

// As of DPDK's distributor, whose threads hand on eight packets at a time.
TEST(LineSearchTest, WhereThreadGroupsSendMostTheSearchCostsLittle) {
  SearchedCore core({1e6, 0.4e6, 0.3e6, 0.2e6, 0.1e6}, 0.03);
  core.RunFor(2 * kSecond);
  EXPECT_EQ(core.search.found(), 0U);
  EXPECT_GT(core.RunFor(300 * kSecond), 0.99);
  EXPECT_EQ(core.search.found(), 0U);
}

TEST(LineSearchTest, WaysThatSendAlikeAreNotChanged) {
  SearchedCore core({1e6, 1e6, 1e6, 1e6, 1e6}, 0.03);
  for (int i = 0; i < 100; ++i) {
    core.RunFor(10 * kSecond);
    ASSERT_EQ(core.search.found(), 0U) << i;
  }
}

TEST(LineSearchTest, FollowsWhatTheChainComesToDo) {
  SearchedCore core({1e6, 2e6, 3e6, 2e6, 1e6});
  core.RunFor(60 * kSecond);
  ASSERT_EQ(core.search.found(), 2U);
  core.rates = {4e6, 2e6, 3e6, 2e6, 1e6};
  core.RunFor(12 * kSecond);
  EXPECT_EQ(core.search.found(), 0U);
}

TEST(LineSearchTest, WithoutPacketsItWaitsForSome) {
  SearchedCore core({});
  core.RunFor(60 * kSecond);
  EXPECT_EQ(core.search.found(), std::nullopt);
  core.rates = {500, 1000, 1500, 1000, 500};
  core.RunFor(60 * kSecond);
  EXPECT_EQ(core.search.found(), std::nullopt) << "too few to tell";
  core.rates = {1e6, 2e6, 3e6, 2e6, 1e6};
  core.RunFor(6 * kSecond);
  EXPECT_EQ(core.search.found(), 2U);
}

// A chain whose policy or functions change has a new scheduler.
TEST(LineSearchTest, WhatWasFoundBeforeIsNotDoubtedAtOnce) {
  SearchedCore core({1e6, 2e6, 3e6, 2e6, 1e6}, 0, 2);
  core.RunFor(3 * kSecond);
  EXPECT_EQ(core.changes, 0);
  EXPECT_EQ(core.search.turn(), LineSearch::kTurns[2]);
}

}  // namespace
}  // namespace unis
