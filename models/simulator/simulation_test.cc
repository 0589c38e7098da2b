// Cases whose outcome can be computed by hand, and what the paper says of the policies.
#include "models/simulator/simulation.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "engine/scheduler/policy.h"
#include "models/simulator/scenarios_for_test.h"

namespace unis::sim {
namespace {

TEST(SimulationTest, OneFunctionAloneProcessesAtItsCostUnderEveryPolicy) {
  for (const PolicyTraits& traits : Policies()) {
    const Scenario scenario = OneCore(traits.policy, 1, 37.5);
    const Result result = Simulate(scenario);
    EXPECT_NEAR(Throughput(scenario, result), 1e9 / 37.5, 1e9 / 37.5 * 1e-4);
    EXPECT_EQ(result.switches, 0u);
    EXPECT_EQ(result.functions[0].busy, scenario.duration);
    EXPECT_EQ(result.functions[0].spinning, 0);
  }
}

TEST(SimulationTest, FunctionsOnTheirOwnCoresRunAtTheSlowest) {
  Scenario scenario = OneCore(Policy::kUnis, 3, 40);
  for (std::uint32_t i = 0; i < 3; ++i) scenario.functions[i].cpu = i;
  scenario.functions[1].cost_ns = 100;
  const Result result = Simulate(scenario);
  EXPECT_NEAR(Throughput(scenario, result), 1e7, 1e4);
  const auto& functions = result.functions;
  // The first works in vain for most of its time: nobody else is there to run instead.
  EXPECT_NEAR(static_cast<double>(functions[0].dropped_egress_full), 0.2 * (25e6 - 10e6), 1e4);
  EXPECT_NEAR(static_cast<double>(functions[2].spinning), 0.6 * 200e6, 1e6);
}

TEST(SimulationTest, CooperativePairFollowsTheClosedForm) {
  for (const double cost : {20.0, 100.0}) {
    const Scenario scenario = OneCore(Policy::kCooperative, 2, cost);
    const double packets_per_turn = 8 * 64;
    const double expected = 1e9 / (2 * cost + 2 * scenario.machine.yield_ns / packets_per_turn);
    const Result result = Simulate(scenario);
    EXPECT_NEAR(Throughput(scenario, result), expected, 1e-3 * expected);
    EXPECT_EQ(result.functions[0].dropped_egress_full, 0u);
  }
}

TEST(SimulationTest, AFunctionThatDoesNotCooperateKeepsTheCore) {
  Scenario scenario = OneCore(Policy::kCooperative, 2, 50);
  scenario.functions[0].yield_every = 0;
  const Result result = Simulate(scenario);
  EXPECT_EQ(result.chains[0].delivered, 0u);
  EXPECT_EQ(result.switches, 0u);
}

TEST(SimulationTest, FifoStarvesAllButTheFirst) {
  const Result result = Simulate(OneCore(Policy::kFifo, 3, 50));
  EXPECT_EQ(result.chains[0].delivered, 0u);
  EXPECT_EQ(result.functions[1].processed, 0u);
  EXPECT_EQ(result.functions[0].dropped_egress_full, result.functions[0].processed);
}

// A slice of 100 ms fills the ring once; the next function drains it and spins: a ring a round.
TEST(SimulationTest, RoundRobinPassesOneRingARound) {
  Scenario scenario = OneCore(Policy::kRr, 2, 50);
  const auto round =
      2 * (scenario.machine.rr_slice + static_cast<Nanoseconds>(scenario.machine.kernel_switch_ns));
  scenario.warmup = round;
  scenario.duration = 5 * round;
  const Result result = Simulate(scenario);
  EXPECT_NEAR(static_cast<double>(result.chains[0].delivered), 5 * kRing, 5 * 64);
  EXPECT_LT(Throughput(scenario, result), 0.01 * 1e9 / (2 * 50));
  EXPECT_EQ(result.switches, 10u);
}

TEST(SimulationTest, FairTimeSharingGivesEqualShares) {
  Scenario scenario = OneCore(Policy::kOther, 4, 50);
  scenario.functions[2].cost_ns = 500;
  const Result result = Simulate(scenario);
  for (const FunctionResult& function : result.functions) {
    EXPECT_NEAR(static_cast<double>(function.busy + function.spinning), 200e6 / 4, 3.1e6);
  }
}

TEST(SimulationTest, APreemptionDoesNotShortenTheNextSlice) {
  Scenario scenario = OneCore(Policy::kRr, 3, 50);
  scenario.machine.rr_slice = 10'000;
  scenario.machine.kernel_switch_ns = 5'000;
  scenario.trace = true;
  const Result result = Simulate(scenario);
  ASSERT_GT(result.runs.size(), 1'000u);
  for (std::size_t i = 2; i + 1 < result.runs.size(); ++i) {
    ASSERT_EQ(result.runs[i].end - result.runs[i].begin, 10'000);
    ASSERT_EQ(result.runs[i].begin - result.runs[i - 1].end, 5'000);
  }
}

TEST(SimulationTest, PreemptionInABurstLosesNoWork) {
  Scenario scenario = OneCore(Policy::kRr, 2, 100);
  scenario.machine.rr_slice = 1'000;  // a burst takes 6400
  scenario.machine.kernel_switch_ns = 1;
  const Result result = Simulate(scenario);
  for (const FunctionResult& function : result.functions) {
    EXPECT_NEAR(static_cast<double>(function.busy), 100.0 * static_cast<double>(function.processed),
                6'400);
  }
  EXPECT_NEAR(Throughput(scenario, result), 1e9 / 200, 1e9 / 200 * 0.01);
}

TEST(SimulationTest, SaturatedUnisBeatsTheKernelByFar) {
  for (const std::size_t functions : {2u, 3u, 5u}) {
    const auto throughput = [&](Policy policy) {
      Scenario scenario = OneCore(policy, functions, 30);
      scenario.duration = 1'000 * kMillisecond;
      return Throughput(scenario, Simulate(scenario));
    };
    const double unis = throughput(Policy::kUnis);
    EXPECT_GT(unis, 20 * throughput(Policy::kRr)) << functions;
    EXPECT_GT(unis, 20 * throughput(Policy::kOther)) << functions;
    EXPECT_GT(unis, 0.8 * throughput(Policy::kCooperative)) << functions;
  }
}

// Where slices are neither all right nor all alike, a function that is left late spins on an empty
// ingress or drops what its egress does not take.
TEST(SimulationTest, StartingTheSwitchEarlyPays) {
  Scenario unequal = OneCore(Policy::kUnis, 2, 10);
  unequal.functions[1].cost_ns = 30;
  Scenario overestimated = OneCore(Policy::kUnis, 5, 15);
  for (FunctionSpec& function : overestimated.functions) function.scheduled_cost_ns = 25;
  for (Scenario& scenario : {std::ref(unequal), std::ref(overestimated)}) {
    const double with_lead = Throughput(scenario, Simulate(scenario));
    scenario.scheduler.latency_compensation = 0;
    EXPECT_GT(with_lead, 1.03 * Throughput(scenario, Simulate(scenario)));
    double cost = 0;
    for (const FunctionSpec& function : scenario.functions) cost += function.cost_ns;
    EXPECT_LT(with_lead, 1e9 / cost);  // nobody beats the work
  }
}

// With the lead nothing is lost but the preemptions: the core is busy in all the rest.
TEST(SimulationTest, TimeOfTheCoreIsWorkSpinningAndPreemptions) {
  for (const Nanoseconds lead : {Nanoseconds{0}, Nanoseconds{14'000}}) {
    Scenario scenario = OneCore(Policy::kUnis, 5, 30);
    scenario.scheduler.latency_compensation = lead;
    const Result result = Simulate(scenario);
    double used = 0;
    for (const FunctionResult& function : result.functions) {
      used += static_cast<double>(function.busy + function.spinning);
    }
    const double preempted =
        static_cast<double>(result.switches) * scenario.machine.kernel_switch_ns;
    EXPECT_NEAR(used + preempted, static_cast<double>(scenario.duration), 5'000);
  }
}

// The service core makes 8 µs of system call a switch, and T = 1 µs: 8 ticks less, for T starts
// again when the loop is through (line 19), after the 8 µs that a switch takes.
TEST(SimulationTest, TicksPauseWhileTheSchedulerSwitches) {
  const Scenario scenario = OneCore(Policy::kUnis, 5, 30);
  const Result result = Simulate(scenario);
  EXPECT_GT(result.switches, 1'000u);
  EXPECT_NEAR(static_cast<double>(result.ticks),
              200'000.0 - 8.0 * static_cast<double>(result.switches), 8);
}

// Ten cores whose slices last 46 µs, and one scheduler that needs 8 µs a switch.
TEST(SimulationTest, SwitchesOfAllCoresAreMadeOneAfterTheOther) {
  Scenario scenario = OneCore(Policy::kUnis, 3, 30);
  const Result alone = Simulate(scenario);
  for (std::uint32_t cpu = 2; cpu <= 10; ++cpu) {
    AddChainLikeTheFirst(scenario, cpu);
  }
  const Result together = Simulate(scenario);
  EXPECT_LE(together.switches, 200'000'000u / 8'000 + 10);
  EXPECT_GT(together.switches, 200'000'000u / 8'000 / 2);
  EXPECT_LT(together.chains[0].delivered, 0.95 * static_cast<double>(alone.chains[0].delivered));
}

std::uint64_t EgressDrops(const Result& result) {
  std::uint64_t sum = 0;
  for (const FunctionResult& function : result.functions) sum += function.dropped_egress_full;
  return sum;
}

// Section 5.7: slices that would fill 125 % of the egress, because the cost is believed too high.
Scenario SlicesTooLong(bool occupancy) {
  Scenario scenario = OneCore(Policy::kUnis, 5, 30);
  scenario.scheduler.occupancy = occupancy;
  for (FunctionSpec& function : scenario.functions) function.scheduled_cost_ns = 30 * 1.25 / 0.75;
  return scenario;
}

TEST(SimulationTest, WithoutOccupancySlicesThatAreTooLongDropPackets) {
  const Scenario scenario = SlicesTooLong(false);
  const Result result = Simulate(scenario);
  const auto& first = result.functions[0];
  // A slice makes 1.25 rings of packets, one of which fits.
  EXPECT_NEAR(static_cast<double>(first.dropped_egress_full) / static_cast<double>(first.processed),
              0.2, 0.03);
}

TEST(SimulationTest, ThetaMaxPreventsThoseDrops) {
  const Scenario scenario = SlicesTooLong(true);
  const Result result = Simulate(scenario);
  EXPECT_EQ(EgressDrops(result), 0u);
  const Scenario pure = SlicesTooLong(false);
  EXPECT_GT(Throughput(scenario, result), 1.1 * Throughput(pure, Simulate(pure)));
}

TEST(SimulationTest, ThetaMaxPreventsDropsBeforeASlowFunction) {
  Scenario scenario = OneCore(Policy::kUnis, 2, 30);
  scenario.functions[1].cost_ns = 300;
  EXPECT_EQ(EgressDrops(Simulate(scenario)), 0u);
}

TEST(SimulationTest, BelowSaturationEverythingArrives) {
  for (const ArrivalKind kind :
       {ArrivalKind::kConstant, ArrivalKind::kPoisson, ArrivalKind::kOnOff}) {
    Scenario scenario = OneCore(Policy::kUnis, 3, 50);
    ArrivalSpec& arrivals = scenario.chains[0].arrivals;
    arrivals = {.kind = kind, .pps = 2e6, .on = 100'000, .off = 100'000};
    const Result result = Simulate(scenario);
    const double on = kind == ArrivalKind::kOnOff ? 0.5 : 1;
    EXPECT_NEAR(static_cast<double>(result.chains[0].offered), 0.2 * 2e6 * on, 0.02 * 0.2 * 2e6);
    EXPECT_EQ(result.chains[0].dropped_ingress_full, 0u);
    EXPECT_EQ(EgressDrops(result), 0u);
  }
}

TEST(SimulationTest, AFirewallPassesItsShare) {
  Scenario scenario = OneCore(Policy::kUnis, 2, 50);
  scenario.functions[0].pass_ratio = 0.3;
  const Result result = Simulate(scenario);
  const FunctionResult& firewall = result.functions[0];
  EXPECT_NEAR(static_cast<double>(firewall.dropped_by_function),
              0.7 * static_cast<double>(firewall.processed), 64);
  EXPECT_NEAR(static_cast<double>(result.functions[1].processed),
              0.3 * static_cast<double>(firewall.processed), 2 * kRing);
}

TEST(SimulationTest, CostFollowsThePacketSize) {
  Scenario scenario = OneCore(Policy::kFifo, 1, 0);
  scenario.functions[0].cost_by_size = {{64, 64}, {1518, 1518}};
  scenario.chains[0].arrivals.mix = SizeMix::kImix;
  const double mean_bytes = (7 * 64 + 4 * 594 + 1518) / 12.0;
  EXPECT_NEAR(Throughput(scenario, Simulate(scenario)), 1e9 / mean_bytes, 0.01 * 1e9 / mean_bytes);
  scenario.chains[0].arrivals = {.size = 594};
  EXPECT_NEAR(Throughput(scenario, Simulate(scenario)), 1e9 / 594, 0.001 * 1e9 / 594);
}

TEST(SimulationTest, ALonelyPacketTakesAPollAndItsCost) {
  Scenario scenario = OneCore(Policy::kFifo, 1, 100);
  scenario.machine.poll_ns = 32;
  scenario.chains[0].arrivals = {.kind = ArrivalKind::kConstant, .pps = 99'990, .burst = 1};
  const Result result = Simulate(scenario);
  EXPECT_GE(result.chains[0].latency.ValueAtPercentile(0), 100u);
  EXPECT_LE(result.chains[0].latency.ValueAtPercentile(100), 132u);
  EXPECT_NEAR(static_cast<double>(result.chains[0].latency.ValueAtPercentile(50)), 116, 8);
  EXPECT_EQ(result.chains[0].latency.Count(), result.chains[0].delivered);
}

TEST(SimulationTest, ASaturatedRingIsWaitedThrough) {
  const Result result = Simulate(OneCore(Policy::kFifo, 1, 100));
  // 32 bursts before it, and its own.
  EXPECT_NEAR(static_cast<double>(result.chains[0].latency.ValueAtPercentile(50)), 33 * 6'400,
              33 * 6'400 * 0.01);
}

TEST(SimulationTest, MaxWaitFreesTheLastPackets) {
  Scenario scenario = OneCore(Policy::kUnis, 2, 50);
  scenario.warmup = 0;
  // 40 packets, then silence: no more than θmin, so Algorithm 1 as printed leaves them in the ring.
  scenario.chains[0].arrivals = {.kind = ArrivalKind::kOnOff,
                                 .pps = 40e6,
                                 .on = 1'000,
                                 .off = 900 * kMillisecond,
                                 .burst = 40};
  EXPECT_EQ(Simulate(scenario).chains[0].delivered, 0u);
  scenario.scheduler.max_wait = 100'000;
  const Result result = Simulate(scenario);
  EXPECT_EQ(result.chains[0].delivered, 40u);
  EXPECT_LT(result.chains[0].latency.ValueAtPercentile(100), 150'000u);
}

TEST(SimulationTest, RunsTellWhoRanWhen) {
  for (const Policy policy : {Policy::kUnis, Policy::kCooperative, Policy::kOther}) {
    Scenario scenario = OneCore(policy, 3, 50);
    scenario.trace = true;
    const Result result = Simulate(scenario);
    ASSERT_GT(result.runs.size(), 50u);
    std::vector<std::uint64_t> packets(3);
    Nanoseconds last_end = scenario.warmup;
    for (const RunInterval& run : result.runs) {
      EXPECT_GE(run.begin, last_end);
      EXPECT_GT(run.end, run.begin);
      last_end = run.end;
      packets[run.function] += run.packets;
    }
    EXPECT_LE(last_end, scenario.warmup + scenario.duration);
    for (TaskIndex task = 0; task < 3; ++task) {
      EXPECT_EQ(packets[task], result.functions[task].processed);
    }
    EXPECT_NEAR(static_cast<double>(result.runs.size()), static_cast<double>(result.switches), 2);
  }
}

TEST(SimulationTest, TheTraceIsOffUnlessAskedFor) {
  const Result result = Simulate(OneCore(Policy::kUnis, 3, 50));
  EXPECT_TRUE(result.runs.empty());
  EXPECT_TRUE(result.events.empty());
}

}  // namespace
}  // namespace unis::sim
