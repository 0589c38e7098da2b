// Functions that hand the CPU over where they poll, on virtual time.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "models/simulator/scenarios_for_test.h"
#include "models/simulator/simulation.h"

namespace unis::sim {
namespace {

constexpr std::uint32_t kQuota = 8 * kBatch;

Scenario HandedOver(std::size_t functions, double cost_ns) {
  Scenario scenario = OneCore(Policy::kUnis, functions, cost_ns);
  scenario.handover = true;
  scenario.scheduler.budget = kQuota;
  return scenario;
}

TEST(SimulatedHandOverTest, PassesWhatTheClosedFormSays) {
  for (const double cost : {20.0, 100.0}) {
    const Scenario scenario = HandedOver(3, cost);
    const double expected = 1e9 / (3 * (cost + scenario.machine.yield_ns / kQuota));
    const Result result = Simulate(scenario);
    EXPECT_NEAR(Throughput(scenario, result), expected, 1e-3 * expected);
    EXPECT_EQ(result.functions[0].dropped_egress_full, 0u);
  }
}

TEST(SimulatedHandOverTest, ATurnTakesTheQuotaAndTheNextInLineFollows) {
  Scenario scenario = HandedOver(3, 50);
  scenario.trace = true;
  const Result result = Simulate(scenario);
  ASSERT_GT(result.runs.size(), 100u);
  for (std::size_t i = 1; i + 1 < result.runs.size(); ++i) {  // the ends are cut off
    EXPECT_EQ(result.runs[i].packets, kQuota);
    EXPECT_EQ(result.runs[i].function, (result.runs[i - 1].function + 1) % 3);
  }
  EXPECT_GT(result.events.size(), 100u);
  for (const SwitchRecord& event : result.events) EXPECT_EQ(event.reason, SwitchReason::kSelf);
}

TEST(SimulatedHandOverTest, WithoutPacketsATurnIsOnePoll) {
  Scenario scenario = HandedOver(2, 50);
  scenario.chains[0].arrivals = {.kind = ArrivalKind::kConstant, .pps = 1e6, .burst = 1};
  const Result result = Simulate(scenario);
  EXPECT_EQ(result.chains[0].dropped_egress_full + result.chains[0].dropped_ingress_full, 0u);
  // A packet waits for a round or two.
  EXPECT_LT(result.chains[0].latency.ValueAtPercentile(99), 10'000u);
  const double idle = 0.9 * 200e6;  // a tenth is work
  const double turns = idle / (scenario.machine.poll_ns + scenario.machine.yield_ns);
  EXPECT_NEAR(static_cast<double>(result.switches), turns, 0.02 * turns);
}

// The second function has a CPU of its own and takes four times as long.
TEST(SimulatedHandOverTest, OneWhoseEgressIsFullIsAskedToLeave) {
  Scenario scenario = HandedOver(3, 50);
  scenario.functions[1].cpu = 2;
  scenario.functions[1].cost_ns = 200;
  scenario.scheduler.budget = 1'500;
  const auto lost = [&](bool occupancy) {
    scenario.scheduler.occupancy = occupancy;
    return Simulate(scenario).functions[0].dropped_egress_full;
  };
  const std::uint64_t without = lost(false);
  EXPECT_GT(without, 100'000u);
  // Its next turn is seen at the next look only, and takes a burst at least.
  EXPECT_LT(lost(true), without - without / 25);
}

TEST(SimulatedHandOverTest, OneThatStandsStillIsPreempted) {
  Scenario scenario = HandedOver(1, 50);
  AddChainLikeTheFirst(scenario, 1);
  scenario.functions[0].cost_factor = 10'000;  // 32 ms for a burst
  scenario.trace = true;
  scenario.warmup = 0;
  const Result result = Simulate(scenario);
  const auto preempted = std::ranges::count_if(result.events, [](const SwitchRecord& event) {
    return event.reason == SwitchReason::kSliceExpired && event.from == 0;
  });
  EXPECT_GT(preempted, 10);
  EXPECT_GT(result.functions[0].processed, 0u);  // it goes on with its burst where it was
  // The other takes a quota between two of its turns, each of which lasts the slice and the grace.
  EXPECT_GT(result.chains[1].delivered, static_cast<std::uint64_t>(preempted) * kQuota / 2);
}

}  // namespace
}  // namespace unis::sim
