// The search for the way that sends most, on cores whose ways send so many packets a second.
#include "engine/scheduler/line_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "engine/base/dice_for_test.h"

namespace unis {
namespace {

constexpr Nanoseconds kSecond = 1'000'000'000;
using Rates = std::array<double, LineSearch::kTurns.size()>;  // packets a second, of each way

struct SearchedCore {
  explicit SearchedCore(const Rates& rates, double noise = 0,
                        std::optional<std::size_t> known = std::nullopt, std::size_t threads = 0)
      : rates(rates), noise(noise) {
    search.Start(known, threads, now);
  }
  double Rate() const {
    const double rate = rates[search.way() % rates.size()];
    return search.spared() == 0 ? rate : rate * of_spared.at(search.spared() - 1);
  }
  // What passed, as a share of what the best way would have passed.
  double RunFor(Nanoseconds time) {
    const Nanoseconds end = now + time;
    double passed = 0;
    while (now < end) {
      const Nanoseconds next = std::min(end, std::max(now + 1'000, search.next_look()));
      const double packets = Rate() * factor * static_cast<double>(next - now) / 1e9;
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
  std::vector<double> of_spared;  // by thread, what passes then, as a share
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

// As of DPDK's ip_pipeline: the first of three threads serves a console.
TEST(LineSearchTest, SparesAThreadWithoutWhoseTurnsMoreIsSent) {
  SearchedCore core({1e6, 2e6, 3e6, 2e6, 1e6}, 0.02, std::nullopt, 3);
  core.of_spared = {1.3, 0.01, 0.3};
  core.RunFor(4 * kSecond);
  EXPECT_EQ(core.search.turn(), LineSearch::kTurns[2]);
  EXPECT_EQ(core.search.spared(), 1U);
  const auto changes = core.changes;
  core.RunFor(100 * kSecond);
  EXPECT_LT(core.changes - changes, 15 * 4 * 2 * 4) << "the others are not tried again";
  const auto found = core.search.found();
  ASSERT_TRUE(found);
  core.of_spared = {0.01, 0.01, 0.01};
  core.RunFor(20 * kSecond);
  EXPECT_EQ(core.search.spared(), 0U) << "it works now";

  EXPECT_FALSE(core.search.Recount(3, core.now));
  core.of_spared = {1.3, 0.01, 0.3};
  core.RunFor(100 * kSecond);
  SearchedCore fewer({1e6, 2e6, 3e6, 2e6, 1e6}, 0, found, 3);
  EXPECT_TRUE(fewer.search.Recount(2, fewer.now)) << "the first may be another";
  EXPECT_EQ(fewer.search.way(), 2U);
  fewer.of_spared = {0.01, 1.3};
  fewer.RunFor(4 * kSecond);
  EXPECT_EQ(fewer.search.spared(), 2U) << "it is searched for anew";
  // Also in the middle of a trial, of a thread that is no longer there.
  SearchedCore midway({1e6, 2e6, 3e6, 2e6, 1e6}, 0, std::nullopt, 3);
  midway.of_spared = {0.9, 0.9, 0.9};
  while (midway.search.spared() < 3) midway.RunFor(1'000'000);
  EXPECT_TRUE(midway.search.Recount(1, midway.now));
  EXPECT_EQ(midway.search.way(), 2U);
  for (int i = 0; i < 4'000; ++i) {
    midway.RunFor(1'000'000);
    ASSERT_LT(midway.search.spared(), 2U);
  }

  SearchedCore again({1e6, 2e6, 3e6, 2e6, 1e6}, 0, found, 3);
  EXPECT_EQ(again.search.spared(), 1U);
  SearchedCore other({1e6, 2e6, 3e6, 2e6, 1e6}, 0, found, 0);
  EXPECT_EQ(other.search.way(), 0U) << "such a thread is not there";
}

TEST(LineSearchTest, SparesNobodyWhereThatBringsNothing) {
  SearchedCore core({1e6, 2e6, 3e6, 2e6, 1e6}, 0.03, std::nullopt, 3);
  core.of_spared = {0.01, 1.0, 0.2};
  core.RunFor(4 * kSecond);
  EXPECT_EQ(core.search.found(), 2U);
  const auto changes = core.changes;
  core.RunFor(100 * kSecond);
  EXPECT_EQ(core.search.found(), 2U);
  EXPECT_LT(core.changes - changes, 14 * 3 * 4 * 2) << "it is tried only once";
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
