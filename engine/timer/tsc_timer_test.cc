#include "engine/timer/tsc_timer.h"

#include <gtest/gtest.h>
#include <rte_cycles.h>

#include <cmath>
#include <cstdint>
#include <random>

#include "engine/base/eal_for_test.h"

namespace unis {
namespace {

class TscTimerTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { ASSERT_TRUE(StartTestEal()); }

  // Without the rounding of ToNs.
  static long double Exact(const TscClock& clock, std::uint64_t cycles) {
    return static_cast<long double>(cycles) * 1e9L / static_cast<long double>(clock.hz());
  }
};

TEST_F(TscTimerTest, NeverGoesBack) {
  const TscTimer timer;
  Nanoseconds last = timer.Now();
  for (int i = 0; i < 1'000'000; ++i) {
    const Nanoseconds now = timer.Now();
    ASSERT_GE(now, last);
    last = now;
  }
}

TEST_F(TscTimerTest, AdvancesWithTheCounter) {
  const TscTimer timer;
  const std::uint64_t cycles = TscClock::Cycles();
  const Nanoseconds from = timer.Now();
  rte_delay_us_block(2000);
  const Nanoseconds passed = timer.Now() - from;
  const Nanoseconds around = timer.clock().ToNs(TscClock::Cycles() - cycles);
  EXPECT_GE(passed, timer.clock().ToNs(rte_get_tsc_hz() / 500) - 1);  // the delay counts cycles too
  EXPECT_LE(passed, around + 1);
}

TEST_F(TscTimerTest, ConversionRoundsDownWithinItsBound) {
  const TscClock clock;
  ASSERT_EQ(clock.hz(), rte_get_tsc_hz());
  // One unit of the 28-bit scale, and one nanosecond of rounding.
  const long double relative = static_cast<long double>(clock.hz()) / 1e9L / 0x1p28L;
  std::mt19937_64 random(1);
  for (int i = 0; i < 200'000; ++i) {
    const std::uint64_t cycles = random() >> (1 + random() % 60);  // of every magnitude
    const long double exact = Exact(clock, cycles);
    const auto ns = static_cast<long double>(clock.ToNs(cycles));
    ASSERT_LE(ns, exact) << cycles;
    ASSERT_LE(exact - ns, exact * relative + 1) << cycles;
  }
}

TEST_F(TscTimerTest, LongUptimesDoNotOverflow) {
  const TscClock clock;
  const std::uint64_t year = clock.hz() * 60 * 60 * 24 * 365;
  EXPECT_NEAR(static_cast<double>(clock.ToNs(year)) / (1e9 * 60 * 60 * 24 * 365), 1.0, 1e-7);
}

TEST_F(TscTimerTest, CyclesAndNanosecondsAreInverse) {
  const TscClock clock;
  std::mt19937_64 random(2);
  for (int i = 0; i < 10'000; ++i) {
    const std::uint64_t cycles = random() >> (12 + random() % 40);
    const double back = clock.ToCycles(static_cast<double>(clock.ToNs(cycles)));
    const double slack = 1 + static_cast<double>(clock.hz()) / 1e9;  // the nanosecond rounded off
    ASSERT_NEAR(back, static_cast<double>(cycles), slack + static_cast<double>(cycles) * 0x1p-26)
        << cycles;
  }
}

}  // namespace
}  // namespace unis
