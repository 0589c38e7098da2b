// Functions that several chains, or both directions of one, pass through; and machines with faults.
#include <gtest/gtest.h>

#include <vector>

#include "models/simulator/scenarios_for_test.h"
#include "models/simulator/simulation.h"

namespace unis::sim {
namespace {

// A chain and its way back through the same functions, on one core.
Scenario ThereAndBack(std::size_t functions, double cost_ns) {
  Scenario scenario = OneCore(Policy::kUnis, functions, cost_ns);
  const std::vector<FunctionIndex>& there = scenario.chains[0].path;
  scenario.chains.push_back(Chain("back", {there.rbegin(), there.rend()}));
  return scenario;
}

std::uint64_t LostInside(const Result& result) {
  std::uint64_t sum = 0;
  for (const ChainResult& chain : result.chains) sum += chain.dropped_egress_full;
  return sum;
}

TEST(SimulatedPathsTest, ASaturatedChainBothWaysLosesNothingInside) {
  for (const std::size_t functions : {2u, 3u, 5u}) {
    const Scenario scenario = ThereAndBack(functions, 50);
    const Result result = Simulate(scenario);
    EXPECT_EQ(LostInside(result), 0u);
    double sum = 0;
    for (const ChainResult& chain : result.chains) {
      const double rate = static_cast<double>(chain.delivered) * 1e9 / 200e6;
      EXPECT_GT(rate, 0.35 * 1e9 / (50.0 * static_cast<double>(functions)));  // half is its share
      sum += rate;
    }
    EXPECT_GT(sum, 0.8 * 1e9 / (50.0 * static_cast<double>(functions)));
  }
}

// Bursts as large as the rings: each direction blocks the other again and again.
TEST(SimulatedPathsTest, RingsThatAreFullBothWaysDoNotDeadLock) {
  Scenario scenario = ThereAndBack(2, 50);
  for (ChainSpec& chain : scenario.chains) {
    chain.capacity = {1023, 127, 1023};
    chain.arrivals = {.kind = ArrivalKind::kOnOff,
                      .pps = 50e6,
                      .on = 20'000,
                      .off = 2 * kMillisecond,
                      .burst = 1000};
  }
  scenario.warmup = 0;
  const Result result = Simulate(scenario);
  for (const ChainResult& chain : result.chains) {
    EXPECT_GT(chain.offered, 50'000u);
    EXPECT_EQ(
        chain.delivered + chain.dropped_ingress_full + chain.dropped_egress_full + chain.in_flight,
        chain.offered);
    EXPECT_LT(chain.in_flight, 1'100u) << "the last burst; the rest came through";
    EXPECT_GT(chain.delivered, (chain.offered - chain.dropped_ingress_full) * 8 / 10);
  }
}

TEST(SimulatedPathsTest, OnTwoCoresABlockedPathDoesNotStopTheOther) {
  Scenario scenario = ThereAndBack(4, 50);
  scenario.functions[1].cpu = scenario.functions[3].cpu = 2;
  scenario.functions[2].cost_ns = 150;
  const Result result = Simulate(scenario);
  for (const ChainResult& chain : result.chains) EXPECT_GT(chain.delivered, 100'000u);
}

// Chains x and y share their second function only.
TEST(SimulatedPathsTest, TwoChainsThroughOneFunctionAreOneTask) {
  Scenario scenario;
  scenario.policy = Policy::kUnis;
  scenario.duration = 200 * kMillisecond;
  scenario.scheduler.latency_compensation = 14'000;
  for (const char* name : {"x", "shared", "y"}) scenario.functions.push_back(Function(name, 50));
  scenario.chains = {Chain("x", {0, 1}), Chain("y", {2, 1})};
  const Result result = Simulate(scenario);
  EXPECT_EQ(LostInside(result), 0u);
  EXPECT_EQ(result.functions.size(), 3u);
  const auto all = result.functions[0].processed + result.functions[2].processed;
  EXPECT_NEAR(static_cast<double>(result.functions[1].processed), static_cast<double>(all),
              2 * kRing);
  const auto x = static_cast<double>(result.chains[0].delivered);
  EXPECT_NEAR(static_cast<double>(result.chains[1].delivered), x, 0.05 * x);
  EXPECT_GT(x, 0.8 * 200e6 / (4 * 50));
}

TEST(SimulatedPathsTest, AFunctionServesItsPathsInTurn) {
  Scenario scenario;
  scenario.policy = Policy::kFifo;
  scenario.duration = 10 * kMillisecond;
  scenario.functions = {Function("a", 50)};
  scenario.chains = {Chain("x", {0}), Chain("y", {0}), Chain("idle", {0})};
  scenario.chains[2].arrivals = {.kind = ArrivalKind::kConstant, .pps = 1e3, .burst = 1};
  const Result result = Simulate(scenario);
  EXPECT_NEAR(static_cast<double>(result.chains[0].delivered), 1e5, 2 * kBatch);
  EXPECT_NEAR(static_cast<double>(result.chains[1].delivered), 1e5, 2 * kBatch);
  EXPECT_NEAR(static_cast<double>(result.chains[2].delivered), 10, 1);
}

TEST(SimulatedPathsTest, AChainCanPassThroughAFunctionTwice) {
  Scenario scenario = OneCore(Policy::kUnis, 2, 50);
  scenario.chains[0] = Chain("loop", {0, 1, 0});
  const Result result = Simulate(scenario);
  EXPECT_EQ(LostInside(result), 0u);
  EXPECT_GT(Throughput(scenario, result), 0.8 * 1e9 / 150);
}

TEST(FaultTest, LostSwitchesAreMadeUpFor) {
  Scenario scenario = OneCore(Policy::kUnis, 5, 30);
  const Result sound = Simulate(scenario);
  EXPECT_EQ(sound.failed_switches, 0u);
  scenario.machine.lost_switch_ratio = 0.2;
  const Result faulty = Simulate(scenario);
  EXPECT_NEAR(static_cast<double>(faulty.failed_switches),
              0.2 * static_cast<double>(faulty.failed_switches + faulty.switches),
              0.05 * static_cast<double>(faulty.switches));
  EXPECT_GT(Throughput(scenario, faulty), 0.75 * Throughput(scenario, sound));
}

TEST(FaultTest, LateTicksCostThroughputAndNothingElse) {
  Scenario scenario = OneCore(Policy::kUnis, 5, 30);
  const Result sound = Simulate(scenario);
  scenario.machine.late_tick_ratio = 0.01;
  scenario.machine.late_tick = 30'000;
  const Result faulty = Simulate(scenario);
  EXPECT_LT(faulty.ticks, sound.ticks);
  EXPECT_GT(Throughput(scenario, faulty), 0.6 * Throughput(scenario, sound));
}

TEST(FaultTest, AfterAStallOfTheSchedulerTheChainBothWaysRecovers) {
  Scenario scenario = ThereAndBack(3, 50);
  scenario.machine.late_tick_ratio = 0.0005;
  scenario.machine.late_tick = 1 * kMillisecond;
  scenario.machine.lost_switch_ratio = 0.3;
  const Result result = Simulate(scenario);
  for (const ChainResult& chain : result.chains) EXPECT_GT(chain.delivered, 100'000u);
}

// To look only when something can have happened changes little in what is decided.
TEST(LazyTest, DecidesAsWellWithFarFewerLooks) {
  for (const double cost : {10.0, 30.0, 100.0}) {
    for (const bool both_ways : {false, true}) {
      Scenario scenario = both_ways ? ThereAndBack(3, cost) : OneCore(Policy::kUnis, 5, cost);
      scenario.scheduler.latency_compensation = 11'500;
      scenario.scheduler.switch_latency = 14'000;
      const Result every_t = Simulate(scenario);
      scenario.scheduler.lazy = true;
      const Result lazy = Simulate(scenario);
      EXPECT_GT(Throughput(scenario, lazy), 0.98 * Throughput(scenario, every_t)) << cost;
      EXPECT_LE(LostInside(lazy), LostInside(every_t) + 64) << cost;
      // Light functions have less work in front than twice the lead: there is nothing to skip.
      EXPECT_LE(lazy.ticks, every_t.ticks) << cost;
      if (cost >= 100) {
        EXPECT_LT(lazy.ticks, every_t.ticks / 2);
      }
    }
  }
}

}  // namespace
}  // namespace unis::sim
