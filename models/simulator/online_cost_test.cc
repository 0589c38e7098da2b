// Costs that are followed while a chain runs, against an oracle: the same scenario where the
// scheduler is told the costs that its functions come to have.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "models/simulator/scenarios_for_test.h"
#include "models/simulator/simulation.h"

namespace unis::sim {
namespace {

constexpr Nanoseconds kJump = 60 * kMillisecond;
constexpr Nanoseconds kBack = kJump + 50 * kMillisecond;  // by then all is as the oracle has it

// Of `count` functions the second costs five times as much from kJump on. Measured: what comes
// after kBack.
Scenario Jumping(std::size_t count, double cost_ns, double factor = 5) {
  Scenario scenario = OneCore(Policy::kUnis, count, cost_ns);
  scenario.functions[1].cost_factor = factor;
  scenario.functions[1].cost_changes_at = kJump;
  scenario.scheduler.lazy = true;
  scenario.scheduler.online_cost = true;
  scenario.warmup = kBack;
  scenario.duration = 1'000 * kMillisecond;
  scenario.trace = true;
  return scenario;
}

Scenario Oracle(Scenario scenario) {
  scenario.scheduler.online_cost = false;
  for (FunctionSpec& function : scenario.functions)
    function.scheduled_cost_ns = function.cost_ns * function.cost_factor;
  return scenario;
}

// Of the scheduler's switches to `task`.
std::vector<Nanoseconds> SlicesOf(TaskIndex task, const Result& result) {
  std::vector<Nanoseconds> slices;
  for (const SwitchRecord& event : result.events)
    if (event.to == task) slices.push_back(event.slice);
  return slices;
}

double Worst(const std::vector<Nanoseconds>& slices, double expected) {
  double worst = 0;
  for (const Nanoseconds slice : slices)
    worst = std::max(worst, std::abs(static_cast<double>(slice) / expected - 1));
  return worst;
}

struct Chain {
  std::size_t functions;
  double cost_ns;
};

class JumpTest : public testing::TestWithParam<Chain> {};

TEST_P(JumpTest, SlicesAndThroughputAreBackWithin50Milliseconds) {
  const Scenario scenario = Jumping(GetParam().functions, GetParam().cost_ns);
  const Result online = Simulate(scenario);
  const Result oracle = Simulate(Oracle(scenario));
  const double expected = static_cast<double>(SlicesOf(1, oracle).at(0));
  ASSERT_FALSE(SlicesOf(1, online).empty());
  EXPECT_LT(Worst(SlicesOf(1, online), expected), 0.05);
  const double before = static_cast<double>(SlicesOf(0, oracle).at(0));
  EXPECT_LT(Worst(SlicesOf(0, online), before), 0.05) << "the others are as they were";
  EXPECT_NEAR(Throughput(scenario, online), Throughput(scenario, oracle),
              0.02 * Throughput(scenario, oracle));
}

INSTANTIATE_TEST_SUITE_P(Chains, JumpTest,
                         testing::Values(Chain{3, 30}, Chain{2, 60}, Chain{3, 100}, Chain{5, 200},
                                         Chain{3, 500}, Chain{8, 300}));

TEST(OnlineCostTest, WhatAStaticCostWouldHaveLost) {
  Scenario scenario = Jumping(3, 60);
  const Result online = Simulate(scenario);
  scenario.scheduler.online_cost = false;
  const Result fixed = Simulate(scenario);
  EXPECT_GT(Throughput(scenario, online), 1.02 * Throughput(scenario, fixed));
}

TEST(OnlineCostTest, AFallIsFollowedToo) {
  const Scenario scenario = Jumping(3, 200, 0.2);
  const double expected = static_cast<double>(SlicesOf(1, Simulate(Oracle(scenario))).at(0));
  EXPECT_LT(Worst(SlicesOf(1, Simulate(scenario)), expected), 0.05);
}

// What is stated in a chain file is where it starts from.
TEST(OnlineCostTest, WrongCostsComeRight) {
  for (const double believed : {1.0, 10.0, 400.0, 4'000.0, 40'000.0}) {
    Scenario scenario = Jumping(3, 60, 1);
    for (FunctionSpec& function : scenario.functions) function.scheduled_cost_ns = believed;
    const Result online = Simulate(scenario);
    const Result oracle = Simulate(Oracle(scenario));
    for (TaskIndex task = 0; task < 3; ++task) {
      const double expected = static_cast<double>(SlicesOf(task, oracle).at(0));
      EXPECT_LT(Worst(SlicesOf(task, online), expected), 0.05) << believed;
    }
  }
}

TEST(OnlineCostTest, TwoRunsAreAlike) {
  const Scenario scenario = Jumping(3, 100);
  EXPECT_EQ(SlicesOf(1, Simulate(scenario)), SlicesOf(1, Simulate(scenario)));
}

}  // namespace
}  // namespace unis::sim
