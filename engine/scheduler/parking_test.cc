// When all tasks of a core are parked, and what unparks them.
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "engine/scheduler/parking_for_test.h"

namespace unis {
namespace {

using Calls = std::vector<SwitchCall>;

// A chain of three on one core, empty: task i reads link i.
struct ParkingTest : ParkingCoreTest {
  explicit ParkingTest(TaskList in_line = {})
      : ParkingCoreTest(Chain({0, 0, 0}), {0, 0, 0, 0}, std::move(in_line)) {}
  void PassUntilParked() {
    for (int i = 0; i < 100'000 && !AllParked(); ++i) Pass(kT);
    ASSERT_TRUE(AllParked());
  }
  // A packet comes; the task that reads `link` takes it at once.
  void ComesAndGoes(LinkIndex link) {
    ++rig.monitor.packets[link];
    Pass(kT);
    --rig.monitor.packets[link];
    ++rig.monitor.received[link];
  }
};

TEST_F(ParkingTest, ParksWhenNoTaskHadPacketsForSoLong) {
  Pass(kIdleAfter);
  EXPECT_FALSE(AllParked());
  Pass(kT);
  EXPECT_TRUE(AllParked());
  EXPECT_EQ(rig.controller.parked, (TaskList{0, 1, 2}));
  EXPECT_EQ(rig.cores[0].statistics().parks, 1U);
  EXPECT_TRUE(rig.controller.switches.empty());
}

TEST_F(ParkingTest, OnePacketInFrontOfATaskKeepsAllAwake) {
  for (const LinkIndex link : {0U, 1U, 2U}) {
    rig.monitor.packets = {0, 0, 0, 0};
    rig.monitor.packets[link] = 1;
    Pass(kIdleAfter * 3 / 4);
  }
  EXPECT_FALSE(AllParked());
  rig.monitor.packets = {0, 0, 0, 1};  // behind the last: nobody's
  Pass(kIdleAfter + 2 * kT);
  EXPECT_TRUE(AllParked());
}

TEST_F(ParkingTest, APacketThatWasTakenBetweenTwoLooksCounts) {
  for (int i = 0; i < 10; ++i) {
    Pass(kIdleAfter / 2);
    ++rig.monitor.received[1];
  }
  EXPECT_FALSE(AllParked());
}

TEST_F(ParkingTest, SoDoesOneThatWasSentWithoutAnyTaken) {
  for (int i = 0; i < 10; ++i) {
    Pass(kIdleAfter / 2);
    ++rig.monitor.sent[2];
  }
  EXPECT_FALSE(AllParked());
}

// As a shaper does, which polls now and then while it sleeps and sends what is due.
TEST_F(ParkingTest, ATaskThatSendsByTheClockIsSoonLeftAwake) {
  for (int i = 0; i < 20; ++i) {
    Pass(3 * kIdleAfter);
    ++rig.monitor.sent[2];
  }
  const std::uint64_t rests = rig.cores[0].statistics().parks;
  EXPECT_GT(rests, 0U);
  for (int i = 0; i < 20; ++i) {
    Pass(3 * kIdleAfter);
    ++rig.monitor.sent[2];
  }
  EXPECT_EQ(rig.cores[0].statistics().parks, rests);
  EXPECT_FALSE(AllParked());
  Pass(100 * kIdleAfter);
  EXPECT_TRUE(AllParked()) << "when it sends no more";
}

TEST_F(ParkingTest, ParkingIsRenewedBeforeItEndsByItself) {
  PassUntilParked();
  const int before = rig.controller.parks;
  Pass(10 * ProcessController::kParkHolds);
  EXPECT_GE(rig.controller.parks - before, 3 * 20);
  EXPECT_LE(rig.controller.parks - before, 3 * 100);
  EXPECT_EQ(rig.cores[0].statistics().parks, 1U);
  EXPECT_TRUE(rig.controller.unparked.empty());
}

TEST_F(ParkingTest, TheTimeForWhichAllAreParkedIsCounted) {
  const auto parked = [this] { return rig.cores[0].statistics().all_parked; };
  Pass(kIdleAfter);
  EXPECT_EQ(parked(), 0);
  PassUntilParked();
  const Nanoseconds renewed = 2 * ProcessController::kRenewParkEvery;
  Pass(renewed);
  EXPECT_EQ(parked(), renewed);
  rig.monitor.packets[1] = 1;
  Pass(kT);
  ASSERT_FALSE(AllParked());
  const Nanoseconds first = parked();
  EXPECT_EQ(first, renewed + kT) << "until it was seen";
  Pass(3 * kT);
  EXPECT_EQ(parked(), first) << "not while they run";
  rig.monitor.packets[1] = 0;
  PassUntilParked();
  Pass(5 * kT);
  EXPECT_EQ(parked(), first + 5 * kT);
}

TEST_F(ParkingTest, TheFirstPacketUnparksAllAndItsTaskRuns) {
  PassUntilParked();
  rig.monitor.packets[1] = 1;
  Pass(kT);
  EXPECT_FALSE(AllParked());
  EXPECT_EQ(rig.controller.switches, (Calls{{0, 0, 1}}));
  EXPECT_EQ(rig.controller.unparked, (TaskList{1, 2, 0}));
  EXPECT_EQ(rig.Current(0), 1U);
}

TEST_F(ParkingTest, IfTheCurrentTaskHasItThereIsNoSwitch) {
  PassUntilParked();
  rig.monitor.packets[0] = 1;
  Pass(kT);
  EXPECT_TRUE(rig.controller.switches.empty());
  EXPECT_EQ(rig.controller.unparked, (TaskList{0, 1, 2}));
}

TEST_F(ParkingTest, NoSwitchToATaskWhosePacketsCannotLeave) {
  PassUntilParked();
  rig.monitor.packets = {0, 0, 1, kThetaMax};
  Pass(10 * kT);
  EXPECT_FALSE(AllParked());
  EXPECT_TRUE(rig.controller.switches.empty());
  rig.monitor.packets[3] = 0;
  Pass(kT);
  EXPECT_EQ(rig.Current(0), 2U);
}

TEST_F(ParkingTest, TimeInWhichAllWereParkedIsNoWaitForRoom) {
  PassUntilParked();
  Pass(10 * kIdleAfter);
  rig.monitor.packets = {0, 0, 1, kThetaMax};
  Pass(2 * kIdleAfter);
  EXPECT_LE(rig.cores[0].WaitedForRoom(2), 2 * kIdleAfter);
}

TEST_F(ParkingTest, TheFirstPacketsWaitAtNoFunction) {
  PassUntilParked();
  rig.monitor.packets[0] = 1;
  Pass(kT);
  for (const LinkIndex link : {0U, 1U}) {
    rig.monitor.packets[link] = 0;
    rig.monitor.packets[link + 1] = 1;
    Pass(2 * kT);
    EXPECT_EQ(rig.Current(0), link + 1);
  }
}

TEST_F(ParkingTest, LaterPacketsWait) {
  PassUntilParked();
  rig.monitor.packets[0] = 1;
  Pass(2'000'000);
  rig.monitor.packets = {0, 0, 0, 0};
  Pass(2 * kT);
  rig.monitor.packets[1] = 1;
  Pass(100'000);
  EXPECT_EQ(rig.Current(0), 0U);
}

TEST_F(ParkingTest, ThinTrafficIsNotParkedForEachGap) {
  constexpr Nanoseconds kGap = kIdleAfter + 100'000;
  for (int i = 0; i < 1000; ++i) {
    Pass(kGap);
    ComesAndGoes(0);
  }
  EXPECT_LE(rig.cores[0].statistics().parks, 2U);
}

TEST_F(ParkingTest, ThinnerTrafficIsParkedInBetween) {
  for (int i = 0; i < 100; ++i) {
    Pass(3 * kIdleAfter);
    ComesAndGoes(0);
  }
  EXPECT_GE(rig.cores[0].statistics().parks, 95U);
}

TEST_F(ParkingTest, AfterThinTrafficItParksAsEver) {
  for (int i = 0; i < 100; ++i) {
    Pass(kIdleAfter + 100'000);
    ComesAndGoes(0);
  }
  PassUntilParked();
  Pass(2 * kIdleAfter);
  ComesAndGoes(0);
  EXPECT_FALSE(AllParked());
  Pass(kIdleAfter + 2 * kT);
  EXPECT_TRUE(AllParked());
}

TEST_F(ParkingTest, WhereATaskCannotBeParkedNoneIs) {
  rig.controller.cannot_park = {1};
  Pass(3 * kIdleAfter);
  EXPECT_FALSE(AllParked());
  EXPECT_EQ(rig.controller.parks, 0);
  EXPECT_EQ(rig.cores[0].statistics().cannot_park, 1U);
  rig.controller.cannot_park.clear();
  PassUntilParked();
  EXPECT_TRUE(rig.controller.unparked.empty());
}

TEST_F(ParkingTest, ATaskThatCannotBeSwitchedToKeepsNoOtherParked) {
  PassUntilParked();
  rig.controller.dead = {1};
  rig.monitor.packets[1] = 1;
  Pass(kT);
  EXPECT_FALSE(AllParked());
  EXPECT_EQ(rig.controller.unparked, (TaskList{0, 1, 2}));
}

TEST(NeverParkedTest, UnlessItIsSet) {
  Rig rig({}, Chain({0, 0}), 1, Filled({0, 0, 0}));
  rig.controller.can_park = true;
  rig.cores.Start();
  for (Nanoseconds now = 0; now < 100 * kIdleAfter; now += 100 * kT) rig.TickAt(now);
  EXPECT_EQ(rig.controller.parks, 0);
}

TEST(NeverParkedTest, WhereAnOccupancyCannotBeRead) {
  FakeMonitor links = Filled({0, 0, 0});
  links.unknown = {1};
  Rig rig(ParkingAfter(kIdleAfter), Chain({0, 0}), 1, links);
  rig.controller.can_park = true;
  rig.cores.Start();
  for (Nanoseconds now = 0; now < 100 * kIdleAfter; now += 100 * kT) rig.TickAt(now);
  EXPECT_EQ(rig.controller.parks, 0);
}

TEST(ParkingOfManyTest, EachCoreParksForItself) {
  Rig rig(ParkingAfter(kIdleAfter), Chain({0, 1}), 2, Filled({0, 1, 0}));
  rig.controller.can_park = true;
  rig.cores.Start();
  for (Nanoseconds now = 0; now < 2 * kIdleAfter; now += kT) rig.TickAt(now);
  EXPECT_TRUE(rig.cores[0].statistics().parked);
  EXPECT_FALSE(rig.cores[1].statistics().parked);
  EXPECT_GT(rig.cores[0].idle_until(), kIdleAfter);
  EXPECT_EQ(rig.cores[1].idle_until(), 0);
  EXPECT_EQ(rig.cores.idle_for(rig.timer.now), 0) << "one core has work";
}

TEST(ParkingOfManyTest, AParkedCoreIsIdleUntilParkingIsToBeRenewed) {
  Rig rig(ParkingAfter(kIdleAfter), Chain({0, 0}), 1, Filled({0, 0, 0}));
  rig.controller.can_park = true;
  rig.cores.Start();
  Nanoseconds now = 0;
  for (; !rig.cores[0].statistics().parked; now += kT) rig.TickAt(now);
  const Nanoseconds until = rig.cores[0].idle_until();
  EXPECT_GT(until, now);
  EXPECT_LE(until, now + ProcessController::kRenewParkEvery);
  const auto parks = rig.controller.parks;
  for (; now < until - kT; now += kT) rig.TickAt(now);
  EXPECT_EQ(rig.controller.parks, parks);
  for (; now < until + 2 * kT; now += kT) rig.TickAt(now);
  EXPECT_GT(rig.controller.parks, parks);
  EXPECT_GT(rig.cores[0].idle_until(), until);
  rig.monitor.packets[0] = 1000;
  rig.TickAt(now + kT);
  EXPECT_EQ(rig.cores.idle_for(now), 0);
}

TEST(ParkingOfManyTest, ThreadsOfOneFunctionAreUnparkedByItsPackets) {
  CostedTasks tasks;
  tasks.Add(0, {{0, 1}}, kCost, 3);
  Rig rig(ParkingAfter(kIdleAfter), tasks, 1, Filled({0, 0}));
  rig.controller.can_park = true;
  rig.cores.Start();
  Nanoseconds now = 0;
  for (; now < 2 * kIdleAfter; now += kT) rig.TickAt(now);
  ASSERT_TRUE(rig.cores[0].statistics().parked);
  rig.monitor.packets[0] = 1;
  rig.TickAt(now + kT);
  EXPECT_FALSE(rig.cores[0].statistics().parked);
  EXPECT_EQ(rig.controller.unparked.size(), 3U);
}

struct ParkingInLineTest : ParkingTest {
  ParkingInLineTest() : ParkingTest({0, 1, 2}) {}
};

TEST_F(ParkingInLineTest, TheTaskWithPacketsIsUnparkedFirstWithoutASwitch) {
  PassUntilParked();
  rig.controller.switches.clear();
  rig.monitor.packets[2] = 1;
  Pass(kT);
  EXPECT_TRUE(rig.controller.switches.empty());
  EXPECT_EQ(rig.controller.unparked, (TaskList{2, 0, 1}));
  EXPECT_EQ(rig.Current(0), 2U);
  Pass(100 * kT);
  EXPECT_TRUE(rig.controller.switches.empty()) << "its turn has only begun";
}

TEST_F(ParkingInLineTest, TurnsWithoutPacketsKeepNoTaskAwake) {
  for (TaskIndex i = 0; i < 200 && !AllParked(); ++i) {
    rig.controller.turn = {.task = i % 3, .begun = true};
    Pass(20 * kT);
  }
  EXPECT_TRUE(AllParked());
}

}  // namespace
}  // namespace unis
