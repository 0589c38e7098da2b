#include "engine/contract/to_proto.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

namespace unis {
namespace {

TEST(ToProtoTest, EverySwitchReasonIsInTheContract) {
  std::set<int> numbers;
  for (const SwitchReason reason :
       {SwitchReason::kStart, SwitchReason::kSliceExpired, SwitchReason::kIngressLow,
        SwitchReason::kEgressHigh, SwitchReason::kSelf, SwitchReason::kStill,
        SwitchReason::kBetween}) {
    const v1::SwitchReason number = ToProto(reason);
    EXPECT_NE(number, v1::SWITCH_REASON_UNSPECIFIED);
    EXPECT_TRUE(numbers.insert(number).second);
  }
  EXPECT_EQ(numbers.size() + 1,
            static_cast<std::size_t>(v1::SwitchReason_descriptor()->value_count()));
  EXPECT_EQ(ToProto(SwitchReason::kEgressHigh), v1::SWITCH_REASON_EGRESS_HIGH);
}

TEST(ToProtoTest, AHistogramArrivesBucketByBucket) {
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

}  // namespace
}  // namespace unis
