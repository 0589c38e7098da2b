// What holds in every scenario: packets and CPU time are conserved, and results are reproducible.
#include <gtest/gtest.h>

#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "engine/base/dice_for_test.h"
#include "engine/base/golden_for_test.h"
#include "models/simulator/scenario_json.h"
#include "models/simulator/simulation.h"

namespace unis::sim {
namespace {

FunctionSpec DrawFunction(Dice& dice, const std::string& name) {
  FunctionSpec function;
  function.name = name;
  function.cpu = dice.Between(0, 3);
  function.cost_ns = dice.Between(50, 3'000) / 10.0;
  if (dice.OneIn(4))
    function.cost_by_size = {{64, function.cost_ns}, {1'000, function.cost_ns * 2}};
  function.yield_every = dice.Between(0, 10);
  if (dice.OneIn(3)) function.pass_ratio = dice.Between(1, 100) / 100.0;
  if (dice.OneIn(3)) function.scheduled_cost_ns = dice.Between(1, 1'000);
  return function;
}

// Through functions of its own and, at times, through one of a chain before it.
ChainSpec DrawChain(Dice& dice, const std::string& name, Scenario& scenario) {
  ChainSpec chain;
  chain.name = name;
  const std::uint32_t count = dice.Between(1, 6);
  for (std::uint32_t i = 0; i < count; ++i) {
    const auto known = static_cast<std::uint32_t>(scenario.functions.size());
    if (known > 0 && dice.OneIn(4)) {
      chain.path.push_back(dice.Between(0, known - 1));
      continue;
    }
    chain.path.push_back(known);
    scenario.functions.push_back(DrawFunction(dice, name + std::to_string(i)));
  }
  for (std::size_t link = 0; link <= chain.path.size(); ++link)
    chain.capacity.push_back((2u << dice.Between(0, 11)) + dice.Between(0, 3));
  chain.arrivals.kind = static_cast<ArrivalKind>(dice.Between(0, 3));
  chain.arrivals.pps = dice.Between(1, 20'000) * 1e3;
  chain.arrivals.on = dice.Between(1, 1'000'000);
  chain.arrivals.off = dice.Between(0, 1'000'000);
  chain.arrivals.mix = static_cast<SizeMix>(dice.Between(0, 2));
  chain.arrivals.burst = dice.Between(1, 300);
  return chain;
}

Scenario Draw(std::uint64_t seed) {
  Dice dice(seed);
  Scenario scenario;
  const std::uint32_t chains = dice.Between(1, 3);
  for (std::uint32_t i = 0; i < chains; ++i) {
    const std::string name(1, static_cast<char>('a' + i));
    scenario.chains.push_back(DrawChain(dice, name, scenario));
  }
  MachineSpec& machine = scenario.machine;
  machine.switch_ns = dice.Between(1, 30'000);
  machine.switch_call_ns = dice.Between(1, 20'000);
  machine.yield_ns = dice.Between(100, 3'000);
  machine.kernel_switch_ns = dice.Between(1, 20'000);  // at times longer than a switch
  machine.poll_ns = dice.Between(5, 200);
  machine.rr_slice = dice.Between(1'000, 2'000'000);
  machine.fair_slice = dice.Between(1'000, 2'000'000);
  if (dice.OneIn(3)) {
    machine.late_tick_ratio = dice.Between(0, 100) / 100.0;
    machine.late_tick = dice.Between(0, 100'000);
    machine.lost_switch_ratio = dice.Between(0, 90) / 100.0;
  }
  scenario.scheduler.lazy = dice.OneIn(2);
  scenario.scheduler.theta_min = dice.Between(0, 64);
  scenario.scheduler.interval = dice.Between(500, 5'000);
  scenario.scheduler.occupancy = !dice.OneIn(4);
  scenario.scheduler.latency_compensation = dice.OneIn(2) ? 0 : dice.Between(0, 30'000);
  scenario.scheduler.max_wait = dice.OneIn(2) ? 0 : dice.Between(0, 300'000);
  // A policy that comes later has seeds of its own, behind these: else each of these draws changes.
  scenario.policy = static_cast<Policy>(dice.Between(1, 6));
  scenario.warmup = dice.OneIn(3) ? 0 : dice.Between(0, 2'000'000);
  scenario.duration = dice.Between(1, 4'000'000);
  scenario.seed = seed;
  scenario.trace = true;
  if (dice.OneIn(2)) {
    machine.source_ns = dice.Between(0, 200);
    machine.sink_ns = dice.Between(0, 200);
    machine.platform_has_three_cpus = dice.OneIn(2);
  }
  if (scenario.policy == Policy::kUnis && dice.OneIn(2)) {
    scenario.handover = true;
    scenario.scheduler.budget = dice.OneIn(2) ? 0 : dice.Between(1, 3'000);
  }
  scenario.scheduler.online_cost = !dice.OneIn(4);  // as chains have it by default
  return scenario;
}

constexpr std::uint64_t kScenarios = 600;

TEST(RandomScenarioTest, EveryPacketIsAccountedFor) {
  std::uint64_t delivered = 0;
  std::uint64_t failed = 0;
  for (std::uint64_t seed = 0; seed < kScenarios; ++seed) {
    const Result result = Simulate(Draw(seed));
    std::uint64_t lost_in_chains = 0;
    for (const ChainResult& chain : result.chains) {
      const std::uint64_t lost = chain.dropped_egress_full + chain.dropped_by_function;
      ASSERT_EQ(chain.delivered + chain.dropped_ingress_full + lost + chain.in_flight,
                chain.offered)
          << "seed " << seed;
      ASSERT_EQ(chain.latency.Count(), chain.delivered) << "seed " << seed;
      lost_in_chains += lost;
      delivered += chain.delivered;
    }
    std::uint64_t lost_by_functions = 0;
    for (const FunctionResult& function : result.functions) {
      ASSERT_GE(function.processed, function.dropped_egress_full + function.dropped_by_function);
      lost_by_functions += function.dropped_egress_full + function.dropped_by_function;
    }
    ASSERT_EQ(lost_in_chains, lost_by_functions) << "seed " << seed;
    failed += result.failed_switches;
  }
  EXPECT_GT(delivered, 1'000'000u);
  EXPECT_GT(failed, 100u);
}

TEST(RandomScenarioTest, ACoreIsUsedNoLongerThanTheTimeThatPassed) {
  for (std::uint64_t seed = 0; seed < kScenarios; ++seed) {
    const Scenario scenario = Draw(seed);
    const Result result = Simulate(scenario);
    std::map<std::uint32_t, Nanoseconds> used;
    for (std::size_t i = 0; i < scenario.functions.size(); ++i) {
      const FunctionResult& function = result.functions[i];
      ASSERT_GE(function.busy, 0);
      ASSERT_GE(function.spinning, 0);
      used[scenario.functions[i].cpu] += function.busy + function.spinning;
    }
    for (const auto& [cpu, time] : used) {
      ASSERT_LE(time, scenario.duration) << "seed " << seed << " cpu " << cpu;
    }
  }
}

TEST(RandomScenarioTest, RunsOfACoreDoNotOverlapAndHoldAllPackets) {
  for (std::uint64_t seed = 0; seed < kScenarios; ++seed) {
    const Scenario scenario = Draw(seed);
    const Result result = Simulate(scenario);
    std::map<CoreIndex, Nanoseconds> last_end;
    std::uint64_t packets = 0;
    for (const RunInterval& run : result.runs) {
      ASSERT_GE(run.begin, std::max(last_end[run.core], scenario.warmup)) << "seed " << seed;
      ASSERT_LE(run.end, scenario.warmup + scenario.duration) << "seed " << seed;
      last_end[run.core] = run.end;
      packets += run.packets;
    }
    std::uint64_t processed = 0;
    for (const FunctionResult& function : result.functions) processed += function.processed;
    ASSERT_EQ(packets, processed) << "seed " << seed;
  }
}

// FNV-1a: a line in the golden file stands for a whole result.
std::uint64_t Digest(const std::string& text) {
  std::uint64_t hash = 0xCBF29CE484222325u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3u;
  return hash;
}

// From run to run and from one version to the next. No Poisson arrivals: their logarithm may differ
// between mathematics libraries.
TEST(RandomScenarioTest, TheSameScenarioGivesTheSameBytes) {
  std::ostringstream now_made;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    Scenario scenario = Draw(seed);
    for (ChainSpec& chain : scenario.chains) {
      if (chain.arrivals.kind == ArrivalKind::kPoisson)
        chain.arrivals.kind = ArrivalKind::kConstant;
    }
    const Result result = Simulate(scenario);
    now_made << seed << " delivered " << result.chains[0].delivered << " switches "
             << result.switches << " digest " << std::hex << Digest(ResultToJson(scenario, result))
             << std::dec << "\n";
  }
  EXPECT_EQ(now_made.str(), Golden(SCENARIOS_GOLDEN, now_made.str()));
}

TEST(RandomScenarioTest, TheSeedMatters) {
  Scenario scenario = Draw(1);
  for (ChainSpec& chain : scenario.chains) {
    chain.arrivals.kind = ArrivalKind::kPoisson;
    chain.arrivals.pps = 1e6;
  }
  scenario.duration = 50'000'000;
  const std::string first = ResultToJson(scenario, Simulate(scenario));
  scenario.seed += 1;
  EXPECT_NE(first, ResultToJson(scenario, Simulate(scenario)));
}

}  // namespace
}  // namespace unis::sim
