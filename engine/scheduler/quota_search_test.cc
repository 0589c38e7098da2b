// What the search makes of a core whose speed depends on the quota.
#include "engine/scheduler/quota_search.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>

#include "engine/scheduler/scheduler.h"

namespace unis {
namespace {

// A core that does `speed(quota)` work a nanosecond, looked at as often as the search asks.
struct Machine {
  explicit Machine(std::uint32_t first, std::uint32_t most = 8192) : search(first, most) {}

  void RunFor(Nanoseconds time) {
    for (const Nanoseconds end = now + time; now < end;) {
      const Nanoseconds next = std::clamp(search.next_look(), now + 1'000, end);
      const double disturbance = noise > 0 ? normal(random) * noise : 0;
      work += speed(search.quota()) * (1 + disturbance) * static_cast<double>(next - now);
      if (search.quota() != search.found()) at_neighbours += next - now;
      now = next;
      const bool enough = backlog && search.quota() <= most_with_backlog;
      changes += search.OnLook({.now = now, .work = work, .round = round, .backlog = enough});
    }
  }
  double Loss(double best) const { return 1 - speed(search.found()) / best; }

  QuotaSearch search;
  std::function<double(std::uint32_t)> speed;
  double noise = 0;
  Nanoseconds round = 100'000;
  bool backlog = true;
  std::uint32_t most_with_backlog = 1'000'000;
  Nanoseconds now = 0;
  Nanoseconds at_neighbours = 0;
  double work = 0;
  int changes = 0;
  std::mt19937 random{1};
  std::normal_distribution<double> normal;
};

// Of packets of 20 ns, a switch of 1.5 µs, and a cache that holds `fits` packets, and none of four
// times as many.
auto CostBy(double fits) {
  return [fits](std::uint32_t quota) {
    const double cold = 8 * std::clamp((quota / fits - 1) / 3, 0.0, 1.0);
    return 1 / (20 + cold + 1'500.0 / quota);
  };
}

TEST(QuotaSearchTest, FindsTheBest) {
  for (const double fits : {200.0, 700.0, 1500.0, 4000.0}) {
    for (const std::uint32_t first : {64U, 512U, 1024U}) {
      Machine machine(first);
      machine.speed = CostBy(fits);
      machine.RunFor(8'000'000'000);
      double best = 0;
      for (std::uint32_t quota = 64; quota <= 8192; ++quota)
        best = std::max(best, machine.speed(quota));
      EXPECT_LT(machine.Loss(best), 0.015) << fits << " from " << first;
    }
  }
}

TEST(QuotaSearchTest, GoesThereThroughNoise) {
  for (const double fits : {300.0, 3000.0}) {
    Machine machine(1024);
    machine.speed = CostBy(fits);
    machine.noise = 0.02;
    machine.RunFor(20'000'000'000);
    EXPECT_LT(machine.Loss(machine.speed(static_cast<std::uint32_t>(fits))), 0.03) << fits;
  }
}

TEST(QuotaSearchTest, FollowsAMachineThatChanges) {
  Machine machine(1024);
  machine.speed = CostBy(4000);
  machine.RunFor(5'000'000'000);
  EXPECT_GT(machine.search.found(), 2000U);
  machine.speed = CostBy(400);
  machine.RunFor(10'000'000'000);
  EXPECT_LT(machine.search.found(), 800U);
}

TEST(QuotaSearchTest, IsMostlyContentWithWhatItFound) {
  Machine machine(1024);
  machine.speed = CostBy(1024);
  machine.RunFor(2'000'000'000);
  machine.at_neighbours = 0;
  machine.RunFor(20'000'000'000);
  EXPECT_GT(machine.at_neighbours, 0);
  EXPECT_LT(machine.at_neighbours, 20'000'000'000 / 20);
}

TEST(QuotaSearchTest, WhereAllAreAlikeItStays) {
  Machine machine(1024);
  machine.speed = [](std::uint32_t) { return 1; };
  machine.RunFor(5'000'000'000);
  EXPECT_EQ(machine.search.found(), 1024U);
  machine.noise = 0.02;
  machine.RunFor(20'000'000'000);
  EXPECT_GT(machine.search.found(), 256U) << "noise leads nowhere far";
}

TEST(QuotaSearchTest, TriesNothingWithoutABacklog) {
  Machine machine(1024);
  machine.speed = CostBy(4000);
  machine.backlog = false;
  machine.RunFor(5'000'000'000);
  EXPECT_EQ(machine.changes, 0);
}

TEST(QuotaSearchTest, GivesATrialUpWhenTheBacklogIsGone) {
  Machine machine(1024);
  machine.speed = CostBy(4000);
  while (machine.search.quota() == 1024) machine.RunFor(1'000'000);
  machine.backlog = false;
  machine.RunFor(100'000'000);
  EXPECT_EQ(machine.search.quota(), 1024U);
  machine.backlog = true;
  machine.RunFor(5'000'000'000);
  EXPECT_GT(machine.search.found(), 2000U) << "and comes back to it";
}

// As where a long turn never finds as much as it may take.
TEST(QuotaSearchTest, OneThatCannotBeTriedKeepsNobodyElseFromIt) {
  Machine machine(256);
  machine.speed = [](std::uint32_t quota) { return quota < 128 ? 2 : 1; };
  machine.most_with_backlog = 300;
  machine.RunFor(10'000'000'000);
  EXPECT_LT(machine.search.found(), 128U);
}

TEST(QuotaSearchTest, AWindowThatIsDroppedIsTakenAgain) {
  Machine machine(1024);
  machine.speed = CostBy(4000);
  for (int i = 0; i < 400; ++i) {
    machine.RunFor(5'000'000);
    if (i % 4 == 0) machine.search.Missed(machine.now);
  }
  EXPECT_GT(machine.search.found(), 2000U);
}

// As where another policy runs in between: of windows that alternate each would have a trial.
TEST(QuotaSearchTest, ItPausesForTimeInWhichSomebodyLooks) {
  Machine machine(1024, 1024);
  machine.speed = CostBy(4000);
  machine.RunFor(1'000'000'000);  // the first trials are over
  ASSERT_FALSE(machine.search.trying());
  const int before = machine.changes;
  for (int i = 0; i < 100; ++i) {
    machine.RunFor(10'000'000);
    machine.search.Seen(machine.now);
    machine.now += 1'000'000'000;
    machine.search.Missed(machine.now);
  }
  EXPECT_EQ(machine.changes, before);
  machine.RunFor(2'000'000'000);
  EXPECT_GT(machine.changes, before);
}

TEST(QuotaSearchTest, NoRoundHoldsItUpForLong) {
  Machine machine(1024);
  machine.speed = CostBy(4000);
  machine.round = 1'000'000'000'000;
  machine.RunFor(1'000'000);
  machine.round = 100'000;
  machine.RunFor(4'000'000'000);
  EXPECT_GT(machine.search.found(), 2000U);
}

TEST(QuotaSearchTest, KeepsWithinWhatLinksHold) {
  Machine machine(1024, 700);
  machine.speed = CostBy(4000);
  EXPECT_EQ(machine.search.quota(), 700U);
  machine.RunFor(3'000'000'000);
  EXPECT_EQ(machine.search.found(), 700U);
  Machine least(64, 64);
  least.speed = CostBy(4000);
  least.RunFor(3'000'000'000);
  EXPECT_EQ(least.changes, 0);
}

// Heavy functions have few turns in 4 ms.
TEST(QuotaSearchTest, WindowsHaveWholeRounds) {
  Machine machine(1024);
  machine.round = 10'000'000;
  machine.speed = CostBy(4000);
  machine.RunFor(150'000'000);
  EXPECT_LE(machine.changes, 1);
}

}  // namespace
}  // namespace unis
