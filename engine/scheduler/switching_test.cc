// Switches that fail, that tasks make themselves, and what is told of them.
#include <gtest/gtest.h>

#include <vector>

#include "engine/scheduler/paper_for_test.h"

namespace unis {
namespace {

using Calls = std::vector<SwitchCall>;

TEST(SwitchingTest, NoRecordIsBuiltThatNobodyReads) {
  Rig rig = Started({}, Apart(2), 1, 4);
  rig.observer.wanted = false;
  rig.cores.Start();
  EXPECT_EQ(rig.monitor.reads, 0u);
  rig.TickAt(kSlice);
  EXPECT_EQ(rig.Switches(), 1u);
  EXPECT_TRUE(rig.observer.records.empty());
  EXPECT_EQ(rig.monitor.reads, 2u);  // of the candidate
}

TEST(SwitchingTest, TheEgressIsReadOnlyWhereThereIsWork) {
  Rig rig = Started({}, Apart(4), 1, 8);
  rig.cores.Start();
  rig.monitor.packets.assign(8, 0);
  rig.monitor.reads = 0;
  rig.TickAt(kT);
  EXPECT_EQ(rig.monitor.reads, 4u);
}

TEST(SwitchingTest, AFailedSwitchLeavesTheCurrentTaskAndTheNextDecisionTriesAnother) {
  Rig rig = Started({}, Apart(4), 1, 8);
  rig.cores.Start();
  rig.controller.dead = {1};
  EXPECT_EQ(rig.TickAt(kSlice), 0u);
  EXPECT_EQ(rig.Current(0), 0u);
  EXPECT_EQ(rig.Sum(&CoreStatistics::failed_switches), 1u);
  EXPECT_EQ(rig.Switches(), 0u);
  rig.TickAt(kSlice + kT);
  rig.controller.dead.clear();
  for (int i = 2; i <= 4; ++i) rig.TickAt(kT + i * kSlice);
  EXPECT_EQ(rig.controller.switches, (Calls{{0, 0, 2}, {0, 2, 3}, {0, 3, 1}, {0, 1, 0}}));
  EXPECT_EQ(rig.cores[0].SwitchedIn(1), 1u);
}

// Task 1 has packets and no room, task 2 neither, and the current one counts as running.
TEST(SwitchingTest, ItIsKnownForHowLongTasksLackedRoom) {
  Rig rig = Started({}, Apart(3), 1, 6);
  rig.cores.Start();
  rig.monitor.packets = {4096, 4096, 4096, 4096, 0, 4096};
  constexpr Nanoseconds kMs = 1'000'000;
  for (Nanoseconds now = kT; now <= 20 * kMs; now += kT) rig.TickAt(now);
  EXPECT_EQ(rig.Current(0), 0u);
  EXPECT_EQ(rig.cores[0].WaitedForRoom(0), 0);
  EXPECT_NEAR(static_cast<double>(rig.cores[0].WaitedForRoom(1)), 20 * kMs, 2 * kMs);
  EXPECT_EQ(rig.cores[0].WaitedForRoom(2), 0);
}

// The packets of the current task take 20 ms. Decisions are put off for a quarter of that time.
TEST(SwitchingTest, WaitsForRoomCountWhileDecisionsArePutOff) {
  constexpr double kHeavy = 13'000;
  SchedulerSettings settings;
  settings.lazy = true;
  Rig rig = Started(settings, {{0, 0, 1, kHeavy}, {0, 2, 3, kHeavy}}, 1, 4);
  rig.monitor.packets = {1500, 0, 4096, 4096};
  rig.cores.Start();
  constexpr Nanoseconds kMs = 1'000'000;
  for (Nanoseconds now = kT; now <= 18 * kMs; now += kT) rig.TickAt(now);
  EXPECT_LT(rig.Decisions(), 10U);
  EXPECT_NEAR(static_cast<double>(rig.cores[0].WaitedForRoom(1)), 18 * kMs, 5 * kMs);
}

TEST(SwitchingTest, AnEgressThatNoPacketIsForIsNoWaitForRoom) {
  CostedTasks tasks;
  tasks.Add(0, {{0, 1}}, kCost);
  tasks.Add(0, {{2, 3}, {4, 5}}, kCost);
  Rig rig({}, tasks, 1, Filled({kPlenty, 0, kPlenty, 0, 0, kThetaMax}));
  rig.controller.dead = {1};  // so it stays where it is looked at
  rig.cores.Start();
  constexpr Nanoseconds kMs = 1'000'000;
  Nanoseconds now = 0;
  for (; now <= 20 * kMs; now += kT) rig.TickAt(now + kT);
  EXPECT_EQ(rig.cores[0].WaitedForRoom(1), 0);
  rig.monitor.packets[4] = 1;
  for (; now <= 40 * kMs; now += kT) rig.TickAt(now + kT);
  EXPECT_NEAR(static_cast<double>(rig.cores[0].WaitedForRoom(1)), 20 * kMs, 2 * kMs);
}

TEST(SwitchingTest, StartsAnotherWhereTheFirstCannotBeStarted) {
  Rig rig = Started({}, Apart(3), 1, 6);
  rig.controller.dead = {0};
  EXPECT_TRUE(rig.cores.Start());
  EXPECT_EQ(rig.Current(0), 1u);
  rig.controller.dead.clear();
  for (int i = 1; i <= 2; ++i) rig.TickAt(i * kSlice);
  EXPECT_EQ(rig.controller.switches, (Calls{{0, 1, 2}, {0, 2, 0}}));
}

TEST(SwitchingTest, TellsWhenNoTaskCanBeStarted) {
  Rig rig = Started({}, Apart(2), 1, 4);
  rig.controller.dead = {0, 1};
  EXPECT_FALSE(rig.cores.Start());
}

TEST(SwitchingTest, ATaskThatPassedTheCpuItselfGoesToTheBack) {
  Rig rig = Started({}, Apart(4), 1, 8);
  rig.cores.Start();
  rig.timer.now = 10;
  AlgorithmOf(rig).OnSelfSwitch(2);
  EXPECT_EQ(rig.Current(0), 2u);
  EXPECT_TRUE(rig.controller.switches.empty());
  EXPECT_EQ(rig.observer.records.back().reason, SwitchReason::kSelf);
  EXPECT_EQ(rig.Switches(), 1u);
  rig.TickAt(10 + kSlice - 1);
  EXPECT_TRUE(rig.controller.switches.empty());  // its slice began with the hand-over
  for (int i = 1; i <= 4; ++i) rig.TickAt(10 + kT + i * kSlice);
  EXPECT_EQ(rig.controller.switches, (Calls{{0, 2, 3}, {0, 3, 0}, {0, 0, 1}, {0, 1, 2}}));
}

TEST(SwitchingTest, ASelfSwitchToTheCurrentTaskOrToAnotherCoresIsNone) {
  Rig rig = Started({}, Chain({0, 0, 1}), 2, 4);
  rig.cores.Start();
  AlgorithmOf(rig).OnSelfSwitch(0);
  AlgorithmOf(rig).OnSelfSwitch(2);
  EXPECT_EQ(rig.Current(0), 0u);
  EXPECT_EQ(rig.Switches(), 0u);
}

TEST(SwitchingTest, ASchedulerSeesNothingOfOtherCores) {
  Rig rig = Started({}, Chain({0, 1, 0}), 2, 4);
  rig.cores.Start();
  EXPECT_EQ(rig.cores[0].SwitchedIn(0), 1u);
  EXPECT_EQ(rig.cores[0].SwitchedIn(1), 0u);
  EXPECT_EQ(rig.cores[1].SwitchedIn(1), 1u);
}

}  // namespace
}  // namespace unis
