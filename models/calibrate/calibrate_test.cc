#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <random>
#include <set>
#include <string>

#include "models/calibrate/interval.h"
#include "models/calibrate/pointer_chase.h"
#include "models/calibrate/row.h"
#include "models/calibrate/sampling.h"

namespace unis {
namespace {

using testing::HasSubstr;

// How many elements are met before the first one comes again.
std::size_t LengthFrom(const std::vector<std::uint32_t>& next, std::uint32_t first) {
  std::size_t length = 1;
  for (std::uint32_t at = next[first]; at != first && length <= next.size(); at = next[at])
    ++length;
  return length;
}

TEST(CircleTest, IsOneCircleThroughAllElements) {
  for (const std::size_t elements : {1, 2, 3, 14, 64, 1000, 65537})
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      const auto next = RandomCircle(elements, seed);
      ASSERT_EQ(next.size(), elements);
      ASSERT_EQ(LengthFrom(next, 0), elements) << "seed " << seed;
    }
  EXPECT_EQ(LengthFrom(ForwardCircle(1000), 0), 1000U);
}

TEST(CircleTest, IsInNoOrderThatHardwareCouldGuess) {
  const auto next = RandomCircle(10'000, 1);
  std::size_t neighbours = 0;
  for (std::size_t i = 0; i < next.size(); ++i) neighbours += next[i] == i + 1 ? 1 : 0;
  EXPECT_LT(neighbours, 20U);
  EXPECT_NE(next, RandomCircle(10'000, 2));
}

TEST(ChaseTest, MeetsEachElementOnceAndStaysInsideTheMemory) {
  const auto pages = Pages::Small(1 << 20);
  ASSERT_TRUE(pages.ok());
  for (const std::size_t stride : {8, 64, 1500, 4096, 9000}) {
    const std::size_t elements = pages->memory().size() / stride;
    Chase chase(pages->memory(), stride, RandomCircle(elements, stride));
    const void* first = chase.at();
    std::set<const void*> met;
    for (std::size_t i = 0; i < elements; ++i) {
      met.insert(chase.at());
      chase.NsPerAccess(1);
    }
    EXPECT_EQ(met.size(), elements) << "stride " << stride;
    EXPECT_EQ(chase.at(), first);
    const auto* begin = pages->memory().data();
    EXPECT_GE(*met.begin(), begin);
    EXPECT_LE(*met.rbegin(), begin + pages->memory().size() - sizeof(void*));
  }
}

TEST(PagesTest, AreGivenBack) {
  const auto unmapped = [](const void* at) {
    unsigned char there = 0;
    return mincore(const_cast<void*>(at), kSmallPage, &there) != 0 && errno == ENOMEM;
  };
  const void *small = nullptr, *huge = nullptr;
  {
    const auto of_small = Pages::Small(kHugePage), of_huge = Pages::Huge(1);
    ASSERT_TRUE(of_small.ok());
    small = of_small->memory().data();
    EXPECT_FALSE(unmapped(small));
    if (of_huge.ok()) {
      huge = of_huge->memory().data();
      EXPECT_EQ(of_huge->memory().size(), kHugePage);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(huge) % kHugePage, 0U);
      EXPECT_FALSE(unmapped(huge));
    } else {
      EXPECT_THAT(std::string(of_huge.status().message()), HasSubstr("MiB"));
    }
  }
  EXPECT_TRUE(unmapped(small));
  EXPECT_TRUE(huge == nullptr || unmapped(huge));
}

TEST(IntervalTest, HasTheRanksOfTheBinomialDistribution) {
  // From tables: how many of n values lie outside on each side.
  for (const auto& [n, outside] : std::vector<std::pair<int, int>>{{6, 0},
                                                                   {8, 0},
                                                                   {9, 1},
                                                                   {11, 1},
                                                                   {12, 2},
                                                                   {15, 3},
                                                                   {20, 5},
                                                                   {25, 7},
                                                                   {100, 39},
                                                                   {201, 86}}) {
    std::vector<double> values;
    for (int i = n; i > 0; --i) values.push_back(i);
    const Interval found = MedianInterval(values);
    EXPECT_EQ(found.samples, static_cast<std::size_t>(n));
    EXPECT_DOUBLE_EQ(found.median, (n + 1) / 2.0) << n;
    EXPECT_DOUBLE_EQ(found.low, outside + 1) << n;
    EXPECT_DOUBLE_EQ(found.high, n - outside) << n;
  }
}

TEST(IntervalTest, ContainsTheMedianAndSeldomMissesTheTrueOne) {
  std::mt19937_64 random(1);
  std::exponential_distribution<double> skewed(1.0);
  int missed = 0;
  constexpr int kTrials = 4000;
  for (int trial = 0; trial < kTrials; ++trial) {
    std::vector<double> values(kLeastSamples + random() % 40);
    std::generate(values.begin(), values.end(), [&] { return skewed(random); });
    const Interval found = MedianInterval(values);
    ASSERT_LE(found.low, found.median);
    ASSERT_LE(found.median, found.high);
    const double truth = std::log(2.0);
    missed += truth < found.low || truth > found.high ? 1 : 0;
  }
  EXPECT_LT(missed, kTrials * 0.06);
  EXPECT_GT(missed, kTrials * 0.01);  // no wider than it says
}

TEST(RowTest, IsALineOfJson) {
  Row row{.group = "call",
          .name = "with \"quotes\", \\ and \n",
          .labels = {{"batch", 64}, {"by", "pipe"}},
          .provider = "clock",
          .ns = {},
          .missing = {}};
  EXPECT_EQ(ToJson(With(row, std::vector<double>{1, 2, 3, 4, 5, 6})),
            R"({"group": "call", "name": "with \"quotes\", \\ and \u000a", )"
            R"("labels": {"batch": 64, "by": "pipe"}, "provider": "clock", )"
            R"("ns": {"samples": 6, "median_ns": 3.5, "low_ns": 1, "high_ns": 6}})");
  EXPECT_THAT(ToJson(With(row, std::vector<double>{1, 2})),
              HasSubstr(R"("missing": "only 2 samples in the time, of at least 6")"));
  EXPECT_THAT(ToJson(With(row, absl::NotFoundError("no BTF"))),
              HasSubstr(R"("missing": "no BTF")"));
}

TEST(SamplingTest, ASampleIsOfOneCall) {
  std::size_t calls = 0;
  const double begin = NowNs();
  const auto samples = SampleCalls(10, 1e5, [&] { ++calls; });
  const double whole = NowNs() - begin;
  ASSERT_EQ(samples.size(), 10U);
  const double least = *std::min_element(samples.begin(), samples.end());
  EXPECT_GT(least, 0);
  EXPECT_LT(least * static_cast<double>(calls), whole);
}

}  // namespace
}  // namespace unis
