// Every branch of Algorithm 1 (section 4.4) as printed: lead and max_wait are 0 here.
#include <gtest/gtest.h>

#include <stdexcept>
#include <tuple>
#include <utility>
#include <vector>

#include "engine/scheduler/algorithm_one.h"
#include "engine/scheduler/paper_for_test.h"

namespace unis {
namespace {

using Calls = std::vector<SwitchCall>;

TEST(SchedulerTest, DefaultsAreThePapers) {
  const SchedulerSettings settings;
  EXPECT_DOUBLE_EQ(settings.gamma, 0.75);
  EXPECT_EQ(kBatch, 64u);
  EXPECT_EQ(settings.theta_min, kBatch - 8);
  EXPECT_FALSE(settings.theta_max.has_value());
  EXPECT_EQ(settings.interval, 1'000);
  EXPECT_TRUE(settings.occupancy);
}

TEST(SchedulerTest, StartsTheFirstTaskOfEveryCoreAndTellsWhy) {
  Rig rig = Started({}, Chain({1, 0, 1, 0}), 2, 5);
  rig.timer.now = 77;
  rig.cores.Start();
  const std::vector<std::pair<CoreIndex, TaskIndex>> expected = {{0, 1}, {1, 0}};
  EXPECT_EQ(rig.controller.starts, expected);
  EXPECT_TRUE(rig.controller.switches.empty());
  EXPECT_EQ(rig.Current(0), 1u);
  EXPECT_EQ(rig.Current(1), 0u);
  ASSERT_EQ(rig.observer.records.size(), 2u);
  EXPECT_EQ(rig.observer.records[0].reason, SwitchReason::kStart);
  EXPECT_EQ(rig.observer.records[0].from, rig.observer.records[0].to);
  EXPECT_EQ(rig.observer.records[0].time, 77);
  EXPECT_EQ(rig.cores[0].statistics().switches, 0u);
}

// Line 4.
TEST(SchedulerTest, DecidesNothingUntilTHasPassed) {
  Rig rig = Started({}, Chain({0, 0}), 1, 3);
  rig.cores.Start();
  rig.monitor.packets[0] = 0;
  rig.TickAt(kT - 1);
  EXPECT_TRUE(rig.controller.switches.empty());
  EXPECT_EQ(rig.Decisions(), 0u);
  rig.TickAt(kT);
  EXPECT_EQ(rig.controller.switches, (Calls{{0, 0, 1}}));
  EXPECT_EQ(rig.Decisions(), 1u);
}

// Line 19.
TEST(SchedulerTest, TheNextDecisionIsTAfterThisOne) {
  Rig rig = Started({}, Chain({0, 0}), 1, 3);
  rig.cores.Start();
  rig.TickAt(kT + 700);  // late
  EXPECT_EQ(rig.Decisions(), 1u);
  rig.TickAt(2 * kT + 699);
  EXPECT_EQ(rig.Decisions(), 1u);
  rig.TickAt(2 * kT + 700);
  EXPECT_EQ(rig.Decisions(), 2u);
}

TEST(SchedulerTest, LeavesWhenTheSliceExpiresAndNotBefore) {
  Rig rig = Started({}, Chain({0, 0}), 1, 3);
  rig.cores.Start();
  rig.TickAt(kSlice - 1);
  EXPECT_TRUE(rig.controller.switches.empty());
  rig.TickAt(kSlice + kT);
  ASSERT_EQ(rig.controller.switches, (Calls{{0, 0, 1}}));
  EXPECT_EQ(rig.observer.records.back().reason, SwitchReason::kSliceExpired);
}

TEST(SchedulerTest, TheSliceBelongsToTheTaskThatRuns) {
  std::vector<OnePath> tasks = Chain({0, 0});
  tasks[1].cost_ns = 300;
  Rig rig = Started({}, tasks, 1, 3);
  rig.cores.Start();
  rig.TickAt(kSlice);
  rig.TickAt(kSlice + 3 * kSlice - 1);
  EXPECT_EQ(rig.controller.switches, (Calls{{0, 0, 1}}));
  rig.TickAt(kSlice + 3 * kSlice - 1 + kT);
  EXPECT_EQ(rig.controller.switches, (Calls{{0, 0, 1}, {0, 1, 0}}));
}

TEST(SchedulerTest, TheTimerIsNamedBeforeTheOccupancies) {
  Rig rig = Started({}, Apart(2), 1, 4);
  rig.cores.Start();
  rig.monitor.packets = {0, kCapacity, kPlenty, 0};
  rig.TickAt(kT);
  EXPECT_EQ(rig.observer.records.back().reason, SwitchReason::kIngressLow);
  rig.monitor.packets = {kPlenty, 0, 0, kCapacity};
  rig.TickAt(kT + kSlice);
  EXPECT_EQ(rig.observer.records.back().reason, SwitchReason::kSliceExpired);
}

// Lines 10 to 12: tasks without work go to the back, in order.
TEST(SchedulerTest, RotatesPastTasksWithoutWork) {
  Rig rig = Started({}, Apart(5), 1, 10);
  rig.cores.Start();
  rig.monitor.packets[2] = 0;          // task 1: ingress empty
  rig.monitor.packets[5] = kCapacity;  // task 2: egress full
  rig.TickAt(kSlice);
  EXPECT_EQ(rig.Current(0), 3u);
  // The queue is now 4, 0, 1, 2.
  rig.monitor.packets.assign(10, kPlenty);
  for (int i = 2; i <= 6; ++i) rig.TickAt(i * kSlice);
  EXPECT_EQ(rig.controller.switches,
            (Calls{{0, 0, 3}, {0, 3, 4}, {0, 4, 0}, {0, 0, 1}, {0, 1, 2}, {0, 2, 3}}));
}

TEST(SchedulerTest, StaysWhenNobodyHasWorkAndKeepsTheQueue) {
  Rig rig = Started({}, Apart(4), 1, 8);
  rig.cores.Start();
  rig.monitor.packets.assign(8, 0);
  for (int i = 1; i <= 5; ++i) rig.TickAt(i * kSlice);
  EXPECT_TRUE(rig.controller.switches.empty());
  EXPECT_EQ(rig.Current(0), 0u);
  rig.monitor.packets.assign(8, kPlenty);
  for (int i = 6; i <= 9; ++i) rig.TickAt(i * kSlice);
  EXPECT_EQ(rig.controller.switches, (Calls{{0, 0, 1}, {0, 1, 2}, {0, 2, 3}, {0, 3, 0}}));
}

// Line 18 is inside the condition of line 14: a task that stays keeps its expired timer.
TEST(SchedulerTest, AnExpiredTaskThatStayedLeavesAsSoonAsAnotherHasWork) {
  Rig rig = Started({}, Apart(2), 1, 4);
  rig.cores.Start();
  rig.monitor.packets[2] = 0;
  rig.TickAt(kSlice);
  EXPECT_TRUE(rig.controller.switches.empty());
  rig.monitor.packets[2] = kPlenty;
  rig.TickAt(kSlice + kT);
  EXPECT_EQ(rig.controller.switches, (Calls{{0, 0, 1}}));
  EXPECT_EQ(rig.observer.records.back().reason, SwitchReason::kSliceExpired);
}

TEST(SchedulerTest, TheCurrentTaskIsNoCandidateForItself) {
  // It stays though it has no work, because the others have none either: C = N ends line 10.
  Rig rig = Started({}, Apart(1), 1, 2);
  rig.cores.Start();
  rig.monitor.packets = {0, kCapacity};
  for (int i = 1; i <= 3; ++i) rig.TickAt(i * kSlice);
  EXPECT_TRUE(rig.controller.switches.empty());
  EXPECT_EQ(rig.observer.records.size(), 1u);
}

TEST(SchedulerTest, CountersGoOnWhereOneSchedulerFollowsAnother) {
  constexpr auto kSelf = static_cast<std::size_t>(SwitchReason::kSelf);
  CoreStatistics counted{.parked = true, .switches = 3, .parks = 1, .all_parked = 70};
  counted.reasons[kSelf] = 2;
  counted.reasons[0] = 1;
  CoreStatistics later{.switches = 5, .all_parked = 8};
  later.reasons[kSelf] = 5;
  counted.GoOnWith(later);
  EXPECT_FALSE(counted.parked);
  EXPECT_EQ(counted.switches, 8U);
  EXPECT_EQ(counted.reasons[kSelf], 7U);
  EXPECT_EQ(counted.reasons[0], 1U);
  EXPECT_EQ(counted.parks, 1U);
  EXPECT_EQ(counted.all_parked, 78);
}

TEST(SchedulerTest, CoresAreIndependent) {
  // tasks 0 and 1 on core 0; 2 and 3 on core 1; links apart.
  std::vector<OnePath> tasks = Apart(4);
  tasks[2].core = tasks[3].core = 1;
  tasks[2].cost_ns = 50;
  Rig rig = Started({}, tasks, 2, 8);
  rig.cores.Start();
  rig.TickAt(kSlice / 2);
  EXPECT_EQ(rig.controller.switches, (Calls{{1, 2, 3}}));
  EXPECT_EQ(rig.cores[0].statistics().switches, 0u);
  EXPECT_EQ(rig.cores[1].statistics().switches, 1u);
  rig.monitor.packets[0] = 0;
  rig.TickAt(kSlice / 2 + kT);
  EXPECT_EQ(rig.controller.switches, (Calls{{1, 2, 3}, {0, 0, 1}}));
}

TEST(SchedulerTest, BothCoresCanSwitchInOneTick) {
  std::vector<OnePath> tasks = Apart(4);
  tasks[2].core = tasks[3].core = 1;
  Rig rig = Started({}, tasks, 2, 8);
  rig.cores.Start();
  rig.TickAt(kSlice);
  EXPECT_EQ(rig.controller.switches, (Calls{{0, 0, 1}, {1, 2, 3}}));
}

TEST(SchedulerTest, SeveralChainsShareACoreInTheirOrder) {
  // Chain X of tasks 0 and 1 over links 0 to 2, chain Y of tasks 2 and 3 over links 3 to 5.
  const std::vector<OnePath> tasks = {
      {0, 0, 1, kCost}, {0, 1, 2, kCost}, {0, 3, 4, kCost}, {0, 4, 5, kCost}};
  Rig rig = Started({}, tasks, 1, 6);
  rig.cores.Start();
  for (int i = 1; i <= 4; ++i) rig.TickAt(i * kSlice);
  EXPECT_EQ(rig.controller.switches, (Calls{{0, 0, 1}, {0, 1, 2}, {0, 2, 3}, {0, 3, 0}}));
  rig.monitor.packets[1] = 0;  // X runs dry behind its first task, Y does not
  rig.TickAt(5 * kSlice);
  EXPECT_EQ(rig.Current(0), 2u);
}

// The running example of section 4.4.2: A → B → C → D with A, C and D on core 0, B on core 1.
class RunningExample : public testing::Test {
 protected:
  static constexpr TaskIndex kA = 0, kB = 1, kC = 2, kD = 3;
  static constexpr LinkIndex kIngressOfC = 2;

  RunningExample() : rig_({}, Chain({0, 1, 0, 0}), 2, Links(5)) { rig_.cores.Start(); }

  // Who runs on core 0 from now on when every task has work: the wait queue made visible.
  std::vector<TaskIndex> NextThree(Nanoseconds from) {
    rig_.monitor.packets.assign(5, kPlenty);
    std::vector<TaskIndex> order;
    for (int i = 1; i <= 3; ++i) {
      rig_.TickAt(from + i * kSlice);
      order.push_back(rig_.Current(0));
    }
    return order;
  }

  Rig rig_;
};

TEST_F(RunningExample, Fig3aTheFirstTaskRunsAndTheOthersWaitInChainOrder) {
  EXPECT_EQ(rig_.Current(0), kA);
  EXPECT_EQ(rig_.Current(1), kB);
  for (Nanoseconds now = kT; now < kSlice; now += kT) rig_.TickAt(now);
  EXPECT_EQ(rig_.Current(0), kA);  // ts_A has not passed
  EXPECT_EQ(NextThree(kT), (std::vector<TaskIndex>{kC, kD, kA}));
}

TEST_F(RunningExample, Fig3bTheHeadOfTheQueueHasWork) {
  rig_.TickAt(kSlice);
  EXPECT_EQ(rig_.Current(0), kC);
  EXPECT_EQ(rig_.controller.switches, (Calls{{0, kA, kC}}));  // B has its core to itself
  EXPECT_EQ(NextThree(kSlice), (std::vector<TaskIndex>{kD, kA, kC}));
}

TEST_F(RunningExample, Fig3cTheHeadOfTheQueueHasNoWork) {
  rig_.monitor.packets[kIngressOfC] = kThetaMin;
  rig_.TickAt(kSlice);
  EXPECT_EQ(rig_.Current(0), kD);
  EXPECT_EQ(rig_.controller.switches, (Calls{{0, kA, kD}}));
  EXPECT_EQ(NextThree(kSlice), (std::vector<TaskIndex>{kA, kC, kD}));
}

// Line 13.
TEST(SchedulerTest, SliceIsCostTimesGammaTimesCapacityOfTheEgress) {
  FakeMonitor links = Links(3);
  links.capacity = {4096, 1024, 512};
  SchedulerSettings settings;
  settings.gamma = 0.5;
  std::vector<OnePath> tasks = Chain({0, 0});
  tasks[0].cost_ns = 20;
  tasks[1].cost_ns = 12.5;
  Rig rig(settings, tasks, 1, links);
  EXPECT_EQ(AlgorithmOf(rig).TimeSlice(0), 10'240);
  EXPECT_EQ(AlgorithmOf(rig).TimeSlice(1), 3'200);
  rig.cores.Start();
  EXPECT_EQ(rig.observer.records[0].slice, 10'240);
  settings.slice_factor = 1.5;
  Rig longer(settings, tasks, 1, links);
  EXPECT_EQ(AlgorithmOf(longer).TimeSlice(0), 15'360);
}

TEST(SchedulerTest, WithoutOccupancyItIsRoundRobinOfSlices) {
  SchedulerSettings settings;
  settings.occupancy = false;
  std::vector<OnePath> tasks = Chain({0, 0, 0});
  tasks[1].cost_ns = 200;
  Rig rig = Started(settings, tasks, 1, 4);
  rig.cores.Start();
  rig.monitor.packets = {0, kCapacity, 0, kCapacity};  // must not matter
  for (Nanoseconds now = kT; now <= 4 * kSlice; now += kT) rig.TickAt(now);
  EXPECT_EQ(rig.controller.switches, (Calls{{0, 0, 1}, {0, 1, 2}}));
  const auto& records = rig.observer.records;
  ASSERT_EQ(records.size(), 3u);
  EXPECT_EQ(records[1].reason, SwitchReason::kSliceExpired);
  EXPECT_GE(records[1].time, kSlice);
  EXPECT_LT(records[1].time, kSlice + kT);
  EXPECT_GE(records[2].time, records[1].time + 2 * kSlice);
  EXPECT_LT(records[2].time, records[1].time + 2 * kSlice + kT);
}

TEST(SchedulerTest, SetCostTakesEffectAtTheNextSlice) {
  Rig rig = Started({}, Chain({0, 0}), 1, 3);
  rig.cores.Start();
  rig.costs.Set(0, 10 * kCost);
  rig.TickAt(kSlice);  // the running slice is as long as it was
  ASSERT_EQ(rig.controller.switches, (Calls{{0, 0, 1}}));
  rig.TickAt(2 * kSlice);
  ASSERT_EQ(rig.Current(0), 0u);
  EXPECT_EQ(rig.observer.records.back().slice, 10 * kSlice);
  rig.TickAt(12 * kSlice - kT);
  EXPECT_EQ(rig.Current(0), 0u);
  rig.TickAt(12 * kSlice);
  EXPECT_EQ(rig.Current(0), 1u);
}

TEST(SchedulerTest, TheRecordHoldsWhatWasSeen) {
  Rig rig = Started({}, Apart(2), 1, 4);
  rig.cores.Start();
  rig.monitor.packets = {7, 8, 900, 10};
  rig.TickAt(2 * kT);
  const SwitchRecord& record = rig.observer.records.back();
  EXPECT_EQ(record.time, 2 * kT);
  EXPECT_EQ(std::tuple(record.core, record.from, record.to), std::tuple(0u, 0u, 1u));
  EXPECT_EQ(std::tuple(record.from_ingress, record.from_egress), std::tuple(7u, 8u));
  EXPECT_EQ(std::tuple(record.to_ingress, record.to_egress), std::tuple(900u, 10u));
  EXPECT_EQ(record.slice, kSlice);
}

TEST(SchedulerTest, RefusesMappingsThatCannotBeScheduled) {
  EXPECT_THROW(Started({}, Chain({0, 2}), 2, 3), std::invalid_argument);
}

}  // namespace
}  // namespace unis
