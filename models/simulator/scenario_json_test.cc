#include "models/simulator/scenario_json.h"

#include <google/protobuf/util/json_util.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "models/simulator/simulation.h"

namespace unis::sim {
namespace {

constexpr const char* kGood = R"({
  "policy": "POLICY_UNIS", "durationNs": "1000000", "warmup_ns": 5, "seed": "18446744073709551615",
  "functions": [
    {"name": "nat", "cpu": 1, "size": [64, 1518], "size_cost_ns": [30, 90]},
    {"name": "fw", "cpu": 3, "cost_ns": 40, "pass_ratio": 0.5, "yield_every": 4}
  ],
  "chains": [{
    "name": "c", "path": ["fw", "nat"], "capacity": [511],
    "arrivals": {"kind": "ARRIVAL_POISSON", "pps": 1e6, "mix": "SIZE_MIX_IMIX"}
  }]
})";

Scenario Good(const std::string& json = kGood) {
  const auto scenario = ScenarioFromJson(json);
  EXPECT_TRUE(scenario.ok()) << scenario.status();
  return scenario.value_or(Scenario{});
}

std::string With(const std::string& from, const std::string& to) {
  std::string json = kGood;
  const std::size_t at = json.find(from);
  if (at == std::string::npos) ADD_FAILURE() << from << " is not in the scenario";
  return json.replace(at, from.size(), to);
}

TEST(ScenarioJsonTest, ReadsWhatIsThereAndDefaultsTheRest) {
  const Scenario scenario = Good();
  EXPECT_EQ(scenario.policy, Policy::kUnis);
  EXPECT_EQ(scenario.duration, 1'000'000);
  EXPECT_EQ(scenario.warmup, 5);
  EXPECT_EQ(scenario.seed, ~std::uint64_t{0});
  EXPECT_FALSE(scenario.trace);
  ASSERT_EQ(scenario.chains.size(), 1u);
  const ChainSpec& chain = scenario.chains[0];
  EXPECT_EQ(chain.path, (std::vector<FunctionIndex>{0, 1}));
  EXPECT_EQ(chain.capacity, (std::vector<std::uint32_t>{511, 511, 511}));
  // In the order of the chain, not of the list.
  ASSERT_EQ(scenario.functions.size(), 2u);
  const FunctionSpec& first = scenario.functions[0];
  EXPECT_EQ(first.name, "fw");
  EXPECT_EQ(first.cpu, 3u);
  EXPECT_DOUBLE_EQ(first.pass_ratio, 0.5);
  EXPECT_EQ(first.yield_every, 4u);
  EXPECT_FALSE(first.scheduled_cost_ns.has_value());
  EXPECT_EQ(first.cost_factor, 1);
  const FunctionSpec& second = scenario.functions[1];
  EXPECT_DOUBLE_EQ(second.pass_ratio, 1);
  ASSERT_EQ(second.cost_by_size.size(), 2u);
  EXPECT_EQ(second.cost_by_size[1], (std::pair<std::uint32_t, double>{1518, 90}));
  EXPECT_EQ(chain.arrivals.kind, ArrivalKind::kPoisson);
  EXPECT_EQ(chain.arrivals.mix, SizeMix::kImix);
  EXPECT_EQ(chain.arrivals.burst, 32u);
}

TEST(ScenarioJsonTest, MachineDefaultsAreTheMeasuredOnes) {
  const MachineSpec machine = Good().machine;
  EXPECT_EQ(machine.switch_ns, 14'000);
  EXPECT_EQ(machine.switch_call_ns, 8'000);
  EXPECT_EQ(machine.yield_ns, 1'400);
  EXPECT_EQ(machine.kernel_switch_ns, 2'500);
  EXPECT_EQ(machine.poll_ns, 20);
  EXPECT_EQ(machine.rr_slice, 100'000'000);
  EXPECT_EQ(machine.fair_slice, 3'000'000);
}

TEST(ScenarioJsonTest, ACostMayChangeOnTheWay) {
  const FunctionSpec function =
      Good(
          With(R"("cost_ns": 40)", R"("cost_ns": 40, "cost_factor": 5, "cost_changes_at_ns": 700)"))
          .functions[0];
  EXPECT_EQ(function.cost_factor, 5);
  EXPECT_EQ(function.cost_changes_at, 700);
}

TEST(ScenarioJsonTest, WithoutASchedulerItIsThePapersWithALead) {
  const SchedulerSettings settings = Good().scheduler;
  EXPECT_EQ(settings.theta_min, 56u);
  EXPECT_TRUE(settings.occupancy);
  EXPECT_FALSE(settings.theta_max.has_value());
  EXPECT_EQ(settings.interval, 1'000);
  EXPECT_FALSE(settings.online_cost);
  EXPECT_EQ(settings.latency_compensation, 11'500);
  EXPECT_TRUE(settings.lazy);  // as in the engine
}

TEST(ScenarioJsonTest, EachLinkCanHaveACapacityOfItsOwn) {
  const Scenario scenario = Good(With("[511]", "[511, 63, 1023]"));
  EXPECT_EQ(scenario.chains[0].capacity, (std::vector<std::uint32_t>{511, 63, 1023}));
}

TEST(ScenarioJsonTest, FaultsAreNoneUnlessInjected) {
  EXPECT_EQ(Good().machine.lost_switch_ratio, 0);
  const std::string machine =
      R"("machine": {"late_tick_ratio": 0.5, "late_tick_ns": 9, "lost_switch_ratio": 0.25}, )";
  const MachineSpec faulty = Good(With(R"("policy":)", machine + R"("policy":)")).machine;
  EXPECT_EQ(faulty.late_tick_ratio, 0.5);
  EXPECT_EQ(faulty.late_tick, 9);
  EXPECT_EQ(faulty.lost_switch_ratio, 0.25);
}

TEST(ScenarioJsonTest, TheLeadLastsUntilTheCurrentTaskStopsUnlessGiven) {
  const std::string machine = R"("machine": {"switch_ns": 9000.4}, "policy":)";
  EXPECT_EQ(Good(With(R"("policy":)", machine)).scheduler.latency_compensation, 6'500);
  const std::string given = R"("scheduler": {"gamma": 0.5, "interval_ns": 2000, "lead_ns": 0,
      "theta_max": 9}, )" + machine;
  const SchedulerSettings settings = Good(With(R"("policy":)", given)).scheduler;
  EXPECT_EQ(settings.latency_compensation, 0);
  EXPECT_EQ(settings.theta_max, 9u);
  EXPECT_EQ(settings.theta_min, 0u);
  EXPECT_FALSE(settings.occupancy);
  EXPECT_DOUBLE_EQ(settings.gamma, 0.5);
  EXPECT_EQ(settings.interval, 2'000);
}

struct Bad {
  const char* from;
  const char* to;
  const char* field;  // must be named
};

class BadScenarioTest : public testing::TestWithParam<Bad> {};

TEST_P(BadScenarioTest, IsRefusedInOneSentenceThatNamesTheField) {
  const Bad& bad = GetParam();
  const auto scenario = ScenarioFromJson(With(bad.from, bad.to));
  ASSERT_FALSE(scenario.ok()) << bad.to;
  const std::string message(scenario.status().message());
  EXPECT_NE(message.find(bad.field), std::string::npos) << message;
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  EXPECT_EQ(message.back(), '.') << message;
}

INSTANTIATE_TEST_SUITE_P(
    Fields, BadScenarioTest,
    testing::Values(
        Bad{R"("POLICY_UNIS")", R"("POLICY_UNSPECIFIED")", "policy"},
        Bad{R"("POLICY_UNIS")", R"("POLICY_BEST")", "POLICY_BEST"},
        Bad{R"("POLICY_UNIS")", "99", "policy"}, Bad{R"("1000000")", "0", "duration_ns"},
        Bad{R"("1000000")", "-1", "duration_ns"},
        Bad{R"("1000000")", R"("2000000000000")", "duration_ns"},
        Bad{R"("warmup_ns": 5)", R"("warmup_ns": 5000000000000)", "warmup_ns"},
        Bad{"[511]", "[1]", "capacity"}, Bad{"[511]", "[]", "capacity"},
        Bad{"[511]", "[2147483648]", "capacity"},
        Bad{"[511]", "[511, 511]", "chains[0].capacity has 2 numbers, but must have 1 or 3"},
        Bad{R"(["fw", "nat"])", R"(["fw", "nut"])", "chains[0].path[1] names \"nut\""},
        Bad{R"(["fw", "nat"])", R"(["fw"])", "functions[0] \"nat\" is in no chain"},
        Bad{R"(["fw", "nat"])", "[]", "path"},
        Bad{R"("name": "c")", R"("name": "")", "name of SimChain"},
        Bad{R"("name": "fw")", R"("name": "")", "name of SimFunction"},
        Bad{R"("name": "nat")", R"("name": "fw")", "functions[1].name"},
        Bad{R"("cpu": 3)", R"("cpu": 5000)", "cpu of SimFunction"},
        Bad{R"("cpu": 3)", R"("cpu": -1)", "cpu"},
        Bad{R"("cost_ns": 40)", R"("cost_ns": 0)", "cost_ns"},
        Bad{R"("cost_ns": 40)", R"("cost_ns": -3)", "cost_ns"},
        Bad{R"("cost_ns": 40)", R"("cost_ns": "NaN")", "cost_ns"},
        Bad{R"("cost_ns": 40)", R"("cost_ns": "Infinity")", "cost_ns"},
        Bad{R"("cost_ns": 40)", R"("cost_ns": 40, "scheduled_cost_ns": -1)", "scheduled_cost_ns"},
        Bad{R"("pass_ratio": 0.5)", R"("pass_ratio": 1.5)", "pass_ratio"},
        Bad{R"("pass_ratio": 0.5)", R"("pass_ratio": "NaN")", "pass_ratio"},
        Bad{R"([64, 1518])", R"([1518, 64])", "functions[0].size[1]"},
        Bad{R"([64, 1518])", R"([64, 64])", "functions[0].size[1]"},
        Bad{R"([64, 1518])", R"([64])", "size_cost_ns"},
        Bad{R"([30, 90])", R"([30, 0])", "functions[0].size_cost_ns[1]"},
        Bad{R"("pps": 1e6)", R"("pps": 0)", "chains[0].arrivals.pps"},
        Bad{R"("pps": 1e6)", R"("pps": 1e12)", "chains[0].arrivals.pps"},
        Bad{R"("ARRIVAL_POISSON")", R"("ARRIVAL_ON_OFF")", "chains[0].arrivals.on_ns"},
        Bad{R"("ARRIVAL_POISSON")", "7", "kind of SimArrivals"},
        Bad{R"("SIZE_MIX_IMIX")", "9", "mix of SimArrivals"},
        Bad{R"("pps": 1e6)", R"("pps": 1e6, "size": 10)", "chains[0].arrivals.size"},
        Bad{R"("pps": 1e6)", R"("pps": 1e6, "burst": 4000000000)", "chains[0].arrivals.burst"},
        Bad{R"("policy":)", R"("machine": {"switch_ns": -1}, "policy":)", "machine.switch_ns"},
        Bad{R"("policy":)", R"("machine": {"poll_ns": 0.01}, "policy":)", "machine.poll_ns"},
        Bad{R"("policy":)", R"("scheduler": {"gamma": -0.5}, "policy":)",
            "gamma of SchedulerSettings"},
        Bad{R"("policy":)", R"("scheduler": {"gamma": "NaN"}, "policy":)",
            "gamma of SchedulerSettings"},
        Bad{R"("policy":)", R"("scheduler": {"gamma": 0.5, "interval_ns": 1}, "policy":)",
            "interval_ns"},
        Bad{R"("policy":)", R"("machine": {"lost_switch_ratio": 2}, "policy":)",
            "lost_switch_ratio"},
        Bad{R"("policy":)", R"("colour": "red", "policy":)", "colour"},
        Bad{R"("policy":)", R"("policy")", "JSON"}));

TEST(ScenarioJsonTest, RefusesAScenarioWithoutChainsOrFunctions) {
  const auto nothing = ScenarioFromJson(R"({"policy": "POLICY_RR", "duration_ns": 1})");
  EXPECT_NE(nothing.status().message().find("functions"), absl::string_view::npos);
  const auto no_chain = ScenarioFromJson(
      R"({"policy": "POLICY_RR", "duration_ns": 1, "functions": [{"name": "a", "cost_ns": 1}]})");
  EXPECT_NE(no_chain.status().message().find("chains"), absl::string_view::npos);
  EXPECT_FALSE(ScenarioFromJson("").ok());
  EXPECT_FALSE(ScenarioFromJson("[]").ok());
}

TEST(ScenarioJsonTest, WritesTheResultWithTheNamesOfTheScenario) {
  const Scenario scenario = Good(With(R"("policy":)", R"("trace": true, "policy":)"));
  const Result result = Simulate(scenario);
  v1::SimResult proto;
  ASSERT_TRUE(
      google::protobuf::util::JsonStringToMessage(ResultToJson(scenario, result), &proto).ok());
  EXPECT_EQ(proto.policy(), v1::POLICY_UNIS);
  EXPECT_EQ(proto.duration_ns(), 1'000'000u);
  ASSERT_EQ(proto.chains_size(), 1);
  EXPECT_EQ(proto.chains(0).name(), "c");
  EXPECT_EQ(proto.chains(0).offered(), result.chains[0].offered);
  EXPECT_GT(proto.chains(0).delivered(), 0u);
  std::uint64_t latencies = 0;
  for (const std::uint64_t count : proto.chains(0).latency().count()) latencies += count;
  EXPECT_EQ(latencies, proto.chains(0).delivered());
  ASSERT_EQ(proto.functions_size(), 2);
  EXPECT_EQ(proto.functions(1).name(), "nat");
  EXPECT_GT(proto.functions(0).dropped_by_function(), 0u);
  EXPECT_EQ(proto.functions(0).dropped_by_function(), result.functions[0].dropped_by_function);
  EXPECT_EQ(proto.chains(0).dropped_by_function(), result.chains[0].dropped_by_function);
  ASSERT_GT(proto.runs_size(), 0);
  for (const v1::RunInterval& run : proto.runs()) {
    EXPECT_EQ(run.cpu(), run.function() == "fw" ? 3u : 1u);
  }
}

TEST(ScenarioJsonTest, EventsNameWhoWasLeftForWhom) {
  std::string json = With(R"("policy":)", R"("trace": true, "policy":)");
  json.replace(json.find(R"("cpu": 3)"), 8, R"("cpu": 1)");
  json.replace(json.find(R"("warmup_ns": 5)"), 14, R"("warmup_ns": 0)");
  json.replace(json.find("ARRIVAL_POISSON"), 15, "ARRIVAL_SATURATING");
  const Scenario scenario = Good(json);
  const v1::SimResult proto = ResultToProto(scenario, Simulate(scenario));
  ASSERT_GT(proto.events_size(), 2);
  EXPECT_EQ(proto.events(0).reason(), v1::SWITCH_REASON_START);
  EXPECT_EQ(proto.events(0).from(), "");
  EXPECT_EQ(proto.events(0).to(), "fw");
  EXPECT_EQ(proto.events(1).from(), "fw");
  EXPECT_EQ(proto.events(1).to(), "nat");
  EXPECT_EQ(proto.events(1).cpu(), 1u);
  EXPECT_GT(proto.events(1).slice_ns(), 0u);
}

}  // namespace
}  // namespace unis::sim
