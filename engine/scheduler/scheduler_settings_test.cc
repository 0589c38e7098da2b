// What goes beyond the paper: lead (start a switch early), max_wait (no packet waits for ever),
// how a switch is known to be over, and when not to look.
#include <gtest/gtest.h>

#include <vector>

#include "engine/scheduler/paper_for_test.h"

namespace unis {
namespace {

constexpr double kLightCost = 10;
constexpr Nanoseconds kLightSlice = 15'360;  // 10 ns · 0.75 · 2048
constexpr Nanoseconds kLead = 4'000;         // 400 packets of work

// `count` tasks on one core; task i reads link 2i (plenty of work) and writes link 2i + 1 (empty).
Rig LightTasks(const SchedulerSettings& settings, std::size_t count) {
  std::vector<OnePath> tasks;
  FakeMonitor links;
  for (LinkIndex i = 0; i < count; ++i) {
    tasks.push_back({0, 2 * i, 2 * i + 1, kLightCost});
    links.packets.insert(links.packets.end(), {1000, 0});
    links.capacity.insert(links.capacity.end(), {kCapacity, kCapacity});
  }
  return Rig(settings, tasks, 1, links);
}

SchedulerSettings WithLead(Nanoseconds lead) {
  SchedulerSettings settings;
  settings.latency_compensation = lead;
  return settings;
}

TEST(LeadTest, LeavesWhenTheIngressLastsNoLongerThanTheSwitch) {
  Rig rig = LightTasks(WithLead(kLead), 2);
  rig.cores.Start();
  rig.monitor.packets[0] = kThetaMin + 401;
  rig.TickAt(kLead);
  EXPECT_EQ(rig.Current(0), 0u);
  rig.monitor.packets[0] = kThetaMin + 400;
  rig.TickAt(kLead + kT);
  EXPECT_EQ(rig.Current(0), 1u);
  EXPECT_EQ(rig.observer.records.back().reason, SwitchReason::kIngressLow);
}

TEST(LeadTest, LeavesWhenTheEgressFillsBeforeTheSwitchIsDone) {
  Rig rig = LightTasks(WithLead(kLead), 2);
  rig.cores.Start();
  rig.monitor.packets[1] = kThetaMax - 401;
  rig.TickAt(kLead);
  EXPECT_EQ(rig.Current(0), 0u);
  rig.monitor.packets[1] = kThetaMax - 400;
  rig.TickAt(kLead + kT);
  EXPECT_EQ(rig.Current(0), 1u);
  EXPECT_EQ(rig.observer.records.back().reason, SwitchReason::kEgressHigh);
}

TEST(LeadTest, LeavesALeadBeforeTheEndOfTheSlice) {
  Rig rig = LightTasks(WithLead(kLead), 2);
  rig.cores.Start();  // runs from kLead on, for kLightSlice; so leave it at kLightSlice
  rig.TickAt(kLightSlice - 1);
  EXPECT_EQ(rig.Current(0), 0u);
  rig.TickAt(kLightSlice - 1 + kT);
  EXPECT_EQ(rig.Current(0), 1u);
  EXPECT_EQ(rig.observer.records.back().reason, SwitchReason::kSliceExpired);
}

TEST(LeadTest, DoesNotJudgeATaskBeforeItRuns) {
  Rig rig = LightTasks(WithLead(kLead), 3);
  rig.cores.Start();
  rig.monitor.packets[0] = 0;
  rig.TickAt(kLead);
  ASSERT_EQ(rig.Current(0), 1u);
  rig.monitor.packets[2] = 0;  // would be left at once
  for (Nanoseconds now = kLead + kT; now < 2 * kLead; now += kT) rig.TickAt(now);
  EXPECT_EQ(rig.Current(0), 1u);
  rig.TickAt(2 * kLead);
  EXPECT_EQ(rig.Current(0), 2u);
}

TEST(LeadTest, ASwitchUnderWayOnOneCoreDoesNotHoldUpTheOthers) {
  const std::vector<OnePath> tasks = {
      {0, 0, 1, kLightCost}, {0, 2, 3, kLightCost}, {1, 4, 5, kLightCost}, {1, 6, 7, kLightCost}};
  FakeMonitor links;
  links.packets = {1000, 0, 1000, 0, 1000, 0, 1000, 0};
  links.capacity.assign(8, 2048);
  Rig rig(WithLead(kLead), tasks, 2, links);
  rig.cores.Start();
  rig.monitor.packets[0] = 0;
  rig.TickAt(kLead);
  rig.monitor.packets[2] = rig.monitor.packets[4] = 0;
  rig.TickAt(kLead + kT);
  EXPECT_EQ(rig.controller.switches, (std::vector<SwitchCall>{{0, 0, 1}, {1, 2, 3}}));
}

// Else the two would be switched between as long as each has a little more than θmin.
TEST(LeadTest, ATaskThatWouldBeLeftAtOnceIsNoCandidate) {
  Rig rig = LightTasks(WithLead(kLead / 2), 2);
  rig.cores.Start();
  rig.monitor.packets = {0, 0, kThetaMin + 200, 0};
  rig.TickAt(kLead);
  EXPECT_EQ(rig.Current(0), 0u);
  rig.monitor.packets = {0, 0, kThetaMin + 201, kThetaMax - 200};
  rig.TickAt(kLead + kT);
  EXPECT_EQ(rig.Current(0), 0u);
  rig.monitor.packets[3] = kThetaMax - 201;
  rig.TickAt(kLead + 2 * kT);
  EXPECT_EQ(rig.Current(0), 1u);
}

// A ring of 512 never holds 14 µs of work at 10 ns.
TEST(LeadTest, ALongLeadLeavesNoTaskInASmallRingWaitingForEver) {
  Rig rig(WithLead(14'000), std::vector<OnePath>{{0, 0, 1, kLightCost}, {0, 2, 3, kLightCost}}, 1,
          [] {
            FakeMonitor links;
            links.packets = {0, 0, 200, 0};
            links.capacity.assign(4, 511);
            return links;
          }());
  rig.cores.Start();
  rig.TickAt(14'000);
  EXPECT_EQ(rig.Current(0), 1u);
}

SchedulerSettings Seeing() {
  SchedulerSettings settings = WithLead(kLead);
  settings.online_cost = true;
  return settings;
}

// Three light tasks; `Take` is a burst that a task is seen to take.
struct SwitchTimeTest : testing::Test {
  explicit SwitchTimeTest(const SchedulerSettings& settings = Seeing(), double cost = kCost)
      : rig(settings, Costing(cost), 1, Filled({kPlenty, 0, kPlenty, 0, kPlenty, 0})) {
    rig.cores.Start();
  }
  static std::vector<OnePath> Costing(double cost) {
    std::vector<OnePath> tasks = Apart(3);
    for (OnePath& task : tasks) task.cost_ns = cost;
    return tasks;
  }
  void Take(TaskIndex task) { rig.monitor.received[2 * task] += 64; }
  // The current task has nothing left; the next one takes its first packets after `took`.
  void Switch(Nanoseconds took) {
    const TaskIndex before = rig.Current(0);
    now += kSlice / 2;
    Take(before);
    rig.monitor.packets[2 * before] = 0;
    rig.TickAt(now);
    rig.monitor.packets[2 * before] = kPlenty;
    ASSERT_NE(rig.Current(0), before);
    for (const Nanoseconds end = now + took; now < end;) {
      now += kT;
      if (now >= end) Take(rig.Current(0));
      rig.TickAt(now);
    }
  }
  Nanoseconds Learned() const { return rig.cores[0].statistics().switch_ns; }
  Rig rig;
  Nanoseconds now = 0;
};

TEST_F(SwitchTimeTest, IsWhatWasMeasuredUntilAnotherIsSeen) {
  EXPECT_EQ(Learned(), kLead);
  Switch(3 * kLead);
  Switch(3 * kLead);
  EXPECT_EQ(Learned(), kLead) << "twice may be an accident";
  Switch(3 * kLead);
  EXPECT_EQ(Learned(), 3 * kLead);
}

TEST_F(SwitchTimeTest, OneThatIsInterruptedChangesNothing) {
  for (int i = 0; i < 20; ++i) {
    Switch(i % 5 == 0 ? 10 * kLead : 2 * kLead);
    if (i > 5) {
      EXPECT_EQ(Learned(), 2 * kLead) << i;
    }
  }
}

TEST_F(SwitchTimeTest, StaysNearWhatWasMeasured) {
  for (int i = 0; i < 5; ++i) Switch(kT);
  EXPECT_EQ(Learned(), kLead);
  for (int i = 0; i < 5; ++i) Switch(100 * kLead);
  EXPECT_EQ(Learned(), kLead) << "nobody is looked for so long";
}

TEST_F(SwitchTimeTest, WhereNobodyIsSeenToTakePacketsTimeDecides) {
  rig.monitor.packets[0] = 0;
  rig.TickAt(kLead);
  ASSERT_EQ(rig.Current(0), 1U);
  rig.monitor.packets[2] = 0;
  rig.TickAt(2 * kLead - kT);
  EXPECT_EQ(rig.Current(0), 1U);
  rig.TickAt(2 * kLead);
  EXPECT_EQ(rig.Current(0), 2U);
  EXPECT_EQ(Learned(), kLead);
}

TEST_F(SwitchTimeTest, ATaskThatIsSeenToWorkMayBeLeft) {
  rig.monitor.packets[0] = 0;
  rig.TickAt(kLead);
  Take(1);
  rig.monitor.packets[2] = 0;
  rig.TickAt(kLead + kT);
  EXPECT_EQ(rig.Current(0), 2U);
}

TEST_F(SwitchTimeTest, TheSliceBeginsWhenItWasSeen) {
  Switch(3 * kLead);
  const TaskIndex task = rig.Current(0);
  const Nanoseconds end = now + kSlice - kLead;
  rig.monitor.received[2 * task] += kThetaMax;  // all that the slice is for
  rig.TickAt(end - 1);
  EXPECT_EQ(rig.Current(0), task);
  rig.TickAt(end + kT);
  EXPECT_NE(rig.Current(0), task);
}

TEST_F(SwitchTimeTest, OneThatFailsIsNotSeen) {
  Take(1);  // more than task 0 ever took
  rig.controller.dead = {1, 2};
  rig.monitor.packets[0] = 0;
  for (now = kLead; now < 20 * kLead; now += kT) rig.TickAt(now);
  EXPECT_EQ(rig.Current(0), 0U);
  EXPECT_EQ(Learned(), kLead);
}

// It may go on with a burst in which it was interrupted.
struct DearTasksTest : SwitchTimeTest {
  DearTasksTest() : SwitchTimeTest(Seeing(), kLead / 32.0) {}
};

TEST_F(DearTasksTest, WhoseBurstTakesAsLongAsASwitchTellNothing) {
  for (int i = 0; i < 10; ++i) Switch(3 * kLead);
  EXPECT_EQ(Learned(), kLead);
}

struct AsPrintedTest : SwitchTimeTest {
  AsPrintedTest() : SwitchTimeTest(WithLead(kLead)) {}
};

TEST_F(AsPrintedTest, NothingIsLearned) {
  for (int i = 0; i < 10; ++i) Switch(3 * kLead);
  EXPECT_EQ(Learned(), kLead);
}

TEST(LazyTest, LooksAgainLongBeforeTheWorkCanBeDone) {
  SchedulerSettings settings;
  settings.lazy = true;
  Rig rig = LightTasks(settings, 2);
  rig.cores.Start();
  rig.monitor.packets[0] = kThetaMin + 1'000;  // 10 µs of work
  rig.TickAt(kT);
  rig.monitor.packets[0] = 0;
  rig.TickAt(kT + 2'500 - 1);
  EXPECT_EQ(rig.Current(0), 0u);
  EXPECT_EQ(rig.Decisions(), 1u);
  rig.TickAt(kT + 2'500);
  EXPECT_EQ(rig.Current(0), 1u);
}

TEST(LazyTest, TheEgressAndTheSliceCountToo) {
  SchedulerSettings settings;
  settings.lazy = true;
  Rig rig = LightTasks(settings, 2);
  rig.cores.Start();
  rig.monitor.packets[1] = kThetaMax - 400;
  rig.TickAt(kT);
  rig.monitor.packets[1] = kThetaMax;
  rig.TickAt(kT + 1'000 - 1);
  EXPECT_EQ(rig.Current(0), 0u);
  rig.TickAt(kT + 1'000);
  EXPECT_EQ(rig.Current(0), 1u);
  rig.monitor.packets = {1000, 0, 2000, 0};
  Nanoseconds now = kT + 1'000;
  for (; now < kT + 1'000 + kLightSlice; now += kT) rig.TickAt(now);
  EXPECT_EQ(rig.Current(0), 1u);
  rig.TickAt(now);
  EXPECT_EQ(rig.Current(0), 0u);
}

TEST(LazyTest, WithoutWorkItLooksEveryInterval) {
  SchedulerSettings settings;
  settings.lazy = true;
  Rig rig = LightTasks(settings, 2);
  rig.cores.Start();
  rig.monitor.packets.assign(4, 0);
  for (int i = 1; i <= 5; ++i) rig.TickAt(i * kT);
  EXPECT_EQ(rig.Decisions(), 5u);
}

SchedulerSettings WithMaxWait(Nanoseconds max_wait) {
  SchedulerSettings settings;
  settings.max_wait = max_wait;
  return settings;
}

constexpr Nanoseconds kMaxWait = 50'000;

TEST(MaxWaitTest, AFewPacketsWaitForEverWithoutIt) {
  Rig rig = LightTasks({}, 2);
  rig.cores.Start();
  rig.monitor.packets = {0, 0, kThetaMin, 0};
  for (Nanoseconds now = kT; now < 1'000 * kT; now += kT) rig.TickAt(now);
  EXPECT_EQ(rig.Current(0), 0u);
}

TEST(MaxWaitTest, RunsATaskWhoseFewPacketsWaitedSoLong) {
  Rig rig = LightTasks(WithMaxWait(kMaxWait), 2);
  rig.cores.Start();
  rig.monitor.packets = {0, 0, 1, 0};
  Nanoseconds now = kT;
  for (; now < kMaxWait; now += kT) {
    rig.TickAt(now);
    ASSERT_EQ(rig.Current(0), 0u) << now;
  }
  rig.TickAt(now);
  EXPECT_EQ(rig.Current(0), 1u);
}

TEST(MaxWaitTest, AnEmptyIngressStopsTheWait) {
  Rig rig = LightTasks(WithMaxWait(kMaxWait), 2);
  rig.cores.Start();
  rig.monitor.packets = {0, 0, 1, 0};
  rig.TickAt(kT);
  rig.monitor.packets[2] = 0;
  rig.TickAt(kMaxWait);
  rig.monitor.packets[2] = 1;
  rig.TickAt(kMaxWait + kT);
  EXPECT_EQ(rig.Current(0), 0u);
  rig.TickAt(2 * kMaxWait + kT);
  EXPECT_EQ(rig.Current(0), 1u);
}

// It is not looked at while another runs: the wait counts nevertheless.
TEST(MaxWaitTest, TheWaitCountsFromItsLastRunNotFromTheFirstLook) {
  Rig rig = LightTasks(WithMaxWait(kMaxWait), 2);
  rig.cores.Start();
  rig.monitor.packets = {1000, 0, 1, 0};
  rig.TickAt(kT);
  rig.monitor.packets[0] = 0;
  rig.TickAt(kMaxWait);
  EXPECT_EQ(rig.Current(0), 1u);
}

TEST(MaxWaitTest, AFullEgressIsNotOverridden) {
  Rig rig = LightTasks(WithMaxWait(kMaxWait), 2);
  rig.cores.Start();
  rig.monitor.packets = {0, 0, 1, kThetaMax};
  for (Nanoseconds now = kT; now < 3 * kMaxWait; now += kT) rig.TickAt(now);
  EXPECT_EQ(rig.Current(0), 0u);
  rig.monitor.packets[3] = kThetaMax - 1;
  rig.TickAt(3 * kMaxWait);
  EXPECT_EQ(rig.Current(0), 1u);
}

TEST(MaxWaitTest, TheWaitBeginsAnewAfterARun) {
  Rig rig = LightTasks(WithMaxWait(kMaxWait), 2);
  rig.cores.Start();
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
