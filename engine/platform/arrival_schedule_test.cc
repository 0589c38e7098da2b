#include "engine/platform/arrival_schedule.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "engine/base/dice_for_test.h"

namespace unis {
namespace {

constexpr double kHz = 2.1e9;
constexpr std::uint64_t kBegin = 1'000'000'000'000;
constexpr std::uint32_t kBits = 512;

std::vector<std::uint64_t> Times(const Rate& rate, std::size_t count, std::uint64_t seed = 1) {
  ArrivalSchedule schedule(kHz, seed);
  schedule.Begin(rate, kBegin);
  std::vector<std::uint64_t> times;
  for (std::size_t i = 0; i < count; ++i) times.push_back(schedule.Take(kBits));
  return times;
}

struct Moments {
  double mean = 0;
  double variance = 0;
};
Moments MomentsOf(const std::vector<double>& values) {
  Moments moments;
  for (const double value : values) moments.mean += value / static_cast<double>(values.size());
  for (const double value : values)
    moments.variance += std::pow(value - moments.mean, 2) / static_cast<double>(values.size());
  return moments;
}

std::vector<double> GapsOf(const std::vector<std::uint64_t>& times) {
  std::vector<double> gaps;
  for (std::size_t i = 1; i < times.size(); ++i)
    gaps.push_back(static_cast<double>(times[i] - times[i - 1]));
  return gaps;
}

TEST(ArrivalScheduleTest, ConstantIsEquallyFarApartForEver) {
  const auto times = Times({.pps = 3.3e6}, 3'300'001);  // 636.36… cycles
  EXPECT_EQ(times[0], kBegin);
  for (const double gap : GapsOf(times)) ASSERT_NEAR(gap, kHz / 3.3e6, 1);
  EXPECT_NEAR(static_cast<double>(times.back() - kBegin), kHz, 1) << "1 s: no drift";
}

TEST(ArrivalScheduleTest, ARateInBitsTakesLongerOverLongerPackets) {
  ArrivalSchedule schedule(kHz, 1);
  schedule.Begin({.bps = 1e9}, kBegin);  // 2.1 cycles a bit
  EXPECT_EQ(schedule.Take(1000), kBegin);
  EXPECT_EQ(schedule.Take(100), kBegin + 2100);
  EXPECT_EQ(schedule.Take(100), kBegin + 2310);
}

TEST(ArrivalScheduleTest, ABurstIsDueWhenItIsFullOrItsFirstPacketHasWaited) {
  constexpr std::uint64_t kGap = 2100;  // cycles
  ArrivalSchedule schedule(kHz, 1);
  for (const Rate& rate : {Rate{.pps = 1e6}, Rate{.bps = 1e6 * kBits}}) {
    schedule.Begin(rate, kBegin + 500);
    EXPECT_EQ(schedule.UntilBurst(kBegin, 64, 0), 500U) << "no packet may wait";
    EXPECT_EQ(schedule.UntilBurst(kBegin, 64, 10 * kGap), 500 + 10 * kGap);
    EXPECT_EQ(schedule.UntilBurst(kBegin, 64, 1000 * kGap), 500 + 63 * kGap);
    EXPECT_EQ(schedule.UntilBurst(kBegin + 600, 64, 1000 * kGap), 63 * kGap - 100)
        << "one is due, and has waited";
    EXPECT_FALSE(schedule.IsBurstDue(kBegin + 499, 1, 0));
    EXPECT_TRUE(schedule.IsBurstDue(kBegin + 500, 1, 0));
    EXPECT_FALSE(schedule.IsBurstDue(kBegin + 500 + 31 * kGap - 1, 32, 1000 * kGap));
    EXPECT_TRUE(schedule.IsBurstDue(kBegin + 500 + 31 * kGap, 32, 1000 * kGap));
    EXPECT_TRUE(schedule.IsBurstDue(kBegin + 500 + 5 * kGap, 32, 5 * kGap)) << "long enough";
  }
}

TEST(ArrivalScheduleTest, PoissonHasIndependentExponentialGaps) {
  constexpr std::size_t kCount = 400'000;
  for (const Rate& rate : {Rate{.pps = 1e6, .arrivals = Arrivals::kPoisson},
                           Rate{.bps = 1e6 * kBits, .arrivals = Arrivals::kPoisson}}) {
    const auto gaps = GapsOf(Times(rate, kCount));
    const auto [mean, variance] = MomentsOf(gaps);
    const double deviation = std::sqrt(variance);
    EXPECT_NEAR(mean, kHz / 1e6, 0.01 * kHz / 1e6) << "6 standard errors";
    EXPECT_NEAR(deviation / mean, 1, 0.015);
    double correlation = 0;  // of a gap with the next
    std::size_t long_ones = 0;
    for (std::size_t i = 1; i < gaps.size(); ++i) {
      correlation += (gaps[i] - mean) * (gaps[i - 1] - mean) / variance / kCount;
      if (gaps[i] > 3 * mean) ++long_ones;
    }
    EXPECT_NEAR(correlation, 0, 0.01);
    EXPECT_NEAR(static_cast<double>(long_ones) / kCount, std::exp(-3), 0.002);
  }
}

// How many fall into a while varies as much as they are: neither evened out nor in clumps.
TEST(ArrivalScheduleTest, PoissonComesInBurstsAsItShould) {
  const auto times = Times({.pps = 1e6, .arrivals = Arrivals::kPoisson}, 400'000);
  for (const double mean : {1.0, 10.0, 100.0}) {
    std::vector<double> counts(static_cast<std::size_t>(390'000 / mean));
    for (const std::uint64_t time : times) {
      const auto at =
          static_cast<std::size_t>(static_cast<double>(time - kBegin) / kHz * 1e6 / mean);
      if (at < counts.size()) ++counts[at];
    }
    const auto [found, variance] = MomentsOf(counts);
    // Deviation of the dispersion of n counts: √(2 / n), and more of small ones.
    EXPECT_NEAR(variance / found, 1, 6 * std::sqrt(3.0 / static_cast<double>(counts.size())));
  }
}

TEST(ArrivalScheduleTest, PoissonBeginsWithAGapToo) {
  std::vector<double> first;
  ArrivalSchedule schedule(kHz, 3);
  for (int i = 0; i < 20'000; ++i) {
    schedule.Begin({.pps = 1e6, .arrivals = Arrivals::kPoisson}, kBegin);
    first.push_back(static_cast<double>(schedule.Take(kBits) - kBegin));
  }
  const auto [mean, variance] = MomentsOf(first);
  EXPECT_NEAR(mean, kHz / 1e6, 0.05 * kHz / 1e6);
  EXPECT_NEAR(std::sqrt(variance) / mean, 1, 0.05);
}

TEST(ArrivalScheduleTest, ASeedGivesTheSameGapsWheneverItIsLookedAt) {
  const Rate rate{.pps = 1e6, .arrivals = Arrivals::kPoisson};
  const auto times = Times(rate, 50'000, 5);
  EXPECT_NE(times, Times(rate, 50'000, 6));
  ArrivalSchedule schedule(kHz, 5);
  schedule.Begin(rate, kBegin);
  Dice dice(1);
  std::size_t seen = 0;
  for (std::uint64_t now = kBegin; seen < 40'000;) {
    // Mostly a look after the other, and now and then a stall, of nearly as long as is made up for.
    now += dice.OneIn(100'000) ? dice.Between(0, 2'000'000'000) : dice.Between(0, 300);
    while (schedule.IsDue(now) && seen < times.size()) {
      ASSERT_LE(times[seen], now);
      ASSERT_EQ(schedule.Take(kBits), times[seen]) << seen;
      ++seen;
    }
    ASSERT_TRUE(seen == times.size() || times[seen] > now) << "as soon as it is due";
  }
}

TEST(ArrivalScheduleTest, ForgetsWhatWasDueTooLongAgo) {
  ArrivalSchedule schedule(kHz, 1);
  schedule.Begin({.pps = 1000}, kBegin);
  const auto second = static_cast<std::uint64_t>(kHz);
  ASSERT_TRUE(schedule.IsDue(kBegin + 10 * second));
  std::size_t due = 0;
  std::uint64_t last = 0;
  for (; schedule.IsDue(kBegin + 10 * second); ++due) {
    const std::uint64_t at = schedule.Take(kBits);
    if (due == 0) {
      EXPECT_EQ(at, kBegin + 9 * second);
    }
    last = at;
  }
  EXPECT_EQ(due, 1001U);
  EXPECT_EQ(last, kBegin + 10 * second);
}

TEST(ArrivalScheduleTest, TakesRatesThatNobodyWouldAskFor) {
  for (const auto arrivals : {Arrivals::kConstant, Arrivals::kPoisson}) {
    ArrivalSchedule schedule(kHz, 1);
    for (const double pps : {1e-300, 1e12}) {
      schedule.Begin({.pps = pps, .arrivals = arrivals}, kBegin);
      std::uint64_t last = kBegin;
      for (int i = 0; i < 10; ++i) {
        const std::uint64_t at = schedule.Take(kBits);
        EXPECT_GE(at, last);
        last = at;
      }
    }
  }
}

}  // namespace
}  // namespace unis
