#include "engine/server/convert.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <string>

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

TEST(ConvertTest, EveryControllerOfTheContractIsOneOfOurs) {
  std::set<ControllerKind> kinds;
  for (const int number : NumbersOf(v1::ControllerKind_descriptor())) {
    const auto kind = FromProto(static_cast<v1::ControllerKind>(number));
    EXPECT_EQ(kind.ok(), number != v1::CONTROLLER_UNSPECIFIED) << number;
    if (!kind.ok()) continue;
    EXPECT_TRUE(kinds.insert(*kind).second) << number;
  }
  EXPECT_FALSE(FromProto(static_cast<v1::ControllerKind>(77)).ok());
  EXPECT_EQ(FromProto(v1::CONTROLLER_PRIORITY).value(), ControllerKind::kPriority);
}

TEST(ConvertTest, EverySwitchReasonIsInTheContract) {
  std::set<int> numbers;
  for (const SwitchReason reason : {SwitchReason::kStart, SwitchReason::kSliceExpired,
                                    SwitchReason::kIngressLow, SwitchReason::kEgressHigh}) {
    const v1::SwitchReason number = ToProto(reason);
    EXPECT_NE(number, v1::SWITCH_REASON_UNSPECIFIED);
    EXPECT_TRUE(numbers.insert(number).second);
  }
  EXPECT_EQ(numbers.size() + 1, NumbersOf(v1::SwitchReason_descriptor()).size());
  EXPECT_EQ(ToProto(SwitchReason::kEgressHigh), v1::SWITCH_REASON_EGRESS_HIGH);
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
  settings.set_batch(32);
  settings.set_theta_min(24);
  settings.set_interval_ns(2000);
  settings.set_occupancy(false);
  settings.set_max_wait_ns(7000);
  SchedulerSettings converted = FromProto(settings);
  EXPECT_EQ(converted.gamma, 0.5);
  EXPECT_EQ(converted.batch, 32U);
  EXPECT_EQ(converted.theta_min, 24U);
  EXPECT_EQ(converted.theta_max, std::nullopt);
  EXPECT_EQ(converted.interval, 2000);
  EXPECT_FALSE(converted.occupancy);
  EXPECT_EQ(converted.lead, 0);
  EXPECT_EQ(converted.max_wait, 7000);
  settings.set_theta_max(0);  // is a value
  settings.set_lead_ns(9000);
  settings.set_occupancy(true);
  converted = FromProto(settings);
  EXPECT_EQ(converted.theta_max, 0U);
  EXPECT_EQ(converted.lead, 9000);
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

TEST(ConvertTest, AHistogramArrivesBucketByBucket) {
  EXPECT_TRUE(ToProto(LatencyHistogram{}).value_ns().empty());
  LatencyHistogram histogram;
  std::mt19937_64 random(9);
  std::map<std::uint64_t, std::uint64_t> expected;
  for (int i = 0; i < 10'000; ++i) histogram.Record(random() >> (random() % 60));
  histogram.ForEach([&](std::uint64_t value, std::uint64_t count) { expected[value] = count; });
  const v1::LatencyHistogram message = ToProto(histogram);
  ASSERT_EQ(message.value_ns_size(), message.count_size());
  std::map<std::uint64_t, std::uint64_t> arrived;
  std::uint64_t total = 0;
  for (int i = 0; i < message.count_size(); ++i) {
    arrived[message.value_ns(i)] = message.count(i);
    total += message.count(i);
    if (i == 0) continue;
    EXPECT_GT(message.value_ns(i), message.value_ns(i - 1));
  }
  EXPECT_EQ(arrived, expected);
  EXPECT_EQ(total, histogram.Count());
}

// ------------------------------------------------------------------ validation

v1::DeployRequest GoodRequest() {
  v1::DeployRequest request;
  auto* chain = request.add_chains();
  chain->set_name("web");
  chain->set_ring_size(2048);
  chain->add_nfs()->set_name("firewall");
  chain->add_nfs()->set_name("nat");
  auto* match = chain->add_match();
  match->mutable_src()->set_length(32);
  match->set_dst_port(65535);
  match->set_protocol(255);
  auto* synthetic = request.mutable_traffic()->mutable_synthetic();
  synthetic->set_size(64);
  request.mutable_scheduler()->set_gamma(0.75);
  request.mutable_scheduler()->set_batch(64);
  request.mutable_scheduler()->set_interval_ns(1000);
  request.set_controller(v1::CONTROLLER_PRIORITY);
  return request;
}

TEST(ValidateTest, TakesWhatIsGood) {
  EXPECT_TRUE(Validate(GoodRequest()).ok()) << Validate(GoodRequest());
  for (const std::uint32_t size : {2U, 64U, 1U << 20}) {
    auto request = GoodRequest();
    request.mutable_chains(0)->set_ring_size(size);
    EXPECT_TRUE(Validate(request).ok()) << size;
  }
  for (const double gamma : {0.01, 1.0}) {
    auto request = GoodRequest();
    request.mutable_scheduler()->set_gamma(gamma);
    EXPECT_TRUE(Validate(request).ok()) << gamma;
  }
  auto request = GoodRequest();
  request.mutable_traffic()->set_pps(1e6);
  EXPECT_TRUE(Validate(request).ok());
  request.mutable_traffic()->mutable_synthetic()->set_mix(v1::SIZE_MIX_IMIX);
  request.mutable_traffic()->mutable_synthetic()->set_size(0);  // not used
  EXPECT_TRUE(Validate(request).ok());
  request.mutable_traffic()->mutable_replay()->set_file("a.pcap");
  EXPECT_TRUE(Validate(request).ok());
}

struct Mistake {
  std::string word;  // that the sentence has
  std::function<void(v1::DeployRequest&)> make;
};

TEST(ValidateTest, SaysWhatIsWrong) {
  const std::vector<Mistake> mistakes = {
      {"no chain", [](auto& r) { r.clear_chains(); }},
      {"chain dns has no function",
       [](auto& r) {
         r.add_chains()->set_name("dns");
         r.mutable_chains(1)->set_ring_size(64);
       }},
      {"ring size 0 of chain web", [](auto& r) { r.mutable_chains(0)->set_ring_size(0); }},
      {"ring size 1 of chain web", [](auto& r) { r.mutable_chains(0)->set_ring_size(1); }},
      {"ring size 1000 of chain web", [](auto& r) { r.mutable_chains(0)->set_ring_size(1000); }},
      {"two functions are called nat",
       [](auto& r) { r.mutable_chains(0)->add_nfs()->set_name("nat"); }},
      {"two functions are called nat",
       [](auto& r) {
         *r.add_chains() = r.chains(0);
         r.mutable_chains(1)->mutable_nfs(0)->set_name("other");
       }},
      {"33 functions are too many",
       [](auto& r) {
         for (int i = 0; i < 31; ++i)
           r.mutable_chains(0)->add_nfs()->set_name("nf" + std::to_string(i));
       }},
      {"prefix length 33",
       [](auto& r) { r.mutable_chains(0)->mutable_match(0)->mutable_src()->set_length(33); }},
      {"prefix length 64",
       [](auto& r) { r.mutable_chains(0)->mutable_match(0)->mutable_dst()->set_length(64); }},
      {"port 65536", [](auto& r) { r.mutable_chains(0)->mutable_match(0)->set_src_port(65536); }},
      {"port 70000", [](auto& r) { r.mutable_chains(0)->mutable_match(0)->set_dst_port(70000); }},
      {"protocol 256", [](auto& r) { r.mutable_chains(0)->mutable_match(0)->set_protocol(256); }},
      {"no traffic source", [](auto& r) { r.clear_traffic(); }},
      {"rate", [](auto& r) { r.mutable_traffic()->set_pps(-1); }},
      {"rate", [](auto& r) { r.mutable_traffic()->set_bps(-1); }},
      {"rate", [](auto& r) { r.mutable_traffic()->set_pps(std::nan("")); }},
      {"not both",
       [](auto& r) {
         r.mutable_traffic()->set_pps(1);
         r.mutable_traffic()->set_bps(1);
       }},
      {"frame size 63", [](auto& r) { r.mutable_traffic()->mutable_synthetic()->set_size(63); }},
      {"frame size 1519",
       [](auto& r) { r.mutable_traffic()->mutable_synthetic()->set_size(1519); }},
      {"gamma", [](auto& r) { r.mutable_scheduler()->set_gamma(0); }},
      {"gamma", [](auto& r) { r.mutable_scheduler()->set_gamma(1.01); }},
      {"gamma", [](auto& r) { r.mutable_scheduler()->set_gamma(std::nan("")); }},
      {"interval", [](auto& r) { r.mutable_scheduler()->set_interval_ns(999); }},
      {"gamma", [](auto& r) { r.clear_scheduler(); }},
  };
  for (const Mistake& mistake : mistakes) {
    auto request = GoodRequest();
    mistake.make(request);
    const auto status = Validate(request);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << mistake.word;
    EXPECT_NE(status.message().find(mistake.word), std::string::npos)
        << "not '" << mistake.word << "' but '" << status.message() << "'";
  }
}

}  // namespace
}  // namespace unis
