// Threads that poll only rings inside their program, in the line of those that yield.
#include "engine/scheduler/ring_line.h"

#include <gtest/gtest.h>

#include <optional>
#include <utility>
#include <vector>

#include "engine/scheduler/line_search.h"
#include "engine/scheduler/paper_for_test.h"

namespace unis {
namespace {

using Calls = std::vector<SwitchCall>;
constexpr Nanoseconds kRingTurn = 20'000;
constexpr Nanoseconds kRingLook = 2'000;
constexpr TaskIndex kBefore = 0, kReceiver = 1, kWorker = 2, kSender = 3, kBehind = 4;

// A function before and one behind a program of three threads, of which one polls its ports.
CostedTasks Program() {
  CostedTasks tasks;
  tasks.Add(0, {{0, 1}}, kCost);
  tasks.Add(0, {{1, 2}}, kCost, 3);
  tasks.Add(0, {{2, 3}}, kCost);
  return tasks;
}

SchedulerSettings WithTurn(std::optional<Nanoseconds> turn) {
  SchedulerSettings settings;
  settings.ring_turn = turn;
  return settings;
}

struct RingLineTest : testing::Test {
  explicit RingLineTest(std::optional<Nanoseconds> turn = kRingTurn,
                        const std::vector<TaskIndex>& in_line = {kBefore, kBehind})
      : rig(WithTurn(turn), Program(), 1, Filled(std::vector<std::uint32_t>(4, kPlenty)), true) {
    rig.controller.in_line = in_line;
    rig.controller.among_rings = {kReceiver};
    rig.controller.poll_rings = {kWorker, kSender};
    rig.controller.turns.resize(5);
    EXPECT_TRUE(rig.cores.Start());
    rig.controller.switches.clear();
  }
  void After(Nanoseconds time) { rig.TickAt(now += time); }
  void Begins(TaskIndex task) {
    ++rig.controller.turns[task];
    rig.controller.turn = {.task = task, .begun = true};
    rig.controller.in_turns = {task};
    After(kRingLook);
  }
  void Ends() {
    rig.controller.in_turns.clear();
    After(kRingLook);
  }
  void ComesToWorker() {
    Begins(kReceiver);
    Ends();
    ASSERT_EQ(rig.Current(0), kWorker);
  }
  void ComesToSender() {
    ComesToWorker();
    After(kRingTurn);
    ASSERT_EQ(rig.Current(0), kSender);
    rig.controller.switches.clear();
  }
  void Sends() {
    rig.monitor.sent[2] += 32;
    After(kRingLook);
  }

  Rig rig;
  Nanoseconds now = 0;
};

// As one that a signal has stopped.
TEST_F(RingLineTest, IsLeftWhereATaskOfItNeverRuns) {
  ComesToSender();
  for (int i = 0; i < 5'000; ++i) After(kRingLook);
  EXPECT_FALSE(rig.controller.joins.back().first);
  EXPECT_LT(rig.controller.joins.size(), 50U) << "it was not made anew for ever";
}

TEST_F(RingLineTest, TheyJoinTheLineWhenTheFirstTaskRuns) {
  EXPECT_EQ(rig.controller.joins, (std::vector<std::pair<bool, TaskIndex>>{{true, kBefore}}));
}

TEST_F(RingLineTest, OneThatMovesNothingHasATurnOfFixedLengthInItsPlace) {
  ComesToWorker();
  After(kRingTurn - 1);
  EXPECT_TRUE(rig.controller.switches.empty());
  After(kRingLook);
  EXPECT_EQ(rig.controller.switches, (Calls{{0, kWorker, kSender}}));
  EXPECT_EQ(rig.Current(0), kSender);
  After(kRingTurn);
  EXPECT_EQ(rig.controller.switches.size(), 2U);
  EXPECT_EQ(rig.Current(0), kBehind) << "who begins next";
}

TEST_F(RingLineTest, OneThatMovesPacketsGoesOnUntilItMovesNone) {
  ComesToSender();
  After(kRingLook);
  for (int i = 0; i < 50; ++i) Sends();
  EXPECT_TRUE(rig.controller.switches.empty());
  After(kRingTurn / 4 - kRingLook);
  EXPECT_TRUE(rig.controller.switches.empty());
  After(kRingLook);
  EXPECT_EQ(rig.controller.switches, (Calls{{0, kSender, kBehind}}));
}

TEST_F(RingLineTest, ButNotForEver) {
  ComesToSender();
  for (int i = 0; i < 600; ++i) Sends();
  EXPECT_EQ(rig.controller.switches, (Calls{{0, kSender, kBehind}}));
}

TEST_F(RingLineTest, OneThatHasFilledItsEgressIsSentBack) {
  ComesToSender();
  After(kRingLook);
  Sends();
  rig.monitor.packets[2] = kThetaMax;
  Sends();
  EXPECT_EQ(rig.controller.switches, (Calls{{0, kSender, kBehind}}));
}

// Its turn goes on where it left off, and it is known to be at the front again.
TEST_F(RingLineTest, AReceiverThatWaitsForTheOthersIsSentBackInItsTurn) {
  Begins(kReceiver);
  After(kRingTurn);
  After(kRingLook);
  EXPECT_EQ(rig.controller.switches, (Calls{{0, kReceiver, kWorker}}));
  After(kRingTurn);
  After(kRingTurn);
  ASSERT_EQ(rig.controller.switches.size(), 3U) << "the worker and the sender";
  ++rig.controller.turns[kBehind];  // a turn that is over when it is seen
  After(kRingLook);
  EXPECT_EQ(rig.Current(0), kBehind);
  ++rig.controller.turns[kBefore];
  After(kRingLook);
  EXPECT_EQ(rig.Current(0), kReceiver);
}

TEST_F(RingLineTest, ATurnThatWasOverBeforeItWasSeenCounts) {
  ComesToSender();
  After(kRingTurn);
  for (const TaskIndex task : {kBehind, kBefore, kReceiver}) ++rig.controller.turns[task];
  After(kRingLook);
  EXPECT_EQ(rig.Current(0), kWorker) << "the next that does not yield";
}

TEST_F(RingLineTest, ALineThatIsNotAsBelievedIsMadeAnew) {
  ComesToSender();
  After(kRingTurn);
  ASSERT_EQ(rig.controller.joins.size(), 1U);
  After(150'000);
  EXPECT_EQ(rig.controller.joins.size(), 1U);
  After(60'000);
  EXPECT_EQ(rig.controller.joins.size(), 2U);
}

TEST_F(RingLineTest, EachTurnCountsOnce) {
  const std::uint64_t before = rig.cores[0].statistics().switches;
  ComesToSender();
  After(kRingTurn);
  Begins(kBehind);
  Begins(kBefore);
  EXPECT_EQ(rig.cores[0].statistics().switches - before, 5U);
  for (const TaskIndex task : {kReceiver, kWorker, kSender, kBehind, kBefore})
    EXPECT_EQ(rig.cores[0].SwitchedIn(task), 1U) << task;
}

TEST_F(RingLineTest, UntilTheNextOneBeginsNobodyIsBelievedToRunAgain) {
  ComesToSender();
  After(kRingTurn);
  ASSERT_EQ(rig.Current(0), kBehind);
  After(kRingLook);
  EXPECT_EQ(rig.Current(0), kBehind);
  EXPECT_EQ(rig.cores[0].SwitchedIn(kSender), 1U);
}

// The task behind does not yield, and always has work.
struct BesideOtherTest : RingLineTest {
  BesideOtherTest() : RingLineTest(kRingTurn, {kBefore}) {}
};

TEST_F(BesideOtherTest, ItRunsBetweenTheTurnsAndAllComeRound) {
  for (int round = 0; round < 3; ++round) {
    Begins(kBefore);
    EXPECT_EQ(rig.Current(0), kBehind);
    for (int i = 0; rig.Current(0) == kBehind && i < 1000; ++i) After(kRingLook);
    ASSERT_EQ(rig.Current(0), kBefore) << "its turn goes on";
    rig.controller.in_turns.clear();
    Begins(kReceiver);
    for (int i = 0; rig.Current(0) == kBehind && i < 1000; ++i) After(kRingLook);
    ASSERT_EQ(rig.Current(0), kReceiver);
    rig.controller.switches.clear();
    Ends();
    ASSERT_EQ(rig.Current(0), kWorker);
    After(kRingTurn - kRingLook);
    EXPECT_TRUE(rig.controller.switches.empty()) << "its turn begins now";
    After(kRingTurn);
    ASSERT_EQ(rig.Current(0), kSender);
    After(kRingTurn);
  }
}

// The receiver is interrupted in its turn, which goes on for as long as if it had begun then.
TEST_F(BesideOtherTest, ATurnDoesNotEndWhileAnotherHasTheCpu) {
  Begins(kReceiver);
  ASSERT_EQ(rig.Current(0), kBehind);
  for (int i = 0; rig.Current(0) == kBehind && i < 1000; ++i) After(kRingLook);
  ASSERT_EQ(rig.Current(0), kReceiver);
  rig.controller.switches.clear();
  After(kRingTurn - kRingLook);
  EXPECT_TRUE(rig.controller.switches.empty());
  After(2 * kRingLook);
  EXPECT_EQ(rig.controller.switches, (Calls{{0, kReceiver, kWorker}}));
}

// It was seen: such a line stood still for seconds.
TEST_F(RingLineTest, OneThatWasSentBackInItsTurnIsNotTheFrontOfALineThatIsMadeAnew) {
  Begins(kReceiver);
  After(kRingTurn);
  After(kRingLook);
  After(kRingTurn);
  After(kRingTurn);
  ASSERT_EQ(rig.controller.switches.size(), 3U) << "the receiver, the worker and the sender";
  After(kRingLook);
  After(210'000);
  ASSERT_EQ(rig.controller.joins.size(), 2U);
  After(kRingLook);
  EXPECT_NE(rig.Current(0), kReceiver) << "it waits behind two others";
  Begins(kBehind);
  EXPECT_EQ(rig.Current(0), kBehind);
}

struct NotInLineTest : RingLineTest {
  NotInLineTest() : RingLineTest(0) {}
};

TEST_F(NotInLineTest, TheyAreAThreadGroup) {
  Begins(kBefore);
  ASSERT_EQ(rig.Current(0), kReceiver) << "between the turns of the others";
  for (int i = 0; i < 1000; ++i) After(kT);
  EXPECT_TRUE(rig.controller.joins.empty());
}

TEST(RingsAloneTest, WhereNobodyYieldsThereIsNoLine) {
  CostedTasks tasks;
  tasks.Add(0, {{0, 1}}, kCost, 2);
  Rig rig(WithTurn(kRingTurn), tasks, 1, Filled({kPlenty, 0}), true);
  rig.controller.poll_rings = {0, 1};
  ASSERT_TRUE(rig.cores.Start());
  EXPECT_TRUE(rig.controller.joins.empty());
}

TEST_F(RingLineTest, TheTurnOfOneThatIsSparedEndsAtTheFirstLook) {
  FakeController& controller = rig.controller;
  CostedTasks tasks = Program();
  CoreTasks of_core(WithTurn(kRingTurn), tasks.set, 0, rig.costs, rig.monitor);
  RingLine line(of_core, controller);
  line.Find();
  EXPECT_EQ(line.threads(), 2U);
  controller.in_turns.clear();
  line.Join(kReceiver, kRingTurn, 1, now);
  ASSERT_EQ(line.Front(now), kWorker);
  EXPECT_TRUE(line.IsOver(now += kRingLook));
  line.SentBack(now);
  ASSERT_EQ(line.Front(now), kSender);
  EXPECT_FALSE(line.IsOver(now += kRingLook));
  EXPECT_TRUE(line.IsOver(now += kRingTurn));
}

struct SearchTest : RingLineTest {
  SearchTest() : RingLineTest(std::nullopt) {}
  // So many packets leave the core, in the line and without it.
  void Run(Nanoseconds time, std::uint16_t in_line, std::uint16_t in_group) {
    for (const Nanoseconds end = now + time; now < end;) {
      const auto& joins = rig.controller.joins;
      rig.monitor.sent[3] += !joins.empty() && joins.back().first ? in_line : in_group;
      rig.monitor.sent[1] += 100;  // which another function of the core drops
      if (now % 100'000 == 0) Begins(kBefore);
      After(kRingLook);
    }
  }
};

TEST_F(SearchTest, TheyJoinTheLineWhereMorePacketsLeaveTheCore) {
  EXPECT_TRUE(rig.controller.joins.empty());
  Run(1'500'000'000, 14, 10);
  ASSERT_TRUE(rig.costs.RingWay(1));
  EXPECT_NE(*rig.costs.RingWay(1), 0U);
  EXPECT_TRUE(rig.controller.joins.back().first);
}

// In the line nobody looks which thread took what. All of it has been sent since.
TEST_F(SearchTest, WhatMovedInTheLineIsNoWorkForThreads) {
  const auto& joins = rig.controller.joins;
  while (joins.empty() || !joins.back().first) Run(100'000, 14, 10);
  rig.monitor.received[1] += 20'000;
  while (joins.back().first) After(kRingLook);
  Begins(kBefore);
  ASSERT_EQ(rig.Current(0), kReceiver);
  rig.monitor.packets[1] = 0;
  for (int i = 0; i < 50; ++i) After(kRingLook);
  for (int i = 0; i < 3; ++i) {
    Begins(kBefore);
    EXPECT_EQ(rig.Current(0), kBefore) << "nothing is inside";
  }
}

TEST_F(SearchTest, TheyLeaveItWhereFewerDo) {
  Run(1'500'000'000, 10, 14);
  EXPECT_EQ(rig.costs.RingWay(1), 0U);
  ASSERT_GE(rig.controller.joins.size(), 2U);
  EXPECT_FALSE(rig.controller.joins.back().first);
}

}  // namespace
}  // namespace unis
