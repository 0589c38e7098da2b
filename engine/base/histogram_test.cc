#include "engine/base/histogram.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <utility>
#include <vector>

namespace unis {
namespace {

template <typename Histogram>
std::vector<std::pair<std::uint64_t, std::uint64_t>> Buckets(const Histogram& histogram) {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> buckets;
  histogram.ForEach(
      [&](std::uint64_t value, std::uint64_t count) { buckets.emplace_back(value, count); });
  return buckets;
}

template <typename Histogram>
std::pair<std::uint64_t, std::uint64_t> EquivalentRange(std::uint64_t value) {
  Histogram histogram;
  histogram.Record(value);
  return {Buckets(histogram).at(0).first, histogram.ValueAtPercentile(100)};
}

struct Equivalence {
  std::uint64_t value, lowest, highest;
};

// The ranges below, and the percentiles further down, were computed with the Python package
// hdrhistogram 0.10.8 (HdrHistogram(1, 2**40 - 1, digits)).
TEST(HistogramTest, TwoDigitBucketsAreThoseOfHdrHistogram) {
  const Equivalence expected[] = {{0, 0, 0},
                                  {100, 100, 100},
                                  {255, 255, 255},
                                  {256, 256, 257},
                                  {257, 256, 257},
                                  {1000, 1000, 1003},
                                  {2047, 2040, 2047},
                                  {2048, 2048, 2063},
                                  {12345, 12288, 12351},
                                  {65535, 65280, 65535},
                                  {1000000, 999424, 1003519},
                                  {123456789, 123207680, 123731967},
                                  {99999999999, 99857989632, 100394860543}};
  for (const auto& [value, lowest, highest] : expected) {
    EXPECT_EQ(EquivalentRange<HdrHistogram<2>>(value), std::pair(lowest, highest)) << value;
  }
}

TEST(HistogramTest, ThreeDigitBucketsAreThoseOfHdrHistogram) {
  const Equivalence expected[] = {{257, 257, 257},
                                  {2047, 2047, 2047},
                                  {2049, 2048, 2049},
                                  {12345, 12344, 12351},
                                  {65536, 65536, 65599},
                                  {123456789, 123404288, 123469823},
                                  {99999999999, 99992207360, 100059316223}};
  for (const auto& [value, lowest, highest] : expected) {
    EXPECT_EQ(EquivalentRange<HdrHistogram<3>>(value), std::pair(lowest, highest)) << value;
  }
}

// 10 000 values over eight orders of magnitude from a linear congruential generator.
template <typename Histogram>
Histogram Sample() {
  Histogram histogram;
  std::uint64_t x = 1;
  for (int i = 0; i < 10'000; ++i) {
    x = x * 6364136223846793005u + 1442695040888963407u;
    std::uint64_t bound = 10;
    for (int power = 0; power < i % 8; ++power) bound *= 10;
    histogram.Record(1 + (x >> 33) % bound);
  }
  return histogram;
}

TEST(HistogramTest, PercentilesAreThoseOfHdrHistogram) {
  const std::pair<double, std::uint64_t> two[] = {
      {5, 4},         {25, 90},       {50, 9023},       {75, 917503},       {90, 16777215},
      {95, 55836671}, {99, 91750399}, {99.9, 99090431}, {99.99, 100139007}, {100, 100139007}};
  const auto coarse = Sample<HdrHistogram<2>>();
  for (const auto& [percentile, value] : two) {
    EXPECT_EQ(coarse.ValueAtPercentile(percentile), value) << percentile;
  }
  const std::pair<double, std::uint64_t> three[] = {
      {5, 4},         {25, 90},       {50, 8967},       {75, 916991},      {90, 16752639},
      {95, 55836671}, {99, 91291647}, {99.9, 98697215}, {99.99, 99942399}, {100, 100007935}};
  const auto fine = Sample<HdrHistogram<3>>();
  for (const auto& [percentile, value] : three) {
    EXPECT_EQ(fine.ValueAtPercentile(percentile), value) << percentile;
  }
}

TEST(HistogramTest, EveryValueIsInItsBucketAndNearToItsEnds) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 10'000; ++i) {
    const std::uint64_t value = random() >> (24 + random() % 40);
    HdrHistogram<2> histogram;
    histogram.Record(value);
    const std::uint64_t highest = histogram.ValueAtPercentile(100);
    ASSERT_GE(highest, value);
    ASSERT_LE(static_cast<double>(highest - value), 0.01 * static_cast<double>(value));
  }
}

TEST(HistogramTest, AnEmptyOneHasNoBucketsAndPercentileZero) {
  const LatencyHistogram histogram;
  EXPECT_EQ(histogram.Count(), 0u);
  EXPECT_EQ(histogram.ValueAtPercentile(50), 0u);
  EXPECT_TRUE(Buckets(histogram).empty());
}

TEST(HistogramTest, CountsAreKeptBucketByBucket) {
  LatencyHistogram histogram;
  histogram.Record(7, 3);
  histogram.Record(300);
  histogram.Record(301, 2);
  const std::vector<std::pair<std::uint64_t, std::uint64_t>> expected = {{7, 3}, {300, 3}};
  EXPECT_EQ(Buckets(histogram), expected);
  EXPECT_EQ(histogram.Count(), 6u);
  EXPECT_EQ(histogram.ValueAtPercentile(50), 7u);
  EXPECT_EQ(histogram.ValueAtPercentile(51), 7u);
  EXPECT_EQ(histogram.ValueAtPercentile(67), 301u);
}

TEST(HistogramTest, MergeAdds) {
  auto sum = Sample<LatencyHistogram>();
  const auto once = Sample<LatencyHistogram>();
  sum.Merge(once);
  EXPECT_EQ(sum.Count(), 2 * once.Count());
  EXPECT_EQ(sum.ValueAtPercentile(75), once.ValueAtPercentile(75));
}

TEST(HistogramTest, WhatWasThereBeforeCanBeTakenOff) {
  const auto before = Sample<LatencyHistogram>();
  auto now = before;
  now.Record(7, 3);
  now.Record(1'000'000);
  now.Subtract(before);
  LatencyHistogram expected;
  expected.Record(7, 3);
  expected.Record(1'000'000);
  EXPECT_EQ(now.Count(), 4u);
  EXPECT_EQ(Buckets(now), Buckets(expected));
}

TEST(HistogramTest, WhatIsTooLongIsCountedInTheLastBucket) {
  LatencyHistogram histogram;
  histogram.Record(~std::uint64_t{0});
  EXPECT_EQ(histogram.Count(), 1u);
  EXPECT_EQ(histogram.ValueAtPercentile(50), LatencyHistogram::kHighest);
}

}  // namespace
}  // namespace unis
