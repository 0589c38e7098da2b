// What goes beyond the paper: lead (start a switch early) and max_wait (no packet waits for ever).
#include <gtest/gtest.h>

#include <vector>

#include "engine/scheduler/fakes.h"

namespace unis {
namespace {

constexpr Nanoseconds kT = 1'000;
constexpr double kCost = 10;
constexpr Nanoseconds kSlice = 15'360;  // 10 ns · 0.75 · 2048
constexpr Nanoseconds kLead = 4'000;    // 400 packets of work
constexpr std::uint32_t kThetaMin = 56;
constexpr std::uint32_t kThetaMax = 1536;

// `count` NFs on one core; NF i reads link 2i (plenty of work) and writes link 2i + 1 (empty).
Rig Apart(const SchedulerSettings& settings, std::size_t count) {
  std::vector<ScheduledNf> nfs;
  FakeMonitor links;
  for (LinkIndex i = 0; i < count; ++i) {
    nfs.push_back({0, 2 * i, 2 * i + 1, kCost});
    links.packets.insert(links.packets.end(), {1000, 0});
    links.capacity.insert(links.capacity.end(), {2048, 2048});
  }
  return Rig(settings, nfs, 1, links);
}

SchedulerSettings WithLead(Nanoseconds lead) {
  SchedulerSettings settings;
  settings.lead = lead;
  return settings;
}

TEST(LeadTest, LeavesWhenTheIngressLastsNoLongerThanTheSwitch) {
  Rig rig = Apart(WithLead(kLead), 2);
  rig.scheduler.Start();
  rig.monitor.packets[0] = kThetaMin + 401;
  rig.TickAt(kLead);
  EXPECT_EQ(rig.scheduler.Current(0), 0u);
  rig.monitor.packets[0] = kThetaMin + 400;
  rig.TickAt(kLead + kT);
  EXPECT_EQ(rig.scheduler.Current(0), 1u);
  EXPECT_EQ(rig.observer.records.back().reason, SwitchReason::kIngressLow);
}

TEST(LeadTest, LeavesWhenTheEgressFillsBeforeTheSwitchIsDone) {
  Rig rig = Apart(WithLead(kLead), 2);
  rig.scheduler.Start();
  rig.monitor.packets[1] = kThetaMax - 401;
  rig.TickAt(kLead);
  EXPECT_EQ(rig.scheduler.Current(0), 0u);
  rig.monitor.packets[1] = kThetaMax - 400;
  rig.TickAt(kLead + kT);
  EXPECT_EQ(rig.scheduler.Current(0), 1u);
  EXPECT_EQ(rig.observer.records.back().reason, SwitchReason::kEgressHigh);
}

TEST(LeadTest, LeavesALeadBeforeTheEndOfTheSlice) {
  Rig rig = Apart(WithLead(kLead), 2);
  rig.scheduler.Start();  // runs from kLead on, for kSlice; so leave it at kSlice
  rig.TickAt(kSlice - 1);
  EXPECT_EQ(rig.scheduler.Current(0), 0u);
  rig.TickAt(kSlice - 1 + kT);
  EXPECT_EQ(rig.scheduler.Current(0), 1u);
  EXPECT_EQ(rig.observer.records.back().reason, SwitchReason::kSliceExpired);
}

TEST(LeadTest, DoesNotJudgeAnNfBeforeItRuns) {
  Rig rig = Apart(WithLead(kLead), 3);
  rig.scheduler.Start();
  rig.monitor.packets[0] = 0;
  rig.TickAt(kLead);
  ASSERT_EQ(rig.scheduler.Current(0), 1u);
  rig.monitor.packets[2] = 0;  // would be left at once
  for (Nanoseconds now = kLead + kT; now < 2 * kLead; now += kT) rig.TickAt(now);
  EXPECT_EQ(rig.scheduler.Current(0), 1u);
  rig.TickAt(2 * kLead);
  EXPECT_EQ(rig.scheduler.Current(0), 2u);
}

TEST(LeadTest, ASwitchUnderWayOnOneCoreDoesNotHoldUpTheOthers) {
  const std::vector<ScheduledNf> nfs = {
      {0, 0, 1, kCost}, {0, 2, 3, kCost}, {1, 4, 5, kCost}, {1, 6, 7, kCost}};
  FakeMonitor links;
  links.packets = {1000, 0, 1000, 0, 1000, 0, 1000, 0};
  links.capacity.assign(8, 2048);
  Rig rig(WithLead(kLead), nfs, 2, links);
  rig.scheduler.Start();
  rig.monitor.packets[0] = 0;
  rig.TickAt(kLead);
  rig.monitor.packets[2] = rig.monitor.packets[4] = 0;
  rig.TickAt(kLead + kT);
  EXPECT_EQ(rig.controller.switches, (std::vector<SwitchCall>{{0, 0, 1}, {1, 2, 3}}));
}

TEST(LeadTest, ACandidateNeedsOnlyMeaningfulWorkAsPrinted) {
  Rig rig = Apart(WithLead(kLead), 2);
  rig.scheduler.Start();
  rig.monitor.packets = {0, 0, kThetaMin + 1, kThetaMax - 1};
  rig.TickAt(kLead);
  EXPECT_EQ(rig.scheduler.Current(0), 1u);
}

SchedulerSettings WithMaxWait(Nanoseconds max_wait) {
  SchedulerSettings settings;
  settings.max_wait = max_wait;
  return settings;
}

constexpr Nanoseconds kMaxWait = 50'000;

TEST(MaxWaitTest, AFewPacketsWaitForEverWithoutIt) {
  Rig rig = Apart({}, 2);
  rig.scheduler.Start();
  rig.monitor.packets = {0, 0, kThetaMin, 0};
  for (Nanoseconds now = kT; now < 1'000 * kT; now += kT) rig.TickAt(now);
  EXPECT_EQ(rig.scheduler.Current(0), 0u);
}

TEST(MaxWaitTest, RunsAnNfWhoseFewPacketsWaitedSoLong) {
  Rig rig = Apart(WithMaxWait(kMaxWait), 2);
  rig.scheduler.Start();
  rig.monitor.packets = {0, 0, 1, 0};
  Nanoseconds now = kT;
  for (; now < kT + kMaxWait; now += kT) {
    rig.TickAt(now);
    ASSERT_EQ(rig.scheduler.Current(0), 0u) << now;
  }
  rig.TickAt(now);
  EXPECT_EQ(rig.scheduler.Current(0), 1u);
}

TEST(MaxWaitTest, AnEmptyIngressStopsTheWait) {
  Rig rig = Apart(WithMaxWait(kMaxWait), 2);
  rig.scheduler.Start();
  rig.monitor.packets = {0, 0, 1, 0};
  rig.TickAt(kT);
  rig.monitor.packets[2] = 0;
  rig.TickAt(kMaxWait);
  rig.monitor.packets[2] = 1;
  rig.TickAt(kMaxWait + kT);
  EXPECT_EQ(rig.scheduler.Current(0), 0u);
  rig.TickAt(2 * kMaxWait + kT);
  EXPECT_EQ(rig.scheduler.Current(0), 1u);
}

TEST(MaxWaitTest, AFullEgressIsNotOverridden) {
  Rig rig = Apart(WithMaxWait(kMaxWait), 2);
  rig.scheduler.Start();
  rig.monitor.packets = {0, 0, 1, kThetaMax};
  for (Nanoseconds now = kT; now < 3 * kMaxWait; now += kT) rig.TickAt(now);
  EXPECT_EQ(rig.scheduler.Current(0), 0u);
  rig.monitor.packets[3] = kThetaMax - 1;
  rig.TickAt(3 * kMaxWait);
  EXPECT_EQ(rig.scheduler.Current(0), 1u);
}

TEST(MaxWaitTest, TheWaitBeginsAnewAfterARun) {
  Rig rig = Apart(WithMaxWait(kMaxWait), 2);
  rig.scheduler.Start();
  rig.monitor.packets = {1, 0, 1, 0};
  Nanoseconds last = 0;
  for (Nanoseconds now = kT; now <= 10 * kMaxWait; now += kT) {
    rig.TickAt(now);
    if (rig.observer.records.back().time == now) {
      EXPECT_GE(now - last, kMaxWait);
      last = now;
    }
  }
  EXPECT_GE(rig.controller.switches.size(), 8u);  // both get their turns
  EXPECT_LE(rig.controller.switches.size(), 10u);
}

}  // namespace
}  // namespace unis
