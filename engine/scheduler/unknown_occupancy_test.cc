// What the scheduler does where nobody can look into a link.
#include <gtest/gtest.h>

#include <algorithm>
#include <ranges>
#include <utility>
#include <vector>

#include "engine/scheduler/parking_for_test.h"

namespace unis {
namespace {

using Calls = std::vector<SwitchCall>;

constexpr Nanoseconds kBlindSlice = 100'000;
constexpr Nanoseconds kMs = 1'000'000;

// As the monitor reads them: 0 packets.
FakeMonitor WithUnknown(std::vector<std::uint32_t> packets, std::vector<LinkIndex> unknown) {
  FakeMonitor links = Filled(packets);
  for (const LinkIndex link : unknown) links.packets[link] = 0;
  links.unknown = std::move(unknown);
  return links;
}

struct UnknownOccupancyTest : testing::TestWithParam<bool> {
  static SchedulerSettings Settings() {
    SchedulerSettings settings;
    settings.online_cost = GetParam();
    settings.lazy = GetParam();
    settings.max_wait = kMs;
    return settings;
  }
  static std::unique_ptr<Rig> Start(const CostedTasks& tasks, FakeMonitor links) {
    auto rig = std::make_unique<Rig>(Settings(), tasks, 1, std::move(links));
    EXPECT_TRUE(rig->cores.Start());
    return rig;
  }
  static void Pass(Rig& rig, Nanoseconds time) {
    for (const Nanoseconds end = rig.timer.now + time; rig.timer.now < end;)
      rig.TickAt(rig.timer.now + kT);
  }
};

INSTANTIATE_TEST_SUITE_P(CostIsFollowed, UnknownOccupancyTest, testing::Bool());

TEST_P(UnknownOccupancyTest, TasksHaveTheirTurnsInChainOrderForABoundedTime) {
  const auto rig = Start(Chain({0, 0, 0}), WithUnknown({0, 0, 0, 0}, {0, 1, 2, 3}));
  Pass(*rig, kMs);
  ASSERT_GE(rig->controller.switches.size(), 9U);
  for (TaskIndex i = 0; i < rig->controller.switches.size(); ++i)
    EXPECT_EQ(rig->controller.switches[i], (SwitchCall{0, i % 3, (i + 1) % 3})) << i;
  for (std::size_t i = 1; i < rig->observer.records.size(); ++i) {
    const SwitchRecord& record = rig->observer.records[i];
    EXPECT_EQ(record.reason, SwitchReason::kSliceExpired);
    const Nanoseconds slice = record.time - rig->observer.records[i - 1].time;
    EXPECT_GE(slice, kBlindSlice) << i;
    EXPECT_LE(slice, kBlindSlice + kT) << i;
  }
}

TEST_P(UnknownOccupancyTest, AnEgressThatNobodySeesIsNeverFull) {
  const auto rig = Start(Apart(2), WithUnknown({kPlenty, 0, kPlenty, 0}, {1}));
  Pass(*rig, kSlice - 2 * kT);
  EXPECT_EQ(rig->Current(0), 0U) << "it has packets, and its slice is not over";
  Pass(*rig, 4 * kT);
  EXPECT_EQ(rig->Current(0), 1U);
  EXPECT_EQ(rig->observer.records.back().reason, SwitchReason::kSliceExpired);
}

TEST_P(UnknownOccupancyTest, AFullEgressKeepsATaskOutOfWhichNobodySeesTheIngress) {
  const auto rig = Start(Apart(2), WithUnknown({0, 0, kPlenty, 0}, {0}));
  Pass(*rig, 10 * kT);
  EXPECT_EQ(rig->Current(0), 0U);
  rig->monitor.packets[1] = kThetaMax;
  Pass(*rig, kSlice);
  EXPECT_EQ(rig->observer.records.back().reason, SwitchReason::kEgressHigh);
  Pass(*rig, 10 * kSlice);
  EXPECT_EQ(rig->Current(0), 1U);
  EXPECT_EQ(rig->controller.switches.size(), 1U) << "there is no room behind the other";
}

TEST_P(UnknownOccupancyTest, OneThatMayHavePacketsGivesWayToOneThatHas) {
  const auto rig = Start(Apart(2), WithUnknown({0, 0, 0, 0}, {0}));
  Pass(*rig, 10 * kBlindSlice);
  EXPECT_EQ(rig->Current(0), 0U) << "nobody else has work";
  rig->monitor.packets[2] = kPlenty;
  Pass(*rig, kBlindSlice + 2 * kT);
  EXPECT_EQ(rig->Current(0), 1U);
  rig->monitor.packets[2] = 0;
  Pass(*rig, kSlice / 2);
  EXPECT_EQ(rig->Current(0), 0U) << "and has its turn when that one has none left";
}

// Task 0 reads links 0 and 1, of which nobody sees the first, and fills links 2 and 3.
TEST_P(UnknownOccupancyTest, OfSeveralLinksEachCountsAsFarAsItIsSeen) {
  CostedTasks tasks;
  tasks.Add(0, {{0, 2}, {1, 3}}, kCost);
  tasks.Add(0, {{4, 5}}, kCost);
  const auto rig = Start(tasks, WithUnknown({0, 0, 0, 0, kPlenty, 0}, {0}));
  Pass(*rig, kBlindSlice - 10 * kT);
  EXPECT_EQ(rig->Current(0), 0U);
  rig->monitor.packets[3] = kThetaMax;  // of the link that holds nothing
  Pass(*rig, 5 * kT);
  EXPECT_EQ(rig->Current(0), 0U);
  Pass(*rig, 20 * kT);
  EXPECT_EQ(rig->Current(0), 1U) << "its slice is over";
  rig->monitor.packets[2] = kThetaMax;
  Pass(*rig, 2 * kSlice);
  EXPECT_EQ(rig->Current(0), 1U) << "what it may have would be lost";
  rig->monitor.packets[2] = 0;
  Pass(*rig, 2 * kSlice);
  EXPECT_GE(rig->controller.switches.size(), 2U);
}

TEST_P(UnknownOccupancyTest, ThreadsOfAFunctionHaveTheirTurnsToo) {
  CostedTasks tasks;
  tasks.Add(0, {{0, 1}}, kCost, 2);
  tasks.Add(0, {{2, 3}}, kCost);
  const auto rig = Start(tasks, WithUnknown({0, 0, 0, 0}, {0, 1, 2, 3}));
  Pass(*rig, 2 * kMs);
  for (TaskIndex task = 0; task < 3; ++task) EXPECT_GE(rig->cores[0].SwitchedIn(task), 5U) << task;
}

TEST_P(UnknownOccupancyTest, TheSameAnswersGiveTheSameSwitches) {
  const auto run = [] {
    const auto rig = Start(Chain({0, 0, 0}), WithUnknown({0, kPlenty, 0, 0}, {0, 2}));
    for (std::uint32_t step = 0; step < 3000; ++step) {
      rig->monitor.packets[1] = step * 7919 % kCapacity;
      rig->monitor.packets[3] = step * 104729 % kCapacity;
      rig->TickAt(rig->timer.now + kT);
    }
    return rig->observer.records;
  };
  const auto records = run();
  EXPECT_GT(records.size(), 10U);
  EXPECT_EQ(records, run());
}

constexpr Nanoseconds kWakeEvery = 100'000;
constexpr Nanoseconds kLook = 5'000;  // at tasks that sleep

// Three functions that yield, on links that nobody sees but some.
struct UnknownRig {
  UnknownRig(const SchedulerSettings& settings, const std::vector<LinkIndex>& unknown)
      : rig(settings, Chain({0, 0, 0}), 1, WithUnknown({0, 0, 0, 0}, unknown), true) {
    rig.controller.in_line = {0, 1, 2};
    rig.controller.taken = {0, 0, 0};
    rig.controller.can_park = true;
    rig.controller.in_turn = false;
    rig.observer.wanted = false;
    EXPECT_TRUE(rig.cores.Start());
  }
  static SchedulerSettings Settings() {
    SchedulerSettings settings = ParkingAfter(kIdleAfter);
    settings.max_delay = kWakeEvery;
    settings.platform_nap = 50'000;
    return settings;
  }
  void Begins(TaskIndex task) {
    rig.controller.turn = {.task = task, .begun = true};
    rig.TickAt(rig.timer.now + 60 * kT);
  }
  // Turns go round where tasks do not sleep.
  void Pass(Nanoseconds time) {
    for (const Nanoseconds end = rig.timer.now + time; rig.timer.now < end;) {
      if (rig.controller.parked.empty()) rig.controller.turn = {.task = next_++ % 3, .begun = true};
      rig.TickAt(rig.timer.now + kT);
    }
  }
  Rig rig;
  TaskIndex next_ = 1;
};

struct UnknownInLineTest : testing::Test, UnknownRig {
  UnknownInLineTest() : UnknownRig(Settings(), {0, 1, 2}) {}
};

TEST_F(UnknownInLineTest, WhileTasksTakePacketsTurnsGoRoundAndNobodySleeps) {
  for (TaskIndex i = 1; i < 5000; ++i) {
    if (i % 8 == 0) ++rig.controller.taken[i % 3];  // one in 8 · 60 µs, less than kIdleAfter
    Begins(i % 3);
    EXPECT_EQ(rig.Current(0), i % 3);
    EXPECT_EQ(rig.cores[0].nap(rig.timer.now), 0) << "packets may come at any time";
    EXPECT_EQ(rig.cores[0].idle_until(), 0);
  }
  EXPECT_TRUE(rig.controller.switches.empty());
  EXPECT_TRUE(rig.controller.asked.empty());
  EXPECT_TRUE(rig.controller.parked.empty());
  const CoreStatistics seen = rig.cores[0].statistics();
  EXPECT_FALSE(seen.parked);
  EXPECT_EQ(seen.cannot_park, std::nullopt);
}

TEST_F(UnknownInLineTest, OnceNoTaskHasTakenAnyForAWhileAllSleepAndPollEveryMaxDelay) {
  Pass(kIdleAfter - 100 * kT);
  EXPECT_TRUE(rig.controller.parked.empty());
  Pass(200 * kT);
  EXPECT_EQ(rig.controller.parked, (TaskList{0, 1, 2}));
  EXPECT_TRUE(rig.cores[0].statistics().parked);
  EXPECT_EQ(rig.cores[0].statistics().parks, 1U);
  EXPECT_EQ(rig.cores[0].nap(rig.timer.now), 0) << "of a packet that comes nobody would know";
  EXPECT_EQ(rig.cores[0].idle_until(), 0);
  EXPECT_EQ(rig.cores[0].slack(), 0) << "tasks keep it as long as it may wait already";
  rig.controller.unparked.clear();
  for (int wake = 0; wake < 20; ++wake) {
    const Nanoseconds before = rig.timer.now;
    while (rig.controller.unparked.empty()) Pass(kT);
    if (wake > 0) {  // before the first one they have slept for a while
      EXPECT_GE(rig.timer.now - before, kWakeEvery - kLook);
    }
    EXPECT_LE(rig.timer.now - before, kWakeEvery + kLook);
    EXPECT_EQ(std::exchange(rig.controller.unparked, {}), (TaskList{0, 1, 2})) << "in chain order";
    EXPECT_EQ(rig.controller.parked, (TaskList{0, 1, 2})) << "they sleep again by themselves";
  }
  EXPECT_EQ(rig.cores[0].statistics().parks, 1U) << "all that is one rest";
}

TEST_F(UnknownInLineTest, ThePacketThatATaskHasTakenWakesAllForGood) {
  Pass(2 * kIdleAfter);
  ASSERT_EQ(rig.controller.parked.size(), 3U);
  ++rig.controller.taken[1];
  Pass(kLook);
  EXPECT_TRUE(rig.controller.parked.empty());
  EXPECT_FALSE(rig.cores[0].statistics().parked);
  Pass(kIdleAfter - 100 * kT);
  EXPECT_TRUE(rig.controller.parked.empty());
  Pass(kIdleAfter + 200 * kT);
  EXPECT_EQ(rig.controller.parked.size(), 3U);
  EXPECT_EQ(rig.cores[0].statistics().parks, 2U);
}

TEST_F(UnknownInLineTest, AfterAShortRestTheNextComesLater) {
  Pass(kIdleAfter + 100 * kT);
  ASSERT_EQ(rig.controller.parked.size(), 3U);
  ++rig.controller.taken[1];
  Pass(kIdleAfter + 200 * kT);
  EXPECT_TRUE(rig.controller.parked.empty());
  Pass(kIdleAfter);
  EXPECT_EQ(rig.controller.parked.size(), 3U);
}

TEST_F(UnknownInLineTest, OneThatCannotSleepKeepsAllAwake) {
  rig.controller.cannot_park = {2};
  Pass(10 * kIdleAfter);
  EXPECT_TRUE(rig.controller.parked.empty());
  EXPECT_EQ(rig.cores[0].statistics().cannot_park, 2U);
}

TEST(UnknownRestTest, APacketInALinkThatIsSeenEndsTheRestAtTheNextLook) {
  UnknownRig at(UnknownRig::Settings(), {0, 2});
  at.Pass(2 * kIdleAfter);
  ASSERT_EQ(at.rig.controller.parked.size(), 3U);
  at.rig.monitor.packets[1] = 1;
  at.Pass(kLook);
  EXPECT_TRUE(at.rig.controller.parked.empty());
  at.Pass(10 * kIdleAfter);
  EXPECT_TRUE(at.rig.controller.parked.empty()) << "it is there still";
}

// Who wants packets never to wait for a wake-up has tasks that poll.
TEST(UnknownRestTest, WithoutMaxDelayNobodySleeps) {
  SchedulerSettings settings = UnknownRig::Settings();
  settings.max_delay = 0;
  UnknownRig at(settings, {0, 1, 2});
  at.Pass(10 * kIdleAfter);
  EXPECT_TRUE(at.rig.controller.parked.empty());
  EXPECT_EQ(at.rig.cores[0].statistics().cannot_park, 0U) << "of whom nobody sees the ingress";
}

// A longer delay than a word holds: it is renewed, and wakes nobody.
TEST(UnknownRestTest, ALongSleepIsRenewedInTime) {
  SchedulerSettings settings = UnknownRig::Settings();
  settings.max_delay = 2 * kMs;
  UnknownRig at(settings, {0, 1, 2});
  at.Pass(2 * kIdleAfter);
  ASSERT_EQ(at.rig.controller.parked.size(), 3U);
  const int before = at.rig.controller.renewed;
  at.rig.controller.unparked.clear();
  at.Pass(ProcessController::kRenewParkEvery + kLook);
  EXPECT_GT(at.rig.controller.renewed, before);
  EXPECT_TRUE(at.rig.controller.unparked.empty());
}

TEST(UnknownRestTest, TheSameAnswersGiveTheSameRests) {
  const auto run = [] {
    UnknownRig at(UnknownRig::Settings(), {0, 1, 2});
    std::vector<std::pair<Nanoseconds, std::size_t>> changes;  // of how many are parked
    for (std::uint32_t step = 0; step < 20'000; ++step) {
      if (step * 7919 % 2003 == 0) at.rig.controller.taken[step % 3] += 3;
      at.Pass(kT);
      const std::size_t parked = at.rig.controller.parked.size();
      if (changes.empty() || changes.back().second != parked)
        changes.emplace_back(at.rig.timer.now, parked);
    }
    return std::pair(changes, at.rig.controller.unparked);
  };
  const auto first = run();
  EXPECT_GE(first.first.size(), 5U);
  EXPECT_EQ(first, run());
}

TEST_F(UnknownInLineTest, OneIsAskedToYieldBeforeTheEgressThatIsSeenRunsOver) {
  Begins(1);
  Begins(2);
  EXPECT_TRUE(rig.controller.asked.empty());
  rig.monitor.packets[3] = kThetaMax;
  Begins(0);
  EXPECT_TRUE(rig.controller.asked.empty()) << "it is not the one before that link";
  Begins(2);
  EXPECT_EQ(rig.controller.asked, TaskList{2});
}

TEST_F(UnknownInLineTest, OneThatNoLongerPollsIsPreempted) {
  rig.TickAt(rig.timer.now + 60 * kT);
  rig.TickAt(kSlice + 150'000);
  EXPECT_TRUE(rig.controller.switches.empty()) << "turns in line are as long as their budget";
  rig.TickAt(kSlice + 260'001);
  EXPECT_EQ(rig.controller.switches, (Calls{{0, 0, 1}}));
}

// One that yields, and one that does not and of which nobody sees the ingress.
struct UnknownBesideLineTest : testing::Test {
  UnknownBesideLineTest() : rig({}, Apart(2), 1, WithUnknown({kPlenty, 0, 0, 0}, {2}), true) {
    rig.controller.in_line = {0};
    EXPECT_TRUE(rig.cores.Start());
  }
  Rig rig;
};

TEST_F(UnknownBesideLineTest, ItRunsBetweenTheTurnsAndIsSentBackInTime) {
  rig.controller.turn = {.task = 0, .begun = true};
  rig.TickAt(60 * kT);
  EXPECT_EQ(rig.controller.switches, (Calls{{0, 0, 1}}));
  for (Nanoseconds at = 61 * kT; at < 60 * kT + kBlindSlice - kT; at += kT) rig.TickAt(at);
  EXPECT_EQ(rig.controller.switches.size(), 1U);
  for (int i = 0; i < 4; ++i) rig.TickAt(60 * kT + kBlindSlice + i * kT);
  EXPECT_EQ(rig.controller.switches, (Calls{{0, 0, 1}, {0, 1, 0}}));
}

}  // namespace
}  // namespace unis
