#include "engine/simulator/scenario_json.h"

#include <google/protobuf/util/json_util.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "engine/simulator/simulation.h"

namespace unis::sim {
namespace {

constexpr const char* kGood = R"({
  "policy": "POLICY_UNIS", "durationNs": "1000000", "warmup_ns": 5, "seed": "18446744073709551615",
  "chains": [{
    "name": "c", "ringSize": 512,
    "nfs": [
      {"name": "fw", "cpu": 3, "cost_ns": 40, "pass_ratio": 0.5, "yield_every": 4},
      {"name": "nat", "cpu": 1, "size": [64, 1518], "size_cost_ns": [30, 90]}
    ],
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
  EXPECT_EQ(chain.ring_size, 512u);
  ASSERT_EQ(chain.nfs.size(), 2u);
  EXPECT_EQ(chain.nfs[0].cpu, 3u);
  EXPECT_DOUBLE_EQ(chain.nfs[0].pass_ratio, 0.5);
  EXPECT_EQ(chain.nfs[0].yield_every, 4u);
  EXPECT_FALSE(chain.nfs[0].scheduled_cost_ns.has_value());
  EXPECT_DOUBLE_EQ(chain.nfs[1].pass_ratio, 1);
  ASSERT_EQ(chain.nfs[1].cost_by_size.size(), 2u);
  EXPECT_EQ(chain.nfs[1].cost_by_size[1], (std::pair<std::uint32_t, double>{1518, 90}));
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

TEST(ScenarioJsonTest, WithoutASchedulerItIsThePapersWithALead) {
  const SchedulerSettings settings = Good().scheduler;
  EXPECT_EQ(settings.theta_min, 56u);
  EXPECT_TRUE(settings.occupancy);
  EXPECT_FALSE(settings.theta_max.has_value());
  EXPECT_EQ(settings.interval, 1'000);
  EXPECT_EQ(settings.lead, 11'500);
}

TEST(ScenarioJsonTest, TheLeadLastsUntilTheCurrentNfStopsUnlessGiven) {
  const std::string machine = R"("machine": {"switch_ns": 9000.4}, "policy":)";
  EXPECT_EQ(Good(With(R"("policy":)", machine)).scheduler.lead, 6'500);
  const std::string given = R"("scheduler": {"lead_ns": 0, "theta_max": 9}, )" + machine;
  const SchedulerSettings settings = Good(With(R"("policy":)", given)).scheduler;
  EXPECT_EQ(settings.lead, 0);
  EXPECT_EQ(settings.theta_max, 9u);
  EXPECT_EQ(settings.theta_min, 0u);
  EXPECT_FALSE(settings.occupancy);
  EXPECT_DOUBLE_EQ(settings.gamma, 0.75);
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
        Bad{R"("ringSize": 512)", R"("ringSize": 500)", "chains[0].ring_size"},
        Bad{R"("ringSize": 512)", R"("ringSize": 1)", "chains[0].ring_size"},
        Bad{R"("ringSize": 512)", R"("ringSize": 0)", "chains[0].ring_size"},
        Bad{R"("ringSize": 512)", R"("ringSize": 2147483648)", "chains[0].ring_size"},
        Bad{R"("name": "c")", R"("name": "")", "chains[0].name"},
        Bad{R"("name": "fw")", R"("name": "")", "chains[0].nfs[0].name"},
        Bad{R"("name": "nat")", R"("name": "fw")", "chains[0].nfs[1].name"},
        Bad{R"("cpu": 3)", R"("cpu": 5000)", "chains[0].nfs[0].cpu"},
        Bad{R"("cpu": 3)", R"("cpu": -1)", "cpu"},
        Bad{R"("cost_ns": 40)", R"("cost_ns": 0)", "chains[0].nfs[0].cost_ns"},
        Bad{R"("cost_ns": 40)", R"("cost_ns": -3)", "chains[0].nfs[0].cost_ns"},
        Bad{R"("cost_ns": 40)", R"("cost_ns": "NaN")", "chains[0].nfs[0].cost_ns"},
        Bad{R"("cost_ns": 40)", R"("cost_ns": "Infinity")", "chains[0].nfs[0].cost_ns"},
        Bad{R"("cost_ns": 40)", R"("cost_ns": 40, "scheduled_cost_ns": -1)", "scheduled_cost_ns"},
        Bad{R"("pass_ratio": 0.5)", R"("pass_ratio": 1.5)", "pass_ratio"},
        Bad{R"("pass_ratio": 0.5)", R"("pass_ratio": "NaN")", "pass_ratio"},
        Bad{R"([64, 1518])", R"([1518, 64])", "chains[0].nfs[1].size[1]"},
        Bad{R"([64, 1518])", R"([64, 64])", "chains[0].nfs[1].size[1]"},
        Bad{R"([64, 1518])", R"([64])", "size_cost_ns"},
        Bad{R"([30, 90])", R"([30, 0])", "chains[0].nfs[1].size_cost_ns[1]"},
        Bad{R"("pps": 1e6)", R"("pps": 0)", "chains[0].arrivals.pps"},
        Bad{R"("pps": 1e6)", R"("pps": 1e12)", "chains[0].arrivals.pps"},
        Bad{R"("ARRIVAL_POISSON")", R"("ARRIVAL_ON_OFF")", "chains[0].arrivals.on_ns"},
        Bad{R"("ARRIVAL_POISSON")", "7", "chains[0].arrivals.kind"},
        Bad{R"("SIZE_MIX_IMIX")", "9", "chains[0].arrivals.mix"},
        Bad{R"("pps": 1e6)", R"("pps": 1e6, "size": 10)", "chains[0].arrivals.size"},
        Bad{R"("pps": 1e6)", R"("pps": 1e6, "burst": 4000000000)", "chains[0].arrivals.burst"},
        Bad{R"("policy":)", R"("machine": {"switch_ns": -1}, "policy":)", "machine.switch_ns"},
        Bad{R"("policy":)", R"("machine": {"poll_ns": 0.01}, "policy":)", "machine.poll_ns"},
        Bad{R"("policy":)", R"("scheduler": {"gamma": -0.5}, "policy":)", "scheduler.gamma"},
        Bad{R"("policy":)", R"("scheduler": {"gamma": "NaN"}, "policy":)", "scheduler.gamma"},
        Bad{R"("policy":)", R"("scheduler": {"batch": 100000}, "policy":)", "scheduler.batch"},
        Bad{R"("policy":)", R"("colour": "red", "policy":)", "colour"},
        Bad{R"("policy":)", R"("policy")", "JSON"}));

TEST(ScenarioJsonTest, RefusesAScenarioWithoutChainsOrNfs) {
  const auto no_chain = ScenarioFromJson(R"({"policy": "POLICY_RR", "duration_ns": 1})");
  EXPECT_NE(no_chain.status().message().find("chains"), absl::string_view::npos);
  const auto no_nf = ScenarioFromJson(
      R"({"policy": "POLICY_RR", "duration_ns": 1, "chains": [{"name": "c", "ring_size": 4}]})");
  EXPECT_NE(no_nf.status().message().find("chains[0].nfs"), std::string::npos);
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
  ASSERT_EQ(proto.chains(0).nfs_size(), 2);
  EXPECT_EQ(proto.chains(0).nfs(1).name(), "nat");
  EXPECT_EQ(proto.chains(0).nfs(0).dropped_by_function(),
            result.chains[0].nfs[0].dropped_by_function);
  ASSERT_GT(proto.runs_size(), 0);
  for (const v1::RunInterval& run : proto.runs()) {
    EXPECT_EQ(run.cpu(), run.nf() == "fw" ? 3u : 1u);
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
