#include "engine/run/convert.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <set>
#include <string>

#include "engine/contract/check_limits.h"
#include "engine/controller/fair_slice.h"

namespace unis {
namespace {

// The numbers of an enum of the contract.
std::vector<int> NumbersOf(const google::protobuf::EnumDescriptor* descriptor) {
  std::vector<int> numbers;
  for (int i = 0; i < descriptor->value_count(); ++i)
    numbers.push_back(descriptor->value(i)->number());
  return numbers;
}

// ------------------------------------------------------------------ values

TEST(ConvertTest, ControllersAndSourcesOfCostsAreNumberedAsInTheContract) {
  EXPECT_EQ(NumbersOf(v1::ControllerKind_descriptor()),
            (std::vector{0, static_cast<int>(ControllerKind::kPriority),
                         static_cast<int>(ControllerKind::kSignal),
                         static_cast<int>(ControllerKind::kHandover)}));
  EXPECT_EQ(static_cast<int>(ControllerKind::kPriority), v1::CONTROLLER_PRIORITY);
  EXPECT_EQ(static_cast<int>(ControllerKind::kSignal), v1::CONTROLLER_SIGNAL);
  EXPECT_EQ(
      NumbersOf(v1::CostSource_descriptor()),
      (std::vector{0, static_cast<int>(CostSource::kStated), static_cast<int>(CostSource::kAssumed),
                   static_cast<int>(CostSource::kFollowed)}));
  EXPECT_EQ(static_cast<int>(CostSource::kAssumed), v1::COST_SOURCE_ASSUMED);
}

TEST(ConvertTest, EverySizeMixIsOneOfOurs) {
  std::set<SizeMix> mixes;
  for (const int number : NumbersOf(v1::SizeMix_descriptor())) {
    v1::SyntheticTraffic traffic;
    traffic.set_mix(static_cast<v1::SizeMix>(number));
    EXPECT_TRUE(mixes.insert(FromProto(traffic).mix).second) << number;
  }
}

TEST(ConvertTest, SyntheticTrafficHasTheFlowsAskedForOrADefault) {
  v1::SyntheticTraffic traffic;
  traffic.set_size(256);
  EXPECT_EQ(FromProto(traffic).size, 256U);
  EXPECT_EQ(FromProto(traffic).flows, SyntheticTraffic{}.flows);
  traffic.set_flows(3);
  EXPECT_EQ(FromProto(traffic).flows, 3U);
}

TEST(ConvertTest, SchedulerSettingsAreTakenOverOneByOne) {
  v1::SchedulerSettings settings;
  settings.set_gamma(0.5);
  settings.set_theta_min(24);
  settings.set_interval_ns(2000);
  settings.set_occupancy(false);
  settings.set_max_wait_ns(7000);
  settings.set_online_cost(true);
  settings.set_idle_ns(8000);
  SchedulerSettings converted = FromProto(settings);
  EXPECT_EQ(converted.gamma, 0.5);
  EXPECT_EQ(converted.theta_min, 24U);
  EXPECT_EQ(converted.theta_max, std::nullopt);
  EXPECT_EQ(converted.interval, 2000);
  EXPECT_FALSE(converted.occupancy);
  EXPECT_EQ(converted.latency_compensation, 0);
  EXPECT_EQ(converted.max_wait, 7000);
  EXPECT_TRUE(converted.online_cost);
  EXPECT_EQ(converted.idle_after, 8000);
  settings.set_theta_max(0);  // is a value
  settings.set_lead_ns(9000);
  settings.set_occupancy(true);
  converted = FromProto(settings);
  EXPECT_EQ(converted.theta_max, 0U);
  EXPECT_EQ(converted.latency_compensation, 9000);
  EXPECT_TRUE(converted.occupancy);
}

TEST(ConvertTest, AMatchHasTheFieldsThatWereGiven) {
  v1::FlowMatch match;
  const FlowMatch empty = FromProto(match);
  EXPECT_FALSE(empty.src || empty.dst || empty.src_port || empty.dst_port || empty.protocol);
  match.mutable_src()->set_address(0x0a000000);
  match.mutable_src()->set_length(8);
  match.mutable_dst();  // 0.0.0.0/0
  match.set_src_port(65535);
  match.set_dst_port(0);
  match.set_protocol(17);
  const FlowMatch full = FromProto(match);
  ASSERT_TRUE(full.src && full.dst && full.src_port && full.dst_port && full.protocol);
  EXPECT_EQ(full.src->address, 0x0a000000U);
  EXPECT_EQ(full.src->length, 8U);
  EXPECT_EQ(full.dst->address, 0U);
  EXPECT_EQ(full.dst->length, 0U);
  EXPECT_EQ(*full.src_port, 65535);
  EXPECT_EQ(*full.dst_port, 0);
  EXPECT_EQ(*full.protocol, 17);
}

TEST(ConvertTest, MatchesKeepTheirOrder) {
  v1::ChainConfig chain;
  for (const std::uint32_t port : {5U, 3U, 4U}) chain.add_match()->set_dst_port(port);
  const auto matches = FromProto(chain.match());
  ASSERT_EQ(matches.size(), 3U);
  EXPECT_EQ(matches[0].dst_port, 5);
  EXPECT_EQ(matches[1].dst_port, 3);
  EXPECT_EQ(matches[2].dst_port, 4);
}

TEST(ConvertTest, EveryPolicyOfTheContractMeansSomethingHere) {
  for (const int number : NumbersOf(v1::Policy_descriptor())) {
    const auto traits = TraitsOf(static_cast<v1::Policy>(number));
    EXPECT_EQ(traits.ok(), number != v1::POLICY_UNSPECIFIED) << number;
    if (!traits.ok()) continue;
    EXPECT_EQ(static_cast<int>(traits->policy), number);
    // The kernel refuses a real-time class without a priority, and any other with one.
    const auto [policy, priority] = KernelPolicyOf(traits->kernel);
    EXPECT_EQ(priority > 0, policy == SCHED_FIFO || policy == SCHED_RR) << number;
    EXPECT_LE(priority, 49) << "above the kernel's interrupt threads";
  }
  EXPECT_FALSE(TraitsOf(static_cast<v1::Policy>(77)).ok());
  EXPECT_EQ(KernelPolicyOf(TraitsOf(v1::POLICY_RR)->kernel).policy, SCHED_RR);
  EXPECT_EQ(KernelPolicyOf(TraitsOf(v1::POLICY_BATCH)->kernel).policy, SCHED_BATCH);
  EXPECT_TRUE(TraitsOf(v1::POLICY_COOPERATIVE)->functions_yield);
}

// ------------------------------------------------------------------ validation

v1::TrafficConfig Traffic() {
  v1::TrafficConfig traffic;
  traffic.mutable_synthetic()->set_size(64);
  return traffic;
}

TEST(ValidateTest, TakesWhatIsGood) {
  auto traffic = Traffic();
  EXPECT_TRUE(Validate(traffic).ok()) << Validate(traffic);
  traffic.set_pps(1e6);
  EXPECT_TRUE(Validate(traffic).ok());
  traffic.mutable_synthetic()->set_mix(v1::SIZE_MIX_IMIX);
  traffic.mutable_synthetic()->set_size(0);  // not used
  EXPECT_TRUE(Validate(traffic).ok());
  traffic.mutable_replay()->set_file("a.pcap");
  traffic.set_arrivals(v1::ARRIVALS_POISSON);  // of the rate: a capture's own times are not kept
  EXPECT_TRUE(Validate(traffic).ok());
}

TEST(ConvertTest, ARateIsConstantUnlessItIsToBePoisson) {
  auto traffic = Traffic();
  EXPECT_FALSE(RateOf(traffic).limited());
  traffic.set_bps(5);
  EXPECT_EQ(RateOf(traffic).bps, 5);
  EXPECT_EQ(RateOf(traffic).arrivals, Arrivals::kConstant);
  traffic.set_arrivals(v1::ARRIVALS_CONSTANT);
  EXPECT_EQ(RateOf(traffic).arrivals, Arrivals::kConstant);
  traffic.set_arrivals(v1::ARRIVALS_POISSON);
  EXPECT_EQ(RateOf(traffic).arrivals, Arrivals::kPoisson);
}

TEST(ConvertTest, PortsHaveDescriptorsForTheWaysThatAreUsed) {
  v1::TrafficConfig traffic;
  traffic.mutable_synthetic();
  EXPECT_TRUE(PortsOf(traffic).empty());

  traffic.mutable_port()->set_device("net_null0");
  traffic.mutable_port()->set_descriptors(256);
  auto ports = PortsOf(traffic);
  ASSERT_EQ(ports.size(), 1U);
  EXPECT_TRUE(ports[0].is_source && !ports[0].is_sink);
  EXPECT_EQ(ports[0].queues, (PortQueues{.rx = 256, .tx = PortQueues::kLeast}));

  traffic.set_sink_device("net_null0");  // the same
  ports = PortsOf(traffic);
  ASSERT_EQ(ports.size(), 1U);
  EXPECT_TRUE(ports[0].is_source && ports[0].is_sink);
  EXPECT_EQ(ports[0].queues, (PortQueues{.rx = 256, .tx = PortQueues::kDefault}));

  traffic.set_sink_device("net_null1");
  traffic.set_sink_descriptors(128);
  ports = PortsOf(traffic);
  ASSERT_EQ(ports.size(), 2U);
  EXPECT_EQ(ports[0].queues, (PortQueues{.rx = 256, .tx = PortQueues::kLeast}));
  EXPECT_EQ(ports[1].device, "net_null1");
  EXPECT_TRUE(!ports[1].is_source && ports[1].is_sink);
  EXPECT_EQ(ports[1].queues, (PortQueues{.rx = PortQueues::kLeast, .tx = 128}));
}

TEST(ConvertTest, ALeadThatIsAbsentIsAsLongAsASwitchTakes) {
  v1::SchedulerSettings proto;
  SchedulerSettings settings = FromProto(proto);
  CompensateBy({.until_stopped = 4999.6, .until_running = 11000.2}, proto, settings);
  EXPECT_EQ(settings.latency_compensation, 5000);
  EXPECT_EQ(settings.switch_latency, 11000);
  proto.set_lead_ns(0);
  settings = FromProto(proto);
  CompensateBy({.until_stopped = 4999.6, .until_running = 11000.2}, proto, settings);
  EXPECT_EQ(settings.latency_compensation, 0);
  EXPECT_EQ(settings.switch_latency, std::nullopt);
}

// The longest slice of its own that a thread may have stands in the contract, and where the engine
// and a guard read slices of threads: neither reads the contract.
TEST(ConvertTest, TheLongestFairSliceIsTheContracts) {
  const auto* field = v1::DeployRequest::descriptor()->FindFieldByName("fair_slice_ns");
  const auto& limit = field->options().GetExtension(v1::limit);
  EXPECT_EQ(limit.max(), static_cast<double>(kLongestFairSlice.count()));
}

// The contract's bounds of a queue are those of the engine.
TEST(ConvertTest, DescriptorsAreWithinWhatAPortCanBeAsked) {
  v1::TrafficConfig traffic;
  for (const unsigned wrong : {1U, PortQueues::kLeast / 2U, 65536U, 1000U}) {
    traffic.mutable_port()->set_device("net_null0");
    traffic.mutable_port()->set_descriptors(wrong);
    EXPECT_FALSE(CheckLimits(traffic).ok()) << wrong;
    traffic.mutable_port()->set_descriptors(PortQueues::kLeast);
    EXPECT_TRUE(CheckLimits(traffic).ok());
    traffic.set_sink_descriptors(wrong);
    EXPECT_FALSE(CheckLimits(traffic).ok()) << wrong;
    traffic.clear_sink_descriptors();
  }
}

TEST(ValidateTest, SaysWhatIsWrong) {
  const std::map<std::string, std::function<void(v1::TrafficConfig&)>> mistakes = {
      {"no traffic source", [](auto& t) { t.Clear(); }},
      {"not both",
       [](auto& t) {
         t.set_pps(1);
         t.set_bps(1);
       }},
      {"at their own rate",
       [](auto& t) {
         t.mutable_port()->set_device("net_null0");
         t.set_pps(1);
       }},
      {"when they come",
       [](auto& t) {
         t.mutable_port()->set_device("net_null0");
         t.set_arrivals(v1::ARRIVALS_POISSON);
       }},
      {"no descriptors", [](auto& t) { t.set_sink_descriptors(256); }},
      {"without a rate", [](auto& t) { t.set_arrivals(v1::ARRIVALS_POISSON); }},
      {"frame size 63", [](auto& t) { t.mutable_synthetic()->set_size(63); }},
      {"frame size 1519", [](auto& t) { t.mutable_synthetic()->set_size(1519); }},
  };
  for (const auto& [words, make] : mistakes) {
    auto traffic = Traffic();
    make(traffic);
    const auto status = Validate(traffic);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << words;
    EXPECT_NE(status.message().find(words), std::string::npos)
        << "not '" << words << "' but '" << status.message() << "'";
  }
}

}  // namespace
}  // namespace unis
