// When tasks sleep between packets, and what wakes them.
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "engine/scheduler/parking_for_test.h"

namespace unis {
namespace {

constexpr Nanoseconds kMaxDelay = 100'000;
constexpr std::uint32_t kMuch = kCapacity / 4;  // packets
static_assert(kMuch > kBatch);

SchedulerSettings SettingsOfRests() {
  SchedulerSettings settings = ParkingAfter(kIdleAfter);
  settings.max_delay = kMaxDelay;
  return settings;
}

// A chain of three on one core that hands it over: task i reads link i.
struct ShortRestsTest : testing::Test {
  ShortRestsTest() : rig(SettingsOfRests(), Chain({0, 0, 0}), 1, Filled({0, 0, 0, 0}), true) {
    rig.controller.can_park = true;
    rig.controller.in_line = {0, 1, 2};
    rig.observer.wanted = false;
    EXPECT_TRUE(rig.cores.Start());
  }
  void Pass(Nanoseconds time) {
    for (const Nanoseconds end = rig.timer.now + time; rig.timer.now < end;) {
      if (turns) rig.controller.turn = {.task = 0, .begun = true};
      rig.TickAt(rig.timer.now + kT);
    }
  }
  // As the plug-in does where its ports are empty.
  void Sleep() {
    turns = rig.controller.in_turn = false;
    Pass(20 * kT);
  }
  // Woken tasks do.
  void Run(Nanoseconds time) {
    turns = rig.controller.in_turn = true;
    Pass(time);
  }
  void PassUntilResting() {
    for (int i = 0; i < 1'000 && !Resting(); ++i) Pass(kT);
    ASSERT_TRUE(Resting());
    Sleep();
    rig.controller.unparked.clear();
  }
  // The woken tasks run, and sleep again.
  void RunOnce() {
    Run(10 * kT);
    rig.monitor.packets = {0, 0, 0, 0};
    Sleep();
  }
  bool Resting() const { return rig.cores[0].statistics().parked; }
  std::uint64_t Wakes() const { return rig.cores[0].statistics().wakes; }

  Rig rig;
  bool turns = true;  // one begins before each look
};

TEST_F(ShortRestsTest, WithoutPacketsTheyRestSoon) {
  Pass(200'000);
  EXPECT_TRUE(Resting());
  EXPECT_EQ(rig.controller.parked.size(), 3U);
}

TEST_F(ShortRestsTest, LittleIsNoReasonToSpin) {
  rig.monitor.packets = {kMuch - 1, 0, 3, 0};
  Pass(200'000);
  EXPECT_TRUE(Resting());
}

TEST_F(ShortRestsTest, MuchAnywhereIs) {
  for (const LinkIndex link : {0U, 1U, 2U}) {
    rig.monitor.packets = {0, 0, 0, 0};
    rig.monitor.packets[link] = kMuch;
    Pass(50'000);
  }
  EXPECT_FALSE(Resting());
}

// It may have taken the last packets, or have slept as long as it may.
TEST_F(ShortRestsTest, WhileATaskRunsThePlatformMayNotNap) {
  PassUntilResting();
  Pass(10 * kT);
  EXPECT_GT(rig.cores[0].idle_until(), rig.timer.now);
  Run(10 * kT);
  EXPECT_EQ(rig.cores[0].idle_until(), 0) << "nothing waits, but it may send";
  turns = false;
  Pass(10 * kT);
  EXPECT_EQ(rig.cores[0].idle_until(), 0) << "its turn goes on";
  Sleep();
  EXPECT_GT(rig.cores[0].idle_until(), rig.timer.now);
  EXPECT_TRUE(Resting());
  EXPECT_EQ(Wakes(), 0U);
}

TEST_F(ShortRestsTest, APacketWaitsForTheLongestDelayAndNoLonger) {
  PassUntilResting();
  Pass(10 * kT);
  EXPECT_GT(rig.cores[0].idle_until(), 0);
  rig.monitor.packets[0] = 1;
  const Nanoseconds came = rig.timer.now;
  Pass(kMaxDelay - 15 * kT);
  EXPECT_NEAR(static_cast<double>(rig.cores[0].idle_until()), static_cast<double>(came + kMaxDelay),
              10 * kT)
      << "then the tasks are woken; two looks early at most";
  EXPECT_EQ(Wakes(), 0U);
  Pass(20 * kT);
  EXPECT_EQ(Wakes(), 1U);
  EXPECT_NEAR(static_cast<double>(rig.cores[0].statistics().wake_delay),
              static_cast<double>(kMaxDelay), 20 * kT);
  EXPECT_EQ(rig.controller.unparked, (TaskList{0, 1, 2}));
}

// The scheduler naps too. A packet that came meanwhile may have come right after the last look.
TEST_F(ShortRestsTest, ATimeInWhichNobodyLookedCountsAsWait) {
  PassUntilResting();
  rig.timer.now += kMaxDelay;
  rig.monitor.packets[0] = 1;
  rig.TickAt(rig.timer.now);
  EXPECT_EQ(Wakes(), 1U);
  EXPECT_EQ(rig.cores[0].idle_until(), 0) << "tasks run";
}

TEST_F(ShortRestsTest, ATimeInWhichTheSourceHeldPacketsCountsAsWait) {
  PassUntilResting();
  rig.timer.now += kMaxDelay;
  rig.TickAt(rig.timer.now);  // before the turn of the source
  EXPECT_EQ(Wakes(), 0U);
  rig.monitor.packets[0] = 1;
  Pass(10 * kT);
  EXPECT_EQ(Wakes(), 1U);
}

// What the tasks of the line have sent, and taken.
struct ShortRestsWithTimersTest : ShortRestsTest {
  ShortRestsWithTimersTest() { rig.monitor.sent = rig.monitor.received = {0, 0, 0, 0}; }
  // Task 1 polls after its longest sleep.
  void PollsAndSends(std::uint16_t taken, std::uint16_t sent) {
    Run(2 * kT);
    rig.monitor.received[1] += taken;
    rig.monitor.sent[2] += sent;
    rig.monitor.received[2] += sent;  // which task 2 takes at once
    rig.monitor.sent[3] += sent;
    Sleep();
  }
  std::optional<TaskIndex> SendsByTimer() const { return rig.cores[0].statistics().sends_by_timer; }
};

TEST_F(ShortRestsWithTimersTest, ATaskThatSendsByATimerEndsThem) {
  PassUntilResting();
  Pass(200'000);
  for (int i = 0; i < 2; ++i) {
    PollsAndSends(0, 32);
    EXPECT_TRUE(Resting());
  }
  EXPECT_EQ(SendsByTimer(), std::nullopt) << "too early to tell";
  PollsAndSends(0, 32);
  EXPECT_EQ(SendsByTimer(), 1U);
  EXPECT_FALSE(Resting());
  EXPECT_TRUE(rig.controller.parked.empty());
  Run(200'000);
  EXPECT_FALSE(Resting()) << "for ever";
}

TEST_F(ShortRestsWithTimersTest, ATaskThatTookPacketsMaySendThem) {
  PassUntilResting();
  for (int i = 0; i < 20; ++i) PollsAndSends(32, 32);
  EXPECT_TRUE(Resting());
  EXPECT_EQ(SendsByTimer(), std::nullopt);
}

TEST_F(ShortRestsWithTimersTest, WhatWokenTasksSendIsNoTimers) {
  PassUntilResting();
  for (int i = 0; i < 20; ++i) {
    rig.monitor.packets[0] = kMuch;
    Pass(10 * kT);
    rig.monitor.sent[2] += 32;  // before the counter of what it took is read
    RunOnce();
    rig.monitor.received[1] += 32;
    Pass(10 * kT);
  }
  EXPECT_TRUE(Resting());
  EXPECT_EQ(SendsByTimer(), std::nullopt);
}

TEST_F(ShortRestsWithTimersTest, WhatIsCountedLateIsNoTimers) {
  PassUntilResting();
  for (int i = 0; i < 20; ++i) {
    rig.monitor.packets[0] = kMuch;
    Pass(10 * kT);
    rig.monitor.received[1] += 32;
    RunOnce();
    rig.monitor.sent[2] += 32;
    Pass(50 * kT);
  }
  EXPECT_TRUE(Resting());
  EXPECT_EQ(SendsByTimer(), std::nullopt);
}

TEST_F(ShortRestsWithTimersTest, WhereSomethingElsePassesPacketsOnNobodyIsSaidToSendByATimer) {
  rig.monitor.late = true;
  PassUntilResting();
  for (int i = 0; i < 20; ++i) PollsAndSends(0, 32);
  EXPECT_TRUE(Resting());
  EXPECT_EQ(SendsByTimer(), std::nullopt);
}

TEST_F(ShortRestsWithTimersTest, ATaskThatSaysHelloNowAndThenMaySleep) {
  PassUntilResting();
  for (int i = 0; i < 10; ++i) {
    PollsAndSends(0, 1);
    for (int k = 0; k < 600; ++k) {
      rig.timer.now += 1'000'000;
      rig.TickAt(rig.timer.now);
    }
  }
  EXPECT_TRUE(Resting());
  EXPECT_EQ(SendsByTimer(), std::nullopt);
}

TEST_F(ShortRestsTest, APacketAfterALongTimeWakesThemAtOnce) {
  PassUntilResting();
  Pass(1'000'000);
  rig.monitor.packets[0] = 1;
  Pass(10 * kT);
  EXPECT_EQ(Wakes(), 1U);
  RunOnce();
  rig.monitor.packets[0] = 1;
  Pass(kMaxDelay / 2);
  EXPECT_EQ(Wakes(), 1U) << "the next one waits for others";
}

TEST_F(ShortRestsTest, MuchWakesThemAtOnce) {
  PassUntilResting();
  rig.monitor.packets[0] = kMuch;
  Pass(10 * kT);
  EXPECT_EQ(Wakes(), 1U);
  EXPECT_EQ(rig.controller.parked.size(), 3U) << "they sleep again where their ports are empty";
  EXPECT_TRUE(Resting());
}

// A driver may give less than there is, which the plug-in takes for all.
TEST_F(ShortRestsTest, TasksThatFallAsleepWithMuchInFrontSpinAgain) {
  PassUntilResting();
  rig.monitor.packets[0] = kMuch;
  for (int i = 0; i < 20 && Resting(); ++i) {
    Run(10 * kT);
    Sleep();
  }
  EXPECT_FALSE(Resting());
}

TEST_F(ShortRestsTest, OnlyThoseThatHaveWorkOrWillAreWoken) {
  PassUntilResting();
  rig.monitor.packets[1] = kMuch;
  Pass(10 * kT);
  EXPECT_EQ(rig.controller.unparked, (TaskList{1, 2}));
}

TEST_F(ShortRestsTest, APassThatIsOverIsFollowedByTheNext) {
  PassUntilResting();
  for (std::uint64_t i = 1; i <= 5; ++i) {
    rig.monitor.packets[0] = kMuch;
    Pass(10 * kT);
    EXPECT_EQ(Wakes(), i);
    RunOnce();
  }
  EXPECT_TRUE(Resting());
}

TEST_F(ShortRestsTest, WhileTheyRunNobodyIsWoken) {
  PassUntilResting();
  rig.monitor.packets[0] = kMuch;
  Pass(10 * kT);
  Run(100 * kT);
  EXPECT_EQ(Wakes(), 1U);
}

TEST_F(ShortRestsTest, WhereTheyCannotCatchUpTheySpin) {
  PassUntilResting();
  rig.monitor.packets[0] = kMuch;
  Pass(10 * kT);
  Run(300'000);
  EXPECT_FALSE(Resting());
  EXPECT_TRUE(rig.controller.parked.empty());
}

TEST_F(ShortRestsTest, OneThatKeepsTheCpuIsPreempted) {
  PassUntilResting();
  rig.monitor.packets[0] = 1;
  Pass(kMaxDelay + 10 * kT);
  ASSERT_EQ(Wakes(), 1U);
  Run(10 * kT);
  turns = false;  // and its turn goes on
  rig.controller.switches.clear();
  Pass(3'000'000);
  EXPECT_FALSE(Resting());
  EXPECT_FALSE(rig.controller.switches.empty());
}

TEST_F(ShortRestsTest, BetweenTwoTurnsNobodyIsTakenForAsleep) {
  PassUntilResting();
  rig.monitor.packets[0] = kMuch;
  Pass(10 * kT);
  ASSERT_EQ(Wakes(), 1U);
  Run(10 * kT);
  turns = false;
  for (int i = 0; i < 20; ++i) {
    rig.controller.in_turn = i % 2 == 1;
    Pass(5 * kT);
  }
  EXPECT_EQ(Wakes(), 1U);
}

TEST_F(ShortRestsTest, AThreadThatNeverStartsIsWokenAgain) {
  PassUntilResting();
  rig.monitor.packets[0] = 1;
  Pass(kMaxDelay + 10 * kT);
  ASSERT_EQ(Wakes(), 1U);
  Pass(500'000);
  EXPECT_GT(Wakes(), 1U);
}

TEST_F(ShortRestsTest, ASleepIsRenewedBeforeItEndsByItself) {
  PassUntilResting();
  int before = rig.controller.renewed;
  Pass(10 * ProcessController::kParkHolds);
  EXPECT_GE(rig.controller.renewed - before, 3 * 20);
  EXPECT_EQ(Wakes(), 0U);
  before = rig.controller.renewed;
  Run(ProcessController::kParkHolds);
  EXPECT_GT(rig.controller.renewed, before) << "also while they run";
}

TEST_F(ShortRestsTest, WhereATaskCannotBeParkedNoneIs) {
  rig.controller.cannot_park = {1};
  Pass(kIdleAfter / 2);  // then tasks begin to sleep alone
  EXPECT_FALSE(Resting());
  EXPECT_EQ(rig.controller.parks, 0);
}

class SmallLinksTest : public testing::Test {
 protected:
  SmallLinksTest() {
    rig.controller.can_park = true;
    rig.controller.in_line = {0, 1};
    EXPECT_TRUE(rig.cores.Start());
  }

  Rig rig{SettingsOfRests(), Chain({0, 0}), 1, SmallLinks(), true};

 private:
  static FakeMonitor SmallLinks() {
    FakeMonitor links = Filled({0, 0, 0});
    for (std::uint32_t& capacity : links.capacity) capacity = 127;
    return links;
  }
};

TEST_F(SmallLinksTest, NobodySleepsBetweenPackets) {
  for (Nanoseconds now = 0; now < kIdleAfter / 2; now += kT) {
    rig.controller.turn = {.task = 0, .begun = true};
    rig.TickAt(now);
  }
  EXPECT_FALSE(rig.cores[0].statistics().parked);
}

TEST(LinksOfKernelDevicesTest, TheirTasksSleepThoughTheyHoldFew) {
  for (const bool slow : {false, true}) {
    FakeMonitor links = Filled({0, 0, 0});
    links.capacity.assign(3, 256);
    links.slow = slow;
    Rig rig{SettingsOfRests(), Chain({0, 0}), 1, std::move(links), true};
    rig.controller.can_park = true;
    rig.controller.in_line = {0, 1};
    EXPECT_TRUE(rig.cores.Start());
    for (Nanoseconds now = 0; now < kIdleAfter / 2; now += kT) {
      rig.controller.turn = {.task = 0, .begun = true};
      rig.TickAt(now);
    }
    EXPECT_EQ(rig.cores[0].statistics().parked, slow);
  }
}

// Such a core does not keep others from naps between packets.
TEST_F(SmallLinksTest, PacketsForACoreThatIsParkedMayBeKeptBackToo) {
  rig.TickAt(kT);
  EXPECT_EQ(rig.cores.slack(), 0);
  for (Nanoseconds now = kT; now < 2 * kIdleAfter; now += kT) rig.TickAt(now);
  EXPECT_TRUE(rig.cores[0].statistics().parked);
  EXPECT_EQ(rig.cores.slack(), kMaxDelay);
}

TEST(PlatformNapTest, OnlyWhileAllTasksHandTheCpuOverAndWaitForNoGrant) {
  constexpr Nanoseconds kNap = 50'000;
  struct Case {
    TaskList in_line;
    bool divides;
    Nanoseconds nap;
  };
  for (const Case& asked : {Case{{0, 1}, false, kNap}, {{0}, false, 0}, {{0, 1}, true, 0}}) {
    SchedulerSettings settings = SettingsOfRests();
    settings.platform_nap = kNap;
    CostedTasks tasks = Chain({0, 0});
    tasks.set.divides = asked.divides;
    Rig rig(settings, tasks, 1, Filled({1, 0, 0}), true);
    rig.controller.in_line = asked.in_line;
    ASSERT_TRUE(rig.cores.Start());
    rig.TickAt(kT);
    EXPECT_EQ(rig.cores.idle_for(kT), asked.nap);
    EXPECT_EQ(rig.cores.may_nap(), asked.nap > 0);
    EXPECT_EQ(rig.cores.slack(), asked.nap);
  }
}

// Of many tasks one may hold the CPU; one alone may have found packets at each poll.
TEST(RestsWithoutTurnsTest, OnlyATaskThatIsAloneSleeps) {
  for (const bool alone : {true, false}) {
    const auto cores = alone ? std::vector<CoreIndex>{0} : std::vector<CoreIndex>{0, 0};
    Rig rig(SettingsOfRests(), Chain(cores), 1, Filled({kMuch - 1, 0, 0}), true);
    rig.controller.can_park = true;
    rig.controller.in_line = {0, 1};
    EXPECT_TRUE(rig.cores.Start());
    for (Nanoseconds now = 0; now < kIdleAfter / 2; now += kT) rig.TickAt(now);
    EXPECT_EQ(rig.cores[0].statistics().parked, alone);
  }
}

// It is told to sleep where it polls, and does not poll.
TEST(RestsWithoutTurnsTest, ATaskThatIsAloneAndComputesIsSeldomToldTo) {
  Rig rig(SettingsOfRests(), Chain({0}), 1, Filled({1, 0}), true);
  rig.controller.can_park = true;
  rig.controller.in_line = {0};
  EXPECT_TRUE(rig.cores.Start());
  for (Nanoseconds now = 0; now < 100'000'000; now += kT) rig.TickAt(now);
  EXPECT_LT(rig.cores[0].statistics().parks, 12U);
}

TEST(NoShortRestsTest, WhereATaskDoesNotYield) {
  Rig rig(SettingsOfRests(), Chain({0, 0}), 1, Filled({1, 0, 0}), true);
  rig.controller.can_park = true;
  rig.controller.in_line = {0};
  EXPECT_TRUE(rig.cores.Start());
  for (Nanoseconds now = 0; now < 1'000'000; now += kT) rig.TickAt(now);
  EXPECT_FALSE(rig.cores[0].statistics().parked);
}

}  // namespace
}  // namespace unis
