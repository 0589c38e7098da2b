// Every branch of Algorithm 1 (section 4.4) as printed: lead and max_wait are 0 here.
#include "engine/scheduler/scheduler.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <tuple>
#include <utility>
#include <vector>

#include "engine/scheduler/fakes.h"

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

// One chain whose NF i reads link i and writes link i + 1.
std::vector<ScheduledNf> Chain(const std::vector<CoreIndex>& cores) {
  std::vector<ScheduledNf> nfs;
  for (LinkIndex i = 0; i < cores.size(); ++i) nfs.push_back({cores[i], i, i + 1, kCost});
  return nfs;
}

// `count` NFs on one core with two links each, so that a test can fill them one by one: NF i reads
// link 2i and writes link 2i + 1.
std::vector<ScheduledNf> Apart(std::size_t count) {
  std::vector<ScheduledNf> nfs;
  for (LinkIndex i = 0; i < count; ++i) nfs.push_back({0, 2 * i, 2 * i + 1, kCost});
  return nfs;
}

Rig Started(const SchedulerSettings& settings, const std::vector<ScheduledNf>& nfs, CoreIndex cores,
            std::size_t links) {
  return Rig(settings, nfs, cores, Links(links));
}

using Calls = std::vector<SwitchCall>;

TEST(SchedulerTest, DefaultsAreThePapers) {
  const SchedulerSettings settings;
  EXPECT_DOUBLE_EQ(settings.gamma, 0.75);
  EXPECT_EQ(settings.batch, 64u);
  EXPECT_EQ(settings.theta_min, settings.batch - 8);
  EXPECT_FALSE(settings.theta_max.has_value());
  EXPECT_EQ(settings.interval, 1'000);
  EXPECT_TRUE(settings.occupancy);
}

TEST(SchedulerTest, StartsTheFirstNfOfEveryCoreAndTellsWhy) {
  Rig rig = Started({}, Chain({1, 0, 1, 0}), 2, 5);
  rig.timer.now = 77;
  rig.scheduler.Start();
  const std::vector<std::pair<CoreIndex, NfIndex>> expected = {{0, 1}, {1, 0}};
  EXPECT_EQ(rig.controller.starts, expected);
  EXPECT_TRUE(rig.controller.switches.empty());
  EXPECT_EQ(rig.scheduler.Current(0), 1u);
  EXPECT_EQ(rig.scheduler.Current(1), 0u);
  ASSERT_EQ(rig.observer.records.size(), 2u);
  EXPECT_EQ(rig.observer.records[0].reason, SwitchReason::kStart);
  EXPECT_EQ(rig.observer.records[0].from, rig.observer.records[0].to);
  EXPECT_EQ(rig.observer.records[0].time, 77);
  EXPECT_EQ(rig.scheduler.Switches(0), 0u);
}

// Line 4.
TEST(SchedulerTest, DecidesNothingUntilTHasPassed) {
  Rig rig = Started({}, Chain({0, 0}), 1, 3);
  rig.scheduler.Start();
  rig.monitor.packets[0] = 0;
  rig.TickAt(kT - 1);
  EXPECT_TRUE(rig.controller.switches.empty());
  EXPECT_EQ(rig.scheduler.Decisions(), 0u);
  rig.TickAt(kT);
  EXPECT_EQ(rig.controller.switches, (Calls{{0, 0, 1}}));
  EXPECT_EQ(rig.scheduler.Decisions(), 1u);
}

// Line 19.
TEST(SchedulerTest, TheNextDecisionIsTAfterThisOne) {
  Rig rig = Started({}, Chain({0, 0}), 1, 3);
  rig.scheduler.Start();
  rig.TickAt(kT + 700);  // late
  EXPECT_EQ(rig.scheduler.Decisions(), 1u);
  rig.TickAt(2 * kT + 699);
  EXPECT_EQ(rig.scheduler.Decisions(), 1u);
  rig.TickAt(2 * kT + 700);
  EXPECT_EQ(rig.scheduler.Decisions(), 2u);
}

TEST(SchedulerTest, LeavesWhenTheSliceExpiresAndNotBefore) {
  Rig rig = Started({}, Chain({0, 0}), 1, 3);
  rig.scheduler.Start();
  rig.TickAt(kSlice - 1);
  EXPECT_TRUE(rig.controller.switches.empty());
  rig.TickAt(kSlice + kT);
  ASSERT_EQ(rig.controller.switches, (Calls{{0, 0, 1}}));
  EXPECT_EQ(rig.observer.records.back().reason, SwitchReason::kSliceExpired);
}

TEST(SchedulerTest, TheSliceBelongsToTheNfThatRuns) {
  std::vector<ScheduledNf> nfs = Chain({0, 0});
  nfs[1].cost_ns = 300;
  Rig rig = Started({}, nfs, 1, 3);
  rig.scheduler.Start();
  rig.TickAt(kSlice);
  rig.TickAt(kSlice + 3 * kSlice - 1);
  EXPECT_EQ(rig.controller.switches, (Calls{{0, 0, 1}}));
  rig.TickAt(kSlice + 3 * kSlice - 1 + kT);
  EXPECT_EQ(rig.controller.switches, (Calls{{0, 0, 1}, {0, 1, 0}}));
}

class IngressTest : public testing::TestWithParam<std::pair<std::uint32_t, bool>> {};

TEST_P(IngressTest, LeavesAtOrBelowThetaMin) {
  const auto [packets, leaves] = GetParam();
  Rig rig = Started({}, Apart(2), 1, 4);
  rig.scheduler.Start();
  rig.monitor.packets[0] = packets;
  rig.TickAt(kT);
  EXPECT_EQ(rig.scheduler.Current(0), leaves ? 1u : 0u);
  if (leaves) {
    EXPECT_EQ(rig.observer.records.back().reason, SwitchReason::kIngressLow);
  }
}

TEST_P(IngressTest, AnNfAtOrBelowThetaMinIsNoCandidate) {
  const auto [packets, idle] = GetParam();
  Rig rig = Started({}, Apart(2), 1, 4);
  rig.scheduler.Start();
  rig.monitor.packets[2] = packets;
  rig.TickAt(kSlice);
  EXPECT_EQ(rig.scheduler.Current(0), idle ? 0u : 1u);
}

INSTANTIATE_TEST_SUITE_P(Thresholds, IngressTest,
                         testing::Values(std::pair(0u, true), std::pair(kThetaMin - 1, true),
                                         std::pair(kThetaMin, true),
                                         std::pair(kThetaMin + 1, false),
                                         std::pair(kPlenty, false)));

class EgressTest : public testing::TestWithParam<std::pair<std::uint32_t, bool>> {};

TEST_P(EgressTest, LeavesAtOrAboveThetaMax) {
  const auto [packets, leaves] = GetParam();
  Rig rig = Started({}, Apart(2), 1, 4);
  rig.scheduler.Start();
  rig.monitor.packets[1] = packets;
  rig.TickAt(kT);
  EXPECT_EQ(rig.scheduler.Current(0), leaves ? 1u : 0u);
  if (leaves) {
    EXPECT_EQ(rig.observer.records.back().reason, SwitchReason::kEgressHigh);
  }
}

TEST_P(EgressTest, AnNfAtOrAboveThetaMaxIsNoCandidate) {
  const auto [packets, full] = GetParam();
  Rig rig = Started({}, Apart(2), 1, 4);
  rig.scheduler.Start();
  rig.monitor.packets[3] = packets;
  rig.TickAt(kSlice);
  EXPECT_EQ(rig.scheduler.Current(0), full ? 0u : 1u);
}

INSTANTIATE_TEST_SUITE_P(Thresholds, EgressTest,
                         testing::Values(std::pair(0u, false), std::pair(kThetaMax - 1, false),
                                         std::pair(kThetaMax, true), std::pair(kThetaMax + 1, true),
                                         std::pair(kCapacity, true)));

TEST(SchedulerTest, ExplicitThetaMaxReplacesTheDefault) {
  SchedulerSettings settings;
  settings.theta_max = 100;
  Rig rig = Started(settings, Apart(2), 1, 4);
  rig.scheduler.Start();
  rig.monitor.packets = {kPlenty, 99, kPlenty, 0};
  rig.TickAt(kT);
  EXPECT_EQ(rig.scheduler.Current(0), 0u);
  rig.monitor.packets[1] = 100;
  rig.TickAt(2 * kT);
  EXPECT_EQ(rig.scheduler.Current(0), 1u);
}

TEST(SchedulerTest, DefaultThetaMaxFollowsTheCapacityOfEachEgress) {
  FakeMonitor links = Links(4);
  links.capacity = {kCapacity, 512, kCapacity, 1024};
  links.packets = {kPlenty, 383, kPlenty, 767};
  SchedulerSettings settings;
  settings.gamma = 0.75;
  Rig rig(settings, Apart(2), 1, links);
  rig.scheduler.Start();
  rig.TickAt(kT);
  EXPECT_EQ(rig.scheduler.Current(0), 0u);
  rig.monitor.packets[1] = 384;  // 0.75 · 512
  rig.TickAt(2 * kT);
  EXPECT_EQ(rig.scheduler.Current(0), 1u);
}

TEST(SchedulerTest, TheTimerIsNamedBeforeTheOccupancies) {
  Rig rig = Started({}, Apart(2), 1, 4);
  rig.scheduler.Start();
  rig.monitor.packets = {0, kCapacity, kPlenty, 0};
  rig.TickAt(kT);
  EXPECT_EQ(rig.observer.records.back().reason, SwitchReason::kIngressLow);
  rig.monitor.packets = {kPlenty, 0, 0, kCapacity};
  rig.TickAt(kT + kSlice);
  EXPECT_EQ(rig.observer.records.back().reason, SwitchReason::kSliceExpired);
}

// Lines 10 to 12: NFs without work go to the back, in order.
TEST(SchedulerTest, RotatesPastNfsWithoutWork) {
  Rig rig = Started({}, Apart(5), 1, 10);
  rig.scheduler.Start();
  rig.monitor.packets[2] = 0;          // NF 1: ingress empty
  rig.monitor.packets[5] = kCapacity;  // NF 2: egress full
  rig.TickAt(kSlice);
  EXPECT_EQ(rig.scheduler.Current(0), 3u);
  // The queue is now 4, 0, 1, 2.
  rig.monitor.packets.assign(10, kPlenty);
  for (int i = 2; i <= 6; ++i) rig.TickAt(i * kSlice);
  EXPECT_EQ(rig.controller.switches,
            (Calls{{0, 0, 3}, {0, 3, 4}, {0, 4, 0}, {0, 0, 1}, {0, 1, 2}, {0, 2, 3}}));
}

TEST(SchedulerTest, StaysWhenNobodyHasWorkAndKeepsTheQueue) {
  Rig rig = Started({}, Apart(4), 1, 8);
  rig.scheduler.Start();
  rig.monitor.packets.assign(8, 0);
  for (int i = 1; i <= 5; ++i) rig.TickAt(i * kSlice);
  EXPECT_TRUE(rig.controller.switches.empty());
  EXPECT_EQ(rig.scheduler.Current(0), 0u);
  rig.monitor.packets.assign(8, kPlenty);
  for (int i = 6; i <= 9; ++i) rig.TickAt(i * kSlice);
  EXPECT_EQ(rig.controller.switches, (Calls{{0, 0, 1}, {0, 1, 2}, {0, 2, 3}, {0, 3, 0}}));
}

// Line 18 is inside the condition of line 14: an NF that stays keeps its expired timer.
TEST(SchedulerTest, AnExpiredNfThatStayedLeavesAsSoonAsAnotherHasWork) {
  Rig rig = Started({}, Apart(2), 1, 4);
  rig.scheduler.Start();
  rig.monitor.packets[2] = 0;
  rig.TickAt(kSlice);
  EXPECT_TRUE(rig.controller.switches.empty());
  rig.monitor.packets[2] = kPlenty;
  rig.TickAt(kSlice + kT);
  EXPECT_EQ(rig.controller.switches, (Calls{{0, 0, 1}}));
  EXPECT_EQ(rig.observer.records.back().reason, SwitchReason::kSliceExpired);
}

TEST(SchedulerTest, TheCurrentNfIsNoCandidateForItself) {
  // It stays though it has no work, because the others have none either: C = N ends line 10.
  Rig rig = Started({}, Apart(1), 1, 2);
  rig.scheduler.Start();
  rig.monitor.packets = {0, kCapacity};
  for (int i = 1; i <= 3; ++i) rig.TickAt(i * kSlice);
  EXPECT_TRUE(rig.controller.switches.empty());
  EXPECT_EQ(rig.observer.records.size(), 1u);
}

TEST(SchedulerTest, CoresAreIndependent) {
  // NFs 0 and 1 on core 0; 2 and 3 on core 1; links apart.
  std::vector<ScheduledNf> nfs = Apart(4);
  nfs[2].core = nfs[3].core = 1;
  nfs[2].cost_ns = 50;
  Rig rig = Started({}, nfs, 2, 8);
  rig.scheduler.Start();
  rig.TickAt(kSlice / 2);
  EXPECT_EQ(rig.controller.switches, (Calls{{1, 2, 3}}));
  EXPECT_EQ(rig.scheduler.Switches(0), 0u);
  EXPECT_EQ(rig.scheduler.Switches(1), 1u);
  rig.monitor.packets[0] = 0;
  rig.TickAt(kSlice / 2 + kT);
  EXPECT_EQ(rig.controller.switches, (Calls{{1, 2, 3}, {0, 0, 1}}));
}

TEST(SchedulerTest, BothCoresCanSwitchInOneTick) {
  std::vector<ScheduledNf> nfs = Apart(4);
  nfs[2].core = nfs[3].core = 1;
  Rig rig = Started({}, nfs, 2, 8);
  rig.scheduler.Start();
  rig.TickAt(kSlice);
  EXPECT_EQ(rig.controller.switches, (Calls{{0, 0, 1}, {1, 2, 3}}));
}

TEST(SchedulerTest, SeveralChainsShareACoreInTheirOrder) {
  // Chain X of NFs 0 and 1 over links 0 to 2, chain Y of NFs 2 and 3 over links 3 to 5.
  const std::vector<ScheduledNf> nfs = {
      {0, 0, 1, kCost}, {0, 1, 2, kCost}, {0, 3, 4, kCost}, {0, 4, 5, kCost}};
  Rig rig = Started({}, nfs, 1, 6);
  rig.scheduler.Start();
  for (int i = 1; i <= 4; ++i) rig.TickAt(i * kSlice);
  EXPECT_EQ(rig.controller.switches, (Calls{{0, 0, 1}, {0, 1, 2}, {0, 2, 3}, {0, 3, 0}}));
  rig.monitor.packets[1] = 0;  // X runs dry behind its first NF, Y does not
  rig.TickAt(5 * kSlice);
  EXPECT_EQ(rig.scheduler.Current(0), 2u);
}

// The running example of section 4.4.2: A → B → C → D with A, C and D on core 0, B on core 1.
class RunningExample : public testing::Test {
 protected:
  static constexpr NfIndex kA = 0, kB = 1, kC = 2, kD = 3;
  static constexpr LinkIndex kIngressOfC = 2;

  RunningExample() : rig_({}, Chain({0, 1, 0, 0}), 2, Links(5)) { rig_.scheduler.Start(); }

  // Who runs on core 0 from now on when every NF has work: the wait queue made visible.
  std::vector<NfIndex> NextThree(Nanoseconds from) {
    rig_.monitor.packets.assign(5, kPlenty);
    std::vector<NfIndex> order;
    for (int i = 1; i <= 3; ++i) {
      rig_.TickAt(from + i * kSlice);
      order.push_back(rig_.scheduler.Current(0));
    }
    return order;
  }

  Rig rig_;
};

TEST_F(RunningExample, Fig3aTheFirstNfRunsAndTheOthersWaitInChainOrder) {
  EXPECT_EQ(rig_.scheduler.Current(0), kA);
  EXPECT_EQ(rig_.scheduler.Current(1), kB);
  for (Nanoseconds now = kT; now < kSlice; now += kT) rig_.TickAt(now);
  EXPECT_EQ(rig_.scheduler.Current(0), kA);  // ts_A has not passed
  EXPECT_EQ(NextThree(kT), (std::vector<NfIndex>{kC, kD, kA}));
}

TEST_F(RunningExample, Fig3bTheHeadOfTheQueueHasWork) {
  rig_.TickAt(kSlice);
  EXPECT_EQ(rig_.scheduler.Current(0), kC);
  EXPECT_EQ(rig_.controller.switches, (Calls{{0, kA, kC}}));  // B has its core to itself
  EXPECT_EQ(NextThree(kSlice), (std::vector<NfIndex>{kD, kA, kC}));
}

TEST_F(RunningExample, Fig3cTheHeadOfTheQueueHasNoWork) {
  rig_.monitor.packets[kIngressOfC] = kThetaMin;
  rig_.TickAt(kSlice);
  EXPECT_EQ(rig_.scheduler.Current(0), kD);
  EXPECT_EQ(rig_.controller.switches, (Calls{{0, kA, kD}}));
  EXPECT_EQ(NextThree(kSlice), (std::vector<NfIndex>{kA, kC, kD}));
}

// Line 13.
TEST(SchedulerTest, SliceIsCostTimesGammaTimesCapacityOfTheEgress) {
  FakeMonitor links = Links(3);
  links.capacity = {4096, 1024, 512};
  SchedulerSettings settings;
  settings.gamma = 0.5;
  std::vector<ScheduledNf> nfs = Chain({0, 0});
  nfs[0].cost_ns = 20;
  nfs[1].cost_ns = 12.5;
  Rig rig(settings, nfs, 1, links);
  EXPECT_EQ(rig.scheduler.TimeSlice(0), 10'240);
  EXPECT_EQ(rig.scheduler.TimeSlice(1), 3'200);
  rig.scheduler.Start();
  EXPECT_EQ(rig.observer.records[0].slice, 10'240);
}

TEST(SchedulerTest, WithoutOccupancyItIsRoundRobinOfSlices) {
  SchedulerSettings settings;
  settings.occupancy = false;
  std::vector<ScheduledNf> nfs = Chain({0, 0, 0});
  nfs[1].cost_ns = 200;
  Rig rig = Started(settings, nfs, 1, 4);
  rig.scheduler.Start();
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
  rig.scheduler.Start();
  rig.scheduler.SetCost(0, 10 * kCost);
  rig.TickAt(kSlice);  // the running slice is as long as it was
  ASSERT_EQ(rig.controller.switches, (Calls{{0, 0, 1}}));
  rig.TickAt(2 * kSlice);
  ASSERT_EQ(rig.scheduler.Current(0), 0u);
  EXPECT_EQ(rig.observer.records.back().slice, 10 * kSlice);
  rig.TickAt(12 * kSlice - kT);
  EXPECT_EQ(rig.scheduler.Current(0), 0u);
  rig.TickAt(12 * kSlice);
  EXPECT_EQ(rig.scheduler.Current(0), 1u);
}

TEST(SchedulerTest, TheRecordHoldsWhatWasSeen) {
  Rig rig = Started({}, Apart(2), 1, 4);
  rig.scheduler.Start();
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
  EXPECT_THROW(Started({}, Chain({0, 0}), 2, 3), std::invalid_argument);
}

}  // namespace
}  // namespace unis
