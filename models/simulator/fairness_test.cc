// That tasks of one core get their share, in the short and in the long: whose chain they are of
// does not matter, nor how many others there are.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "models/simulator/scenarios_for_test.h"
#include "models/simulator/simulation.h"

namespace unis::sim {
namespace {

constexpr Nanoseconds kSecond = 1'000 * kMillisecond;

// As the engine has it (`unis up` without a word in the chain file).
void AsTheEngine(SchedulerSettings& settings) {
  settings.lazy = true;
  settings.online_cost = true;
  settings.max_wait = 1'000'000;
}

// Two chains of `length` functions each on one CPU, which have nothing in common but that.
Scenario TwoChains(std::size_t length, double cost_ns, bool as_printed) {
  Scenario scenario = OneCore(Policy::kUnis, length, cost_ns);
  AddChainLikeTheFirst(scenario, 1);
  scenario.duration = 2 * kSecond;
  if (as_printed)
    scenario.scheduler.latency_compensation = 0;
  else
    AsTheEngine(scenario.scheduler);
  return scenario;
}

// The second chain's packets by those of the first.
double Ratio(const Result& result) {
  return static_cast<double>(result.chains[1].delivered) /
         static_cast<double>(result.chains[0].delivered);
}

struct Case {
  std::size_t length;
  double cost_ns;
};

class EqualChainsTest : public testing::TestWithParam<Case> {};

TEST_P(EqualChainsTest, PassAsMuchAsEachOther) {
  for (const bool as_printed : {true, false}) {
    Scenario scenario = TwoChains(GetParam().length, GetParam().cost_ns, as_printed);
    EXPECT_NEAR(Ratio(Simulate(scenario)), 1, 0.03) << as_printed;
    // Ticks that come late and switches that fail strike both, at random.
    scenario.duration = 10 * kSecond;
    scenario.machine.late_tick_ratio = 0.05;
    scenario.machine.late_tick = 50'000;
    scenario.machine.lost_switch_ratio = 0.1;
    EXPECT_NEAR(Ratio(Simulate(scenario)), 1, 0.03) << as_printed;
  }
}

TEST_P(EqualChainsTest, PassAsMuchWhereSourceAndSinkTakeTime) {
  Scenario scenario = TwoChains(GetParam().length, GetParam().cost_ns, false);
  scenario.machine.source_ns = 20;
  scenario.machine.sink_ns = 20;
  EXPECT_NEAR(Ratio(Simulate(scenario)), 1, 0.03);
}

TEST_P(EqualChainsTest, OneThatIsOfferedMoreThanItsHalfTakesNothingFromOneOfferedLess) {
  Scenario scenario = TwoChains(GetParam().length, GetParam().cost_ns, false);
  const Result both = Simulate(scenario);
  const double half = Throughput(scenario, both);
  scenario.chains[0].arrivals = {.kind = ArrivalKind::kPoisson, .pps = 0.8 * half};
  const Result result = Simulate(scenario);
  EXPECT_NEAR(Throughput(scenario, result), 0.8 * half, 0.01 * half);
  EXPECT_EQ(result.chains[0].dropped_ingress_full, 0u);
  EXPECT_GT(result.chains[1].delivered, both.chains[1].delivered);
}

INSTANTIATE_TEST_SUITE_P(Chains, EqualChainsTest,
                         testing::Values(Case{1, 60}, Case{1, 400}, Case{2, 60}, Case{3, 30},
                                         Case{3, 200}, Case{5, 100}));

// A share that is off by little adds up.
TEST(FairnessTest, EqualChainsAreEqualInTheLong) {
  Scenario scenario = TwoChains(3, 200, false);
  scenario.duration = 30 * kSecond;
  EXPECT_NEAR(Ratio(Simulate(scenario)), 1, 0.003);
}

// A slice fills γ of the egress, so turns are of as many packets whatever they cost: chains in turn
// pass as many packets, and one that is dear has more of the CPU.
TEST(FairnessTest, ChainsOfUnequalCostsPassAsManyPackets) {
  for (const double times : {3.0, 10.0}) {
    Scenario scenario = TwoChains(2, 60, false);
    for (const FunctionIndex function : scenario.chains[1].path)
      scenario.functions[function].cost_ns *= times;
    EXPECT_NEAR(Ratio(Simulate(scenario)), 1, 0.03) << times;
  }
}

// While the source of one stands still, the other has the whole CPU; then both are equal again.
TEST(FairnessTest, AChainWhoseSourceStopsLeavesTheCpuToTheOtherAndHasItBack) {
  Scenario both = TwoChains(2, 100, false);
  both.duration = 6 * kSecond;
  Scenario alone = both;
  alone.chains.resize(1);
  alone.functions.resize(2);
  const double half = Throughput(both, Simulate(both));
  const double whole = Throughput(alone, Simulate(alone));
  Scenario scenario = both;
  scenario.chains[1].arrivals = {
      .kind = ArrivalKind::kOnOff, .pps = 4 * whole, .on = kSecond, .off = kSecond};
  const Result result = Simulate(scenario);
  const double first = Throughput(scenario, result);
  EXPECT_NEAR(first, (half + whole) / 2, 0.03 * first);
  EXPECT_NEAR(Ratio(result), half / (half + whole), 0.02);
}

// ------------------------------------------------------------------ sixteen on a core

constexpr std::uint32_t kFunctions = 16;

// What of a run of `seconds` tells that somebody starves.
struct Least {
  std::uint64_t turns = ~0ull;    // of a function in a second
  std::uint64_t packets = ~0ull;  // likewise
  Nanoseconds gap = 0;            // between two turns of a function
};

Least LeastOf(const Scenario& scenario, const Result& result) {
  struct Second {
    std::uint64_t turns = 0, packets = 0;
  };
  const auto seconds = static_cast<std::size_t>(scenario.duration / kSecond);
  std::vector<std::vector<Second>> by_function(scenario.functions.size(),
                                               std::vector<Second>(seconds));
  std::vector<Nanoseconds> ended(scenario.functions.size(), scenario.warmup);
  Least least;
  for (const RunInterval& run : result.runs) {
    const auto second = static_cast<std::size_t>((run.begin - scenario.warmup) / kSecond);
    Second& here = by_function[run.function][std::min(second, seconds - 1)];
    ++here.turns;
    here.packets += run.packets;
    least.gap = std::max(least.gap, run.begin - ended[run.function]);
    ended[run.function] = run.end;
  }
  const Nanoseconds end = scenario.warmup + scenario.duration;
  for (const Nanoseconds last : ended) least.gap = std::max(least.gap, end - last);
  for (const std::vector<Second>& function : by_function) {
    for (const Second& second : function) {
      least.turns = std::min(least.turns, second.turns);
      least.packets = std::min(least.packets, second.packets);
    }
  }
  return least;
}

// A minute of `chains` chains of together 16 functions.
Scenario Sixteen(std::size_t chains, double cost_ns) {
  Scenario scenario = OneCore(Policy::kUnis, kFunctions / chains, cost_ns);
  while (scenario.chains.size() < chains) AddChainLikeTheFirst(scenario, 1);
  AsTheEngine(scenario.scheduler);
  scenario.duration = 60 * kSecond;
  scenario.trace = true;
  return scenario;
}

// A round: all others run for a slice each, and are switched to.
Nanoseconds Round(const Scenario& scenario) {
  Nanoseconds round = 0;
  for (const FunctionSpec& function : scenario.functions)
    round += static_cast<Nanoseconds>(function.cost_ns * 0.75 * kRing + scenario.machine.switch_ns);
  return round;
}

// `rounds`: within which each has its turn.
void ExpectNobodyStarves(const Scenario& scenario, double rounds = 2) {
  const Least least = LeastOf(scenario, Simulate(scenario));
  const auto round = static_cast<double>(Round(scenario));
  EXPECT_LT(static_cast<double>(least.gap), rounds * round);
  EXPECT_GT(static_cast<double>(least.turns), 1e9 / round / rounds);
  EXPECT_GT(least.packets, least.turns * 64);
}

TEST(StarvationTest, SixteenFunctionsHaveTheirTurnsForAMinute) {
  for (const std::size_t chains : {1u, 2u, 16u}) {
    SCOPED_TRACE(chains);
    ExpectNobodyStarves(Sixteen(chains, 1'000));
  }
}

TEST(StarvationTest, NorWhereOneOfThemCostsFarMore) {
  Scenario scenario = Sixteen(2, 300);
  scenario.functions[3].cost_ns = 3'000;
  ExpectNobodyStarves(scenario);
}

// Who cannot be switched to goes to the back of the queue: it may lose some rounds in a row, of
// which one in ten is lost, and no more.
TEST(StarvationTest, NorWhereTicksComeLateAndSwitchesFail) {
  Scenario scenario = Sixteen(2, 400);
  scenario.machine.late_tick_ratio = 0.05;
  scenario.machine.late_tick = 100'000;
  scenario.machine.lost_switch_ratio = 0.1;
  ExpectNobodyStarves(scenario, 8);
}

// So that these tests can fail: what they would say of a policy that starves.
TEST(StarvationTest, IsSeenWhereThereIsOne) {
  Scenario scenario = Sixteen(1, 400);
  scenario.policy = Policy::kFifo;
  scenario.duration = 2 * kSecond;
  const Least least = LeastOf(scenario, Simulate(scenario));
  EXPECT_EQ(least.turns, 0u);
  EXPECT_EQ(least.packets, 0u);
  EXPECT_EQ(least.gap, scenario.duration);
}

}  // namespace
}  // namespace unis::sim
