// Switches that fail, that tasks make themselves, and what is told of them.
#include <gtest/gtest.h>

#include <vector>

#include "engine/scheduler/rig_for_test.h"

namespace unis {
namespace {

constexpr std::uint32_t kCapacity = 2048;
constexpr std::uint32_t kThetaMin = 56;
constexpr std::uint32_t kThetaMax = 1536;  // 0.75 · 2048
constexpr std::uint32_t kPlenty = 1000;    // neither ≤ θmin nor ≥ θmax
constexpr Nanoseconds kT = 1'000;
constexpr double kCost = 100;
constexpr Nanoseconds kSlice = 153'600;  // 100 ns · 0.75 · 2048

FakeMonitor Links(std::size_t count) {
  FakeMonitor monitor;
  monitor.packets.assign(count, kPlenty);
  monitor.capacity.assign(count, kCapacity);
  return monitor;
}

// One chain whose task i reads link i and writes link i + 1.
std::vector<OnePath> Chain(const std::vector<CoreIndex>& cores) {
  std::vector<OnePath> tasks;
  for (LinkIndex i = 0; i < cores.size(); ++i) tasks.push_back({cores[i], i, i + 1, kCost});
  return tasks;
}

// `count` tasks on one core with two links each, so that a test can fill them one by one: task i
// reads link 2i and writes link 2i + 1.
std::vector<OnePath> Apart(std::size_t count) {
  std::vector<OnePath> tasks;
  for (LinkIndex i = 0; i < count; ++i) tasks.push_back({0, 2 * i, 2 * i + 1, kCost});
  return tasks;
}

Rig Started(const SchedulerSettings& settings, const std::vector<OnePath>& tasks, CoreIndex cores,
            std::size_t links) {
  return Rig(settings, tasks, cores, Links(links));
}

using Calls = std::vector<SwitchCall>;

TEST(SwitchingTest, NoRecordIsBuiltThatNobodyReads) {
  Rig rig = Started({}, Apart(2), 1, 4);
  rig.observer.wanted = false;
  rig.cores.Start();
  EXPECT_EQ(rig.monitor.reads, 0u);
  rig.TickAt(kSlice);
  EXPECT_EQ(rig.cores.Switches(), 1u);
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
  EXPECT_EQ(rig.cores.FailedSwitches(), 1u);
  EXPECT_EQ(rig.cores.Switches(), 0u);
  rig.TickAt(kSlice + kT);
  rig.controller.dead.clear();
  for (int i = 2; i <= 4; ++i) rig.TickAt(kT + i * kSlice);
  EXPECT_EQ(rig.controller.switches, (Calls{{0, 0, 2}, {0, 2, 3}, {0, 3, 1}, {0, 1, 0}}));
  EXPECT_EQ(rig.cores[0].SwitchedIn(1), 1u);
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
  rig.cores[0].OnSelfSwitch(2);
  EXPECT_EQ(rig.Current(0), 2u);
  EXPECT_TRUE(rig.controller.switches.empty());
  EXPECT_EQ(rig.observer.records.back().reason, SwitchReason::kSelf);
  EXPECT_EQ(rig.cores.Switches(), 1u);
  rig.TickAt(10 + kSlice - 1);
  EXPECT_TRUE(rig.controller.switches.empty());  // its slice began with the hand-over
  for (int i = 1; i <= 4; ++i) rig.TickAt(10 + kT + i * kSlice);
  EXPECT_EQ(rig.controller.switches, (Calls{{0, 2, 3}, {0, 3, 0}, {0, 0, 1}, {0, 1, 2}}));
}

TEST(SwitchingTest, ASelfSwitchToTheCurrentTaskOrToAnotherCoresIsNone) {
  Rig rig = Started({}, Chain({0, 0, 1}), 2, 4);
  rig.cores.Start();
  rig.cores[0].OnSelfSwitch(0);
  rig.cores[0].OnSelfSwitch(2);
  EXPECT_EQ(rig.Current(0), 0u);
  EXPECT_EQ(rig.cores.Switches(), 0u);
}

TEST(SwitchingTest, PublishesWhoIsNextAndWhatTheCurrentTaskMayHandle) {
  SchedulerSettings settings;
  settings.publish_next = true;
  Rig rig = Started(settings, Apart(3), 1, 6);
  rig.cores.Start();
  rig.monitor.packets = {kThetaMin + 600, 0, 0, 0, kPlenty, 0};
  rig.TickAt(kT);
  EXPECT_EQ(rig.cores[0].PublishedNext(), (Next{2, 576}));  // in whole bursts
  rig.monitor.packets[1] = kThetaMax - 100;
  rig.TickAt(2 * kT);
  EXPECT_EQ(rig.cores[0].PublishedNext(), (Next{2, 64}));
  rig.monitor.packets[1] = 0;
  rig.monitor.packets[4] = 0;
  rig.TickAt(3 * kT);
  EXPECT_EQ(rig.cores[0].PublishedNext().task, 0u) << "nobody else has work";
  rig.monitor.packets[0] = 2000;
  rig.TickAt(kSlice - 70 * 100);
  EXPECT_EQ(rig.cores[0].PublishedNext().packets, 64u) << "the slice is nearly over";
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
