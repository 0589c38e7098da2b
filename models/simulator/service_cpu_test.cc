// Source, sink and scheduler on a CPU of their own: they take time, and take it from each other.
#include <gtest/gtest.h>

#include "engine/scheduler/policy.h"
#include "models/simulator/scenarios_for_test.h"
#include "models/simulator/simulation.h"

namespace unis::sim {
namespace {

Scenario WithPlatform(Policy policy, std::size_t functions, double cost_ns, double source_ns,
                      double sink_ns) {
  Scenario scenario = OneCore(policy, functions, cost_ns);
  scenario.machine.source_ns = source_ns;
  scenario.machine.sink_ns = sink_ns;
  return scenario;
}

double Rate(const Scenario& scenario) { return Throughput(scenario, Simulate(scenario)); }

TEST(ServiceCpuTest, AFastChainIsAsFastAsSourceAndSinkTogether) {
  const double expected = 1e9 / (60 + 40);
  EXPECT_NEAR(Rate(WithPlatform(Policy::kUnis, 1, 10, 60, 40)), expected, 0.02 * expected);
}

TEST(ServiceCpuTest, WithThreeCpusTheSlowerOfThemCounts) {
  Scenario scenario = WithPlatform(Policy::kUnis, 1, 10, 60, 40);
  scenario.machine.platform_has_three_cpus = true;
  EXPECT_NEAR(Rate(scenario), 1e9 / 60, 0.02 * 1e9 / 60);
}

TEST(ServiceCpuTest, ASlowChainDoesNotNoticeThePlatform) {
  const double expected = 1e9 / 500;
  EXPECT_NEAR(Rate(WithPlatform(Policy::kUnis, 1, 500, 60, 40)), expected, 0.02 * expected);
}

// A switch takes the CPU from source and sink: two a round of 1535 packets, one for each function.
TEST(ServiceCpuTest, SwitchesAreTakenFromSourceAndSink) {
  Scenario scenario = WithPlatform(Policy::kUnis, 2, 10, 60, 40);
  scenario.machine.switch_call_ns = 30'000;
  const double with_long_calls = Rate(scenario);
  scenario.machine.switch_call_ns = 1;
  const double with_short_calls = Rate(scenario);
  EXPECT_LT(with_long_calls, 0.85 * with_short_calls);

  scenario.machine.platform_has_three_cpus = true;
  const double alone = Rate(scenario);
  scenario.machine.switch_call_ns = 5'000;
  EXPECT_NEAR(Rate(scenario), alone, 0.1 * alone) << "the scheduler has a CPU of its own";
}

// The last function fills its ring faster than the sink takes packets from it, and loses what is
// left.
TEST(ServiceCpuTest, ASlowSinkLetsTheLastRingRunOver) {
  Scenario scenario = WithPlatform(Policy::kFifo, 1, 10, 1, 40);
  EXPECT_EQ(Simulate(scenario).functions[0].dropped_egress_full, 0U)
      << "on one CPU the source waits for the sink";
  scenario.machine.platform_has_three_cpus = true;
  const Result result = Simulate(scenario);
  EXPECT_GT(result.functions[0].dropped_egress_full, result.chains[0].delivered);
  EXPECT_GE(result.chains[0].in_flight, kRing / 2);
}

TEST(ServiceCpuTest, EveryPolicyDeliversAndEveryChainIsServed) {
  for (const PolicyTraits& traits : Policies()) {
    if (traits.policy == Policy::kFifo) continue;  // the first function never gives way
    Scenario scenario = WithPlatform(traits.policy, 2, 50, 30, 20);
    scenario.duration = 1000 * kMillisecond;
    AddChainLikeTheFirst(scenario, 1);
    const Result result = Simulate(scenario);
    for (const ChainResult& chain : result.chains) EXPECT_GT(chain.delivered, 0U);
  }
}

TEST(ServiceCpuTest, ResultsAreEqualFromRunToRun) {
  const Scenario scenario = WithPlatform(Policy::kUnis, 4, 33, 50, 30);
  const Result first = Simulate(scenario), second = Simulate(scenario);
  EXPECT_EQ(first.chains[0].delivered, second.chains[0].delivered);
  EXPECT_EQ(first.switches, second.switches);
}

}  // namespace
}  // namespace unis::sim
