// Tasks that are parked alone, while others of their core work.
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "engine/scheduler/parking_for_test.h"

namespace unis {
namespace {

constexpr Nanoseconds kLookAtParked = 5'000;
constexpr Nanoseconds kTurnTakes = 30'000;
constexpr Nanoseconds kLongestQuiet = 50'000;

// Task 0 is busy and reads link 0; tasks 1, 2 and 3 are a chain from link 2 to link 5, and empty.
CostedTasks BusyBesideChain() {
  return std::vector<OnePath>{
      {0, 0, 1, kCost}, {0, 2, 3, kCost}, {0, 3, 4, kCost}, {0, 4, 5, kCost}};
}

struct ParkingAloneTest : ParkingCoreTest {
  explicit ParkingAloneTest(Nanoseconds idle_after = kIdleAfter, TaskList in_line = {0, 1, 2, 3})
      : ParkingCoreTest(BusyBesideChain(), {kPlenty, 0, 0, 0, 0, 0}, std::move(in_line),
                        idle_after) {}
  // Turns go round among those who are awake; task 0 takes packets in each of its own.
  void BeforeTick() override {
    if (rig.timer.now < next_turn) return;
    next_turn = rig.timer.now + kTurnTakes;
    do turn = (turn + 1) % 4;
    while (std::ranges::count(rig.controller.parked, turn) > 0);
    rig.controller.turn = {.task = turn, .begun = true};
    if (turn == 0) rig.monitor.received[0] += 64;
  }
  // Task 0, whose turn was seen, keeps it for longer than it may.
  void PollsNoMore() {
    rig.TickAt(rig.timer.now + kLongestQuiet);
    rig.TickAt(rig.timer.now + 2 * kSlice + 200'000);
  }

  TaskIndex turn = 0;
  Nanoseconds next_turn = 0;
};

TEST_F(ParkingAloneTest, TasksWithoutPacketsAreParkedAndTheOtherGoesOn) {
  Pass(kIdleAfter);
  EXPECT_EQ(Parked(), TaskList{});
  Pass(kIdleAfter);
  EXPECT_EQ(Parked(), (TaskList{1, 2, 3}));
  EXPECT_FALSE(AllParked()) << "the core works";
  EXPECT_TRUE(rig.controller.switches.empty());
  EXPECT_EQ(rig.Current(0), 0U);
}

TEST_F(ParkingAloneTest, OneThatTakesWhatComesAtOnceStaysAwake) {
  for (int i = 0; i < 20; ++i) {
    Pass(kIdleAfter / 2);
    ++rig.monitor.received[3];
  }
  EXPECT_EQ(Parked(), (TaskList{1, 3}));
}

TEST_F(ParkingAloneTest, OneThatSendsWithoutTakingStaysAwake) {
  for (int i = 0; i < 20; ++i) {
    Pass(kIdleAfter / 2);
    ++rig.monitor.sent[4];  // of task 2
  }
  EXPECT_EQ(Parked(), (TaskList{1, 3}));
}

TEST_F(ParkingAloneTest, OneThatSendsByTheClockIsSoonLeftAwake) {
  int slept = 0;
  for (int i = 0; i < 40; ++i) {
    Pass(3 * kIdleAfter);
    ++rig.monitor.sent[4];  // of task 2
    const bool sleeps = std::ranges::count(Parked(), 2U) > 0;
    slept += static_cast<int>(sleeps);
    EXPECT_FALSE(sleeps && i >= 20) << i;
  }
  EXPECT_GT(slept, 0);
  Pass(100 * kIdleAfter);
  EXPECT_EQ(Parked().size(), 3U) << "when it sends no more";
}

TEST_F(ParkingAloneTest, OneThatHasPacketsStaysAwake) {
  rig.monitor.packets[3] = 1;
  Pass(10 * kIdleAfter);
  EXPECT_EQ(Parked(), (TaskList{1, 3}));
}

TEST_F(ParkingAloneTest, APacketWakesItsTaskAndThoseBehindIt) {
  Pass(3 * kIdleAfter);
  rig.monitor.packets[3] = 1;
  Pass(kLookAtParked + kT);
  EXPECT_EQ(Parked(), TaskList{1});
  EXPECT_TRUE(rig.controller.switches.empty());
}

TEST_F(ParkingAloneTest, AndFromTheFirstOnAll) {
  Pass(3 * kIdleAfter);
  rig.monitor.packets[2] = 1;
  Pass(kLookAtParked + kT);
  EXPECT_EQ(Parked(), TaskList{});
}

TEST_F(ParkingAloneTest, SleepIsRenewedBeforeItEndsByItself) {
  Pass(3 * kIdleAfter);
  rig.controller.renewed = 0;
  Pass(10 * ProcessController::kParkHolds);
  EXPECT_GE(rig.controller.renewed, 3 * 20);
  EXPECT_LE(rig.controller.renewed, 3 * 100);
}

TEST_F(ParkingAloneTest, ThinTrafficDoesNotSleepAndWakeForEachPacket) {
  int slept = 0;
  for (int i = 0; i < 200; ++i) {
    rig.monitor.packets[2] = 1;
    Pass(2 * kLookAtParked);
    rig.monitor.packets[2] = 0;
    ++rig.monitor.received[2];
    Pass(2 * kIdleAfter);
    slept += static_cast<int>(std::ranges::count(Parked(), 1U));
  }
  EXPECT_LE(slept, 10);
}

TEST_F(ParkingAloneTest, OneThatSleepsIsNotTheNextInLine) {
  Pass(3 * kIdleAfter);
  PollsNoMore();
  EXPECT_TRUE(rig.controller.switches.empty());
  rig.monitor.packets[4] = 1;
  rig.TickAt(rig.timer.now + kLookAtParked);
  EXPECT_EQ(Parked(), (TaskList{1, 2}));
  rig.TickAt(rig.timer.now + 60'000);
  EXPECT_EQ(rig.controller.switches, (std::vector<SwitchCall>{{0, 0, 3}}));
}

TEST_F(ParkingAloneTest, WhenNoTaskHasPacketsAllAreParkedAndTheFirstPacketUnparksAll) {
  Pass(3 * kIdleAfter);
  rig.monitor.packets[0] = 0;
  for (int i = 0; i < 3000 && !AllParked(); ++i) rig.TickAt(rig.timer.now + kT);
  ASSERT_TRUE(AllParked());
  rig.controller.unparked.clear();
  rig.monitor.packets[0] = kPlenty;
  rig.TickAt(rig.timer.now + kT);
  EXPECT_EQ(rig.controller.unparked, (TaskList{0, 1, 2, 3}));
  Pass(kIdleAfter);
  EXPECT_EQ(Parked(), TaskList{});
  Pass(kIdleAfter);
  EXPECT_EQ(Parked(), (TaskList{1, 2, 3}));
}

TEST_F(ParkingAloneTest, ATaskThatCannotBeParkedIsAskedAgain) {
  rig.controller.can_park = false;
  Pass(10 * kIdleAfter);
  rig.monitor.packets[3] = 1;  // nobody is taken to sleep, whom this would wake
  Pass(kIdleAfter);
  EXPECT_TRUE(rig.controller.unparked.empty());
  rig.monitor.packets[3] = 0;
  rig.controller.can_park = true;
  Pass(3 * kIdleAfter);
  EXPECT_EQ(Parked().size(), 3U);
}

TEST_F(ParkingAloneTest, WhereAllOthersSleepOneThatPollsNoMoreIsNotLookedAtAtEachTick) {
  Pass(3 * kIdleAfter);
  PollsNoMore();
  const Nanoseconds late = rig.timer.now;
  const int before = rig.controller.looks;
  for (int i = 1; i <= 100; ++i) rig.TickAt(late + i * kT);
  EXPECT_LE(rig.controller.looks - before, 3);
  rig.monitor.packets[4] = 1;
  for (int i = 0; i < 10 && rig.controller.switches.empty(); ++i) rig.TickAt(rig.timer.now + kT);
  EXPECT_EQ(rig.controller.switches, (std::vector<SwitchCall>{{0, 0, 3}})) << "at once";
}

TEST_F(ParkingAloneTest, TheLineIsLookedAtNoMoreOftenForTheirSake) {
  Pass(3 * kIdleAfter);
  const int before = rig.controller.looks;
  rig.controller.turn.reset();
  for (int i = 0; i < 200; ++i) rig.TickAt(rig.timer.now + kT);
  EXPECT_LE(rig.controller.looks - before, 6);
}

// The one look that it is worth, and then no more than before.
TEST_F(ParkingAloneTest, AfterAWakeTheLineIsNotLookedAtEachTick) {
  Pass(3 * kIdleAfter);
  ASSERT_FALSE(rig.controller.parked.empty());
  rig.monitor.packets[2] = 1;
  rig.TickAt(rig.timer.now + 5 * kT);  // who sleeps is looked at every 5 µs
  ASSERT_FALSE(rig.controller.unparked.empty());
  const int looks = rig.controller.looks;
  for (int i = 0; i < 40; ++i) rig.TickAt(rig.timer.now + kT);
  EXPECT_LE(rig.controller.looks, looks + 2);
}

struct NeverParkedAloneTest : ParkingAloneTest {
  NeverParkedAloneTest() : ParkingAloneTest(0) {}  // spins
};

TEST_F(NeverParkedAloneTest, WhereIdleMeansSpinning) {
  Pass(10 * kIdleAfter);
  EXPECT_EQ(Parked(), TaskList{});
}

struct NotAllInLineTest : ParkingAloneTest {
  NotAllInLineTest() : ParkingAloneTest(kIdleAfter, {0, 1, 2}) {}
};

TEST_F(NotAllInLineTest, WhereATaskMustBeSwitchedToNoneIsParkedAlone) {
  Pass(10 * kIdleAfter);
  EXPECT_EQ(Parked(), TaskList{});
}

}  // namespace
}  // namespace unis
