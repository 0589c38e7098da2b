#include "engine/base/interrupt.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "engine/base/eventually_for_test.h"

namespace unis {
namespace {

TEST(InterruptTest, SleepsTheWholeTimeWhenNobodyInterrupts) {
  Interrupt interrupt;
  const auto begin = TestClock::now();
  EXPECT_TRUE(interrupt.SleepFor(5ms));
  EXPECT_GE(TestClock::now() - begin, 5ms);
  EXPECT_FALSE(interrupt.raised());
}

TEST(InterruptTest, WakesAllThatSleep) {
  Interrupt interrupt;
  std::atomic<int> asleep{0}, interrupted{0};
  std::vector<std::thread> sleepers;
  for (int i = 0; i < 3; ++i) {
    sleepers.emplace_back([&] {
      ++asleep;
      if (!interrupt.SleepFor(1h)) ++interrupted;
    });
  }
  EXPECT_TRUE(Eventually([&] { return asleep == 3; }));
  interrupt.Raise();
  for (std::thread& sleeper : sleepers) sleeper.join();
  EXPECT_EQ(interrupted, 3);
}

TEST(InterruptTest, NobodySleepsAfterwards) {
  Interrupt interrupt;
  interrupt.Raise();
  interrupt.Raise();
  EXPECT_TRUE(interrupt.raised());
  EXPECT_FALSE(interrupt.SleepFor(1h));
  EXPECT_FALSE(interrupt.SleepFor(0s));
}

}  // namespace
}  // namespace unis
