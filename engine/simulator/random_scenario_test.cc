// What holds in every scenario: packets and CPU time are conserved, and results are reproducible.
#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "engine/simulator/scenario_json.h"
#include "engine/simulator/simulation.h"
#include "engine/simulator/traffic.h"

namespace unis::sim {
namespace {

class Dice {
 public:
  explicit Dice(std::uint64_t seed) : random_(seed) {}
  std::uint32_t Between(std::uint32_t low, std::uint32_t high) {
    return low + static_cast<std::uint32_t>(random_.Next() % (high - low + 1));
  }
  bool OneIn(std::uint32_t n) { return Between(1, n) == 1; }

 private:
  Random random_;
};

NfSpec DrawNf(Dice& dice, const std::string& name) {
  NfSpec nf;
  nf.name = name;
  nf.cpu = dice.Between(0, 3);
  nf.cost_ns = dice.Between(50, 3'000) / 10.0;
  if (dice.OneIn(4)) nf.cost_by_size = {{64, nf.cost_ns}, {1'000, nf.cost_ns * 2}};
  nf.yield_every = dice.Between(0, 10);
  if (dice.OneIn(3)) nf.pass_ratio = dice.Between(1, 100) / 100.0;
  if (dice.OneIn(3)) nf.scheduled_cost_ns = dice.Between(1, 1'000);
  return nf;
}

ChainSpec DrawChain(Dice& dice, const std::string& name) {
  ChainSpec chain;
  chain.name = name;
  const std::uint32_t count = dice.Between(1, 6);
  for (std::uint32_t i = 0; i < count; ++i) {
    chain.nfs.push_back(DrawNf(dice, name + std::to_string(i)));
  }
  chain.ring_size = 2u << dice.Between(0, 11);
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
    scenario.chains.push_back(DrawChain(dice, std::string(1, static_cast<char>('a' + i))));
  }
  MachineSpec& machine = scenario.machine;
  machine.switch_ns = dice.Between(1, 30'000);
  machine.switch_call_ns = dice.Between(1, 20'000);
  machine.yield_ns = dice.Between(100, 3'000);
  machine.kernel_switch_ns = dice.Between(1, 20'000);  // at times longer than a switch
  machine.poll_ns = dice.Between(5, 200);
  machine.rr_slice = dice.Between(1'000, 2'000'000);
  machine.fair_slice = dice.Between(1'000, 2'000'000);
  scenario.scheduler.theta_min = dice.Between(0, 64);
  scenario.scheduler.interval = dice.Between(500, 5'000);
  scenario.scheduler.occupancy = !dice.OneIn(4);
  scenario.scheduler.lead = dice.OneIn(2) ? 0 : dice.Between(0, 30'000);
  scenario.scheduler.max_wait = dice.OneIn(2) ? 0 : dice.Between(0, 300'000);
  scenario.policy = static_cast<Policy>(dice.Between(0, 5));
  scenario.warmup = dice.OneIn(3) ? 0 : dice.Between(0, 2'000'000);
  scenario.duration = dice.Between(1, 4'000'000);
  scenario.seed = seed;
  scenario.trace = true;
  if (dice.OneIn(2)) {
    machine.source_ns = dice.Between(0, 200);
    machine.sink_ns = dice.Between(0, 200);
    machine.platform_has_three_cpus = dice.OneIn(2);
  }
  return scenario;
}

constexpr std::uint64_t kScenarios = 600;

TEST(RandomScenarioTest, EveryPacketIsAccountedFor) {
  std::uint64_t delivered = 0;
  for (std::uint64_t seed = 0; seed < kScenarios; ++seed) {
    const Scenario scenario = Draw(seed);
    const Result result = Simulate(scenario);
    for (std::size_t i = 0; i < result.chains.size(); ++i) {
      const ChainResult& chain = result.chains[i];
      std::uint64_t sum = chain.delivered + chain.dropped_ingress_full + chain.in_flight;
      for (const NfResult& nf : chain.nfs) sum += nf.dropped_egress_full + nf.dropped_by_function;
      ASSERT_EQ(sum, chain.offered) << "seed " << seed;
      ASSERT_EQ(chain.latency.Count(), chain.delivered) << "seed " << seed;
      // What an NF sent on, less what did not fit, is what the next received or finds in its ring.
      const std::uint64_t left_last = chain.nfs.back().processed -
                                      chain.nfs.back().dropped_by_function -
                                      chain.nfs.back().dropped_egress_full;
      if (scenario.machine.platform_takes_time()) {  // a ring lies in between
        ASSERT_NEAR(static_cast<double>(left_last), static_cast<double>(chain.delivered),
                    scenario.chains[i].ring_size)
            << "seed " << seed;
      } else {
        ASSERT_EQ(left_last, chain.delivered) << "seed " << seed;
      }
      delivered += chain.delivered;
    }
  }
  EXPECT_GT(delivered, 1'000'000u);
}

TEST(RandomScenarioTest, ACoreIsUsedNoLongerThanTheTimeThatPassed) {
  for (std::uint64_t seed = 0; seed < kScenarios; ++seed) {
    const Scenario scenario = Draw(seed);
    const Result result = Simulate(scenario);
    std::map<std::uint32_t, Nanoseconds> used;
    for (std::size_t i = 0; i < scenario.chains.size(); ++i) {
      for (std::size_t k = 0; k < scenario.chains[i].nfs.size(); ++k) {
        const NfResult& nf = result.chains[i].nfs[k];
        ASSERT_GE(nf.busy, 0);
        ASSERT_GE(nf.spinning, 0);
        used[scenario.chains[i].nfs[k].cpu] += nf.busy + nf.spinning;
      }
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
    for (const ChainResult& chain : result.chains) {
      for (const NfResult& nf : chain.nfs) processed += nf.processed;
    }
    ASSERT_EQ(packets, processed) << "seed " << seed;
  }
}

TEST(RandomScenarioTest, TheSameScenarioGivesTheSameBytes) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const Scenario scenario = Draw(seed);
    ASSERT_EQ(ResultToJson(scenario, Simulate(scenario)),
              ResultToJson(scenario, Simulate(scenario)))
        << "seed " << seed;
  }
}

TEST(RandomScenarioTest, TheSeedMatters) {
  Scenario scenario = Draw(1);
  scenario.chains.resize(1);
  scenario.chains[0].arrivals.kind = ArrivalKind::kPoisson;
  scenario.chains[0].arrivals.pps = 1e6;
  scenario.duration = 50'000'000;
  const std::string first = ResultToJson(scenario, Simulate(scenario));
  scenario.seed += 1;
  EXPECT_NE(first, ResultToJson(scenario, Simulate(scenario)));
}

}  // namespace
}  // namespace unis::sim
