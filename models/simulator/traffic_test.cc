#include "models/simulator/traffic.h"

#include <gtest/gtest.h>

#include <cmath>
#include <deque>
#include <vector>

namespace unis::sim {
namespace {

TEST(PacketQueueTest, TellsWhatFits) {
  PacketQueue queue(7);
  EXPECT_EQ(queue.capacity(), 7u);
  EXPECT_EQ(queue.Push({0, 0, 5}), 5u);
  EXPECT_EQ(queue.Push({1, 0, 5}), 2u);
  EXPECT_EQ(queue.Push({2, 0, 1}), 0u);
  EXPECT_EQ(queue.size(), 7u);
}

// Against a queue of single packets.
TEST(PacketQueueTest, KeepsOrderTimesAndSizes) {
  Random random(11);
  PacketQueue queue(63);
  std::deque<PacketRun> single;
  Time now = 0;
  for (int step = 0; step < 20'000; ++step) {
    now += static_cast<Time>(random.Next() % 2);
    const PacketRun run{now, static_cast<SizeClass>(random.Next() % 2),
                        static_cast<std::uint32_t>(random.Next() % 20)};
    const std::uint32_t pushed = queue.Push(run);
    ASSERT_EQ(pushed, std::min<std::size_t>(run.count, 63 - single.size()));
    for (std::uint32_t i = 0; i < pushed; ++i) single.push_back({run.arrived, run.size, 1});

    std::vector<PacketRun> burst;
    const std::uint32_t taken = queue.Take(static_cast<std::uint32_t>(random.Next() % 20), burst);
    std::uint32_t seen = 0;
    for (const PacketRun& part : burst) {
      for (std::uint32_t i = 0; i < part.count; ++i, ++seen) {
        ASSERT_EQ(part.arrived, single.front().arrived);
        ASSERT_EQ(part.size, single.front().size);
        single.pop_front();
      }
    }
    ASSERT_EQ(seen, taken);
    ASSERT_EQ(queue.size(), single.size());
  }
}

TEST(PacketSizesTest, DrawsTheSharesOfTheMix) {
  for (const SizeMix mix : {SizeMix::kFixed, SizeMix::kImix, SizeMix::kDatacenter}) {
    const PacketSizes sizes(mix, 128);
    Random random(5);
    std::vector<int> seen(sizes.shares().size());
    constexpr int kDraws = 120'000;
    for (int i = 0; i < kDraws; ++i) ++seen[sizes.Draw(random)];
    for (SizeClass size = 0; size < seen.size(); ++size) {
      EXPECT_NEAR(static_cast<double>(seen[size]) / kDraws, sizes.Share(size), 0.01);
    }
  }
  const auto imix = PacketSizes(SizeMix::kImix, 0).shares();
  ASSERT_EQ(imix.size(), 3u);
  EXPECT_EQ(imix[2].bytes, 1518u);
  EXPECT_DOUBLE_EQ(PacketSizes(SizeMix::kImix, 0).Share(0), 7.0 / 12);
}

TEST(CostTest, IsLinearBetweenTheEntriesAndConstantBeyond) {
  FunctionSpec function;
  function.cost_ns = 1;
  EXPECT_DOUBLE_EQ(CostOf(function, 700), 1);
  function.cost_by_size = {{100, 50}, {200, 100}, {1200, 200}};
  EXPECT_DOUBLE_EQ(CostOf(function, 64), 50);
  EXPECT_DOUBLE_EQ(CostOf(function, 100), 50);
  EXPECT_DOUBLE_EQ(CostOf(function, 150), 75);
  EXPECT_DOUBLE_EQ(CostOf(function, 200), 100);
  EXPECT_DOUBLE_EQ(CostOf(function, 700), 150);
  EXPECT_DOUBLE_EQ(CostOf(function, 1518), 200);
  // (64 and 594 of 7:4:1 lie at 50 and 139.4 ns, 1518 at 200 ns.)
  EXPECT_NEAR(MeanCost(function, PacketSizes(SizeMix::kImix, 0)), (7 * 50 + 4 * 139.4 + 200) / 12,
              1e-9);
}

std::vector<Time> ArrivalTimes(const ArrivalSpec& spec, std::size_t count, std::uint64_t seed) {
  Arrivals arrivals(spec, seed);
  std::vector<Time> times;
  for (std::size_t i = 0; i < count; ++i, arrivals.Advance()) times.push_back(arrivals.next());
  return times;
}

TEST(ArrivalsTest, ConstantBurstsAreEquallyFarApartForEver) {
  ArrivalSpec spec;
  spec.kind = ArrivalKind::kConstant;
  spec.pps = 3e6;  // a burst of one each 333333.3… ps
  spec.burst = 1;
  const auto times = ArrivalTimes(spec, 3'000'001, 0);
  EXPECT_EQ(times[0], 0);
  EXPECT_EQ(times[1], 333'333);
  EXPECT_EQ(times[2], 666'667);
  EXPECT_EQ(times[3'000'000], 1'000'000'000'000);  // 1 s: no drift
}

TEST(ArrivalsTest, OnOffIsSilentWhileOff) {
  ArrivalSpec spec;
  spec.kind = ArrivalKind::kOnOff;
  spec.pps = 32e6;  // a burst of 32 each µs
  spec.on = 3'000;
  spec.off = 7'000;
  const auto times = ArrivalTimes(spec, 7, 0);
  const Time us = 1'000 * kNanosecond;
  EXPECT_EQ(times, (std::vector<Time>{0, us, 2 * us, 10 * us, 11 * us, 12 * us, 20 * us}));
}

TEST(ArrivalsTest, PoissonGapsHaveTheMeanAndDeviationOfTheExponential) {
  ArrivalSpec spec;
  spec.kind = ArrivalKind::kPoisson;
  spec.pps = 32e6;
  constexpr std::size_t kBursts = 200'000;
  const auto times = ArrivalTimes(spec, kBursts, 9);
  double sum = 0;
  double squares = 0;
  for (std::size_t i = 1; i < kBursts; ++i) {
    const auto gap = static_cast<double>(times[i] - times[i - 1]) / 1e6;  // µs
    ASSERT_GE(gap, 0);
    sum += gap;
    squares += gap * gap;
  }
  const double mean = sum / (kBursts - 1);
  EXPECT_NEAR(mean, 1, 0.02);
  EXPECT_NEAR(std::sqrt(squares / (kBursts - 1) - mean * mean), 1, 0.02);
  EXPECT_EQ(times, ArrivalTimes(spec, kBursts, 9));
  EXPECT_NE(times, ArrivalTimes(spec, kBursts, 10));
}

// Else a simulation would never come to its end.
TEST(ArrivalsTest, TimeGoesForwardHoweverFarApartBurstsAre) {
  for (const ArrivalKind kind :
       {ArrivalKind::kConstant, ArrivalKind::kPoisson, ArrivalKind::kOnOff}) {
    ArrivalSpec spec;
    spec.kind = kind;
    spec.pps = 1e-3;
    spec.burst = 1U << 20;
    spec.on = 1;
    spec.off = 1'000'000'000'000;
    Arrivals arrivals(spec, 1);
    const Time first = arrivals.next();
    EXPECT_GE(first, 0);
    arrivals.Advance();
    EXPECT_GT(arrivals.next(), first);
  }
}

TEST(ArrivalsTest, SaturatingTrafficHasNoTimesOfItsOwn) {
  EXPECT_EQ(Arrivals({}, 0).next(), kNever);
}

}  // namespace
}  // namespace unis::sim
