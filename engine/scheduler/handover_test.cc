// What the scheduler does where tasks pass the CPU on by themselves.
#include <gtest/gtest.h>

#include <vector>

#include "engine/scheduler/paper_for_test.h"

namespace unis {
namespace {

using Calls = std::vector<SwitchCall>;

// Task 0 has its turn; those of `in_line` yield.
struct HandoverTest : testing::Test {
  HandoverTest(const CostedTasks& tasks, std::vector<TaskIndex> in_line, std::size_t links,
               CoreIndex cores = 1)
      : rig({}, tasks, cores, Links(links), true) {
    rig.controller.in_line = std::move(in_line);
    rig.observer.wanted = false;
    EXPECT_TRUE(rig.cores.Start());
  }
  // Task `task` is seen to have begun a turn.
  void Begins(TaskIndex task, Nanoseconds at) {
    rig.controller.turn = {.task = task, .begun = true};
    rig.TickAt(at);
  }
  Rig rig;
};

struct LineTest : HandoverTest {
  LineTest() : HandoverTest(Apart(3), {0, 1, 2}, 6) {}
};

TEST_F(LineTest, FollowsTheTurnsAndSwitchesNobody) {
  for (TaskIndex i = 1; i <= 6; ++i) {
    Begins(i % 3, i * 60 * kT);
    EXPECT_EQ(rig.Current(0), i % 3);
  }
  EXPECT_TRUE(rig.controller.switches.empty());
}

TEST_F(LineTest, ATaskWithoutWorkIsLeftInItsTurn) {
  rig.monitor.packets.assign(6, 0);
  rig.TickAt(kSlice / 2);
  EXPECT_TRUE(rig.controller.switches.empty());
  EXPECT_TRUE(rig.controller.asked.empty());
}

TEST_F(LineTest, OneThatNoLongerPollsIsPreempted) {
  rig.TickAt(kSlice + 150'000);
  EXPECT_TRUE(rig.controller.switches.empty()) << "its cost may be wrong";
  rig.TickAt(kSlice + 200'001);
  EXPECT_EQ(rig.controller.switches, (Calls{{0, 0, 1}}));
  EXPECT_EQ(rig.Current(0), 1u);
}

TEST_F(LineTest, AnotherTurnOfTheSameTaskBeginsAnew) {
  Begins(0, kSlice);
  rig.TickAt(2 * kSlice + 170'000);
  EXPECT_TRUE(rig.controller.switches.empty());
  rig.TickAt(2 * kSlice + 230'000);
  EXPECT_EQ(rig.controller.switches.size(), 1u);
}

TEST_F(LineTest, AsksOneWhoseEgressIsFull) {
  rig.monitor.packets[1] = kThetaMax - 1;
  rig.TickAt(kT);
  EXPECT_TRUE(rig.controller.asked.empty());
  rig.monitor.packets[1] = kThetaMax;
  rig.TickAt(100 * kT);
  EXPECT_EQ(rig.controller.asked, (std::vector<TaskIndex>{0}));
  EXPECT_TRUE(rig.controller.switches.empty());
}

TEST_F(LineTest, OneWithNothingToLoseIsNotAsked) {
  rig.monitor.packets[0] = 0;
  rig.monitor.packets[1] = kCapacity;
  rig.TickAt(kT);
  EXPECT_TRUE(rig.controller.asked.empty());
}

TEST_F(LineTest, AFullEgressWithoutPacketsInFrontIsNotLookedAtEachTick) {
  rig.monitor.packets[0] = 0;
  rig.monitor.packets[1] = kCapacity;
  rig.TickAt(kT);
  const int looks = rig.controller.looks;
  for (int i = 2; i < 100; ++i) rig.TickAt(i * kT);
  EXPECT_LE(rig.controller.looks - looks, 3);
}

// A look costs the tasks a cache line each.
TEST_F(LineTest, AnEgressThatWasNotFullIsLookedAtSeldom) {
  rig.monitor.packets[1] = kThetaMax - 1;
  rig.TickAt(kT);
  const int looks = rig.controller.looks;
  rig.TickAt(50 * kT);
  EXPECT_EQ(rig.controller.looks, looks);
  rig.monitor.packets[1] = kThetaMax;  // it is asked to leave; nothing is lost yet
  rig.TickAt(51 * kT);
  rig.TickAt(100 * kT);
  EXPECT_EQ(rig.controller.looks, looks + 1);
  EXPECT_EQ(rig.controller.asked, (std::vector<TaskIndex>{0}));
}

TEST_F(LineTest, WhoFillsAFullEgressIsAskedAgainSoon) {
  rig.monitor.packets[1] = kCapacity - 31;
  for (int i = 1; i <= 10; ++i) rig.TickAt(i * kT);
  EXPECT_EQ(rig.controller.asked, (std::vector<TaskIndex>{0, 0}));
}

struct AloneTest : HandoverTest {
  AloneTest() : HandoverTest(Apart(1), {0}, 2) {}
};

TEST_F(AloneTest, ItIsNotAskedToPassTheCpuOnToItself) {
  rig.monitor.packets[1] = kCapacity;
  for (int i = 1; i <= 100; ++i) rig.TickAt(i * kT);
  EXPECT_TRUE(rig.controller.asked.empty());
  EXPECT_LE(rig.controller.looks, 3);
}

// Whoever runs: nobody sees at once that who fills it has begun another turn.
TEST_F(LineTest, AnEgressThatWasFullIsWatchedForAWhile) {
  rig.monitor.packets[1] = kCapacity;
  rig.TickAt(kT);
  rig.monitor.packets[1] = 0;
  Begins(1, 6 * kT);
  const int looks = rig.controller.looks;
  for (int i = 7; i <= 106; ++i) rig.TickAt(i * kT);
  EXPECT_EQ(rig.controller.looks, looks + 20);
  Begins(1, 6'000 * kT);  // long after
  const int later = rig.controller.looks;
  for (int i = 6'001; i <= 6'049; ++i) rig.TickAt(i * kT);
  EXPECT_EQ(rig.controller.looks, later);
}

// 0 and 1 hand their packets to 2, each by a link of its own.
struct MergeTest : HandoverTest {
  MergeTest() : HandoverTest(Merging(), {0, 1, 2}, 5) {}
  static CostedTasks Merging() {
    CostedTasks made = std::vector<OnePath>{{0, 0, 1, kCost}, {0, 2, 3, kCost}};
    made.Add(0, {{1, 4}, {3, 4}}, kCost);
    return made;
  }
  std::uint32_t BudgetOf(TaskIndex task) const { return rig.controller.budgets[task]; }
  std::uint32_t Granted(TaskIndex task) const { return rig.controller.granted.at(task); }
};

TEST_F(MergeTest, OneThatReadsSeveralLinksMayTakeWhatAllOfThemHold) {
  EXPECT_EQ(BudgetOf(0), kThetaMax);
  EXPECT_EQ(BudgetOf(2), kThetaMax) << "what fits into its egress";
}

TEST_F(MergeTest, NoMoreIsTakenThanThereIsRoom) {
  rig.monitor.packets.assign(5, 0);
  rig.monitor.packets[3] = kCapacity - 1000;
  Begins(2, 60 * kT);
  EXPECT_EQ(Granted(1), 1000 - 2 * kBatch);
  EXPECT_EQ(Granted(0), kCapacity - 2 * kBatch);
  rig.monitor.packets[3] = kCapacity - kThetaMax / 2;
  Begins(0, 120 * kT);
  EXPECT_EQ(Granted(1), 0u) << "half a turn is worth waiting for";
  rig.monitor.packets[3] = kBatch - 8;
  Begins(2, 180 * kT);
  EXPECT_EQ(Granted(1), kCapacity - (kBatch - 8) - 2 * kBatch);
  EXPECT_EQ(BudgetOf(1), kThetaMax) << "turns are as long as ever";
}

// Only task 0 has work, so no turn of another task is seen. It gets new grants all the same.
TEST_F(MergeTest, OneThatIsAloneWithItsWorkGoesOn) {
  rig.monitor.packets.assign(5, 0);
  rig.monitor.packets[1] = kCapacity;
  Begins(0, 60 * kT);
  EXPECT_EQ(Granted(0), 0u);
  rig.monitor.packets[1] = 0;
  for (int i = 61; i <= 200; ++i) rig.TickAt(i * kT);
  EXPECT_GT(Granted(0), kThetaMax);
}

// Task 0 serves two chains. The function behind it in the second chain is dead.
struct ApartTest : HandoverTest {
  ApartTest() : HandoverTest(Two(), {0, 1}, 6) {}
  static CostedTasks Two() {
    CostedTasks made;
    made.Add(0, {{0, 1}, {2, 3}}, kCost);
    made.Add(0, {{1, 4}}, kCost);
    return made;
  }
};

TEST_F(ApartTest, AFullLinkStopsOnlyThoseWhoseEgressItIs) {
  rig.monitor.packets.assign(6, 0);
  rig.monitor.packets[3] = kCapacity;
  rig.monitor.packets[0] = 100;
  Begins(1, 60 * kT);
  EXPECT_EQ(rig.controller.granted.at(0), kCapacity - 2 * kBatch);
  rig.monitor.packets[2] = 1;
  Begins(0, 120 * kT);
  EXPECT_EQ(rig.controller.granted.at(0), 0u);
}

TEST_F(LineTest, WhereNothingMergesAnyNumberIsTaken) {
  rig.monitor.packets[3] = kCapacity;
  Begins(2, 60 * kT);
  EXPECT_TRUE(rig.controller.granted.empty());
}

// 0 and 1 pass packets to each other.
struct CircleTest : HandoverTest {
  CircleTest() : HandoverTest(Circle(), {0, 1}, 6) {}
  static CostedTasks Circle() {
    CostedTasks made;
    made.Add(0, {{0, 1}, {2, 3}}, kCost);
    made.Add(0, {{1, 4}, {5, 2}}, kCost);
    return made;
  }
};

TEST_F(CircleTest, TasksThatMayWaitForEachOtherAlwaysTakeABurst) {
  rig.monitor.packets.assign(6, 0);
  rig.monitor.packets = {kCapacity, kCapacity, kCapacity, 0, 0, kCapacity};
  Begins(1, 60 * kT);
  EXPECT_EQ(rig.controller.granted.at(0), kBatch);
  EXPECT_EQ(rig.controller.granted.at(1), kBatch);
}

// Task 0 hands its packets to a task of another core, which Algorithm 1 runs.
struct TwoCoresTest : HandoverTest {
  TwoCoresTest()
      : HandoverTest(std::vector<OnePath>{{0, 0, 1, kCost}, {0, 2, 3, kCost}, {1, 1, 4, kCost}},
                     {0, 1}, 5, 2) {}
};

TEST_F(TwoCoresTest, AnEgressThatAnotherCoreReadsIsLookedAtBeforeItCanBeFull) {
  rig.monitor.packets[1] = kThetaMax - 400;  // 400 packets of 100 ns, a quarter of that: 10 µs
  rig.TickAt(10 * kT);
  const int looks = rig.controller.looks;
  rig.monitor.packets[1] = kThetaMax;
  rig.TickAt(19 * kT);
  EXPECT_EQ(rig.controller.looks, looks);
  rig.TickAt(20 * kT);
  EXPECT_EQ(rig.controller.looks, looks + 1);
  EXPECT_EQ(rig.controller.asked, (std::vector<TaskIndex>{0}));
}

TEST_F(TwoCoresTest, ItIsNotLookedAtMoreOftenThanOneThatWasFull) {
  rig.monitor.packets[1] = kThetaMax - 1;
  for (int i = 1; i <= 50; ++i) rig.TickAt(i * kT);
  EXPECT_LE(rig.controller.looks, 11);
  rig.monitor.packets[0] = 0;  // nothing can fill it
  rig.TickAt(51 * kT);
  const int looks = rig.controller.looks;
  for (int i = 52; i <= 100; ++i) rig.TickAt(i * kT);
  EXPECT_EQ(rig.controller.looks, looks);
}

TEST_F(TwoCoresTest, OneWhosePacketsNobodyElseTakesIsLookedAtSeldom) {
  rig.monitor.packets[3] = kThetaMax - 40;
  Begins(1, 10 * kT);
  rig.TickAt(60 * kT);  // what is seen as its turn now
  const int looks = rig.controller.looks;
  for (int i = 61; i < 110; ++i) rig.TickAt(i * kT);
  EXPECT_EQ(rig.controller.looks, looks);
}

TEST_F(LineTest, WhileATraceIsTakenEachTickLooks) {
  rig.observer.wanted = true;
  rig.monitor.packets[1] = 0;
  rig.TickAt(10 * kT);
  const int looks = rig.controller.looks;
  rig.TickAt(11 * kT);
  EXPECT_EQ(rig.controller.looks, looks + 1);
}

TEST_F(LineTest, TurnsCountAsSwitchesAlsoThoseThatNoLookSaw) {
  rig.controller.turns = {10, 20, 30};
  Begins(1, kT);
  EXPECT_EQ(rig.Switches(), 60u);
  EXPECT_EQ(rig.cores[0].SwitchedIn(1), 20u);
}

// Task 1 cannot pass the CPU on.
struct MixedTest : HandoverTest {
  MixedTest() : HandoverTest(Apart(3), {0, 2}, 6) {}
};

TEST_F(MixedTest, ItRunsBetweenTwoTurns) {
  rig.TickAt(kT);
  EXPECT_TRUE(rig.controller.switches.empty()) << "in the middle of a turn";
  Begins(2, 2 * kT);
  EXPECT_EQ(rig.controller.switches, (Calls{{0, 2, 1}}));
  EXPECT_EQ(rig.Current(0), 1u);
}

TEST_F(MixedTest, ItIsNotRunWithoutWork) {
  rig.monitor.packets[2] = kThetaMin;
  Begins(2, 2 * kT);
  EXPECT_TRUE(rig.controller.switches.empty());
}

TEST_F(MixedTest, ItIsLeftAsAlgorithmOneSays) {
  Begins(2, kT);
  rig.TickAt(3 * kT);
  EXPECT_EQ(rig.Current(0), 1u);
  rig.monitor.packets[2] = kThetaMin;
  rig.TickAt(4 * kT);
  EXPECT_EQ(rig.controller.switches.back(), (SwitchCall{0, 1, 2})) << "whose turn goes on";
  EXPECT_TRUE(rig.controller.asked.empty());
}

TEST_F(MixedTest, TheLineGoesOnWithWhomeverIsSeen) {
  Begins(2, kT);
  rig.monitor.packets[2] = 0;
  rig.TickAt(4 * kT);
  ASSERT_EQ(rig.Current(0), 2u);
  rig.controller.turn = {.task = 0, .begun = false};
  rig.TickAt(6 * kT);
  EXPECT_EQ(rig.Current(0), 0u);
}

TEST_F(MixedTest, TheLineHasATurnBeforeItRunsAgain) {
  Begins(2, kT);
  ASSERT_EQ(rig.Current(0), 1u);
  rig.TickAt(kSlice + 2 * kT);
  ASSERT_NE(rig.Current(0), 1u);
  const auto switches = rig.controller.switches.size();
  rig.controller.turn = {.task = 2, .begun = false};
  rig.TickAt(kSlice + 3 * kT);
  EXPECT_EQ(rig.controller.switches.size(), switches) << "its turn was only interrupted";
  Begins(0, kSlice + 30 * kT);
  EXPECT_EQ(rig.Current(0), 1u);
}

// Task 0 alone hands the CPU over.
struct OneInLineTest : HandoverTest {
  OneInLineTest() : HandoverTest(Apart(3), {0}, 6) {}
};

TEST_F(OneInLineTest, DoesNotKeepTheCpuFromTheOthersIfItNoLongerPolls) {
  rig.TickAt(kSlice + 200'001);
  EXPECT_EQ(rig.controller.switches, (Calls{{0, 0, 1}}));
}

TEST_F(OneInLineTest, ComesBackThoughTheOthersAlwaysHaveWork) {
  Begins(0, kT);
  ASSERT_EQ(rig.Current(0), 1u);
  for (int i = 1; i <= 2; ++i) rig.TickAt(2 * kT + i * (kSlice + kT));
  EXPECT_EQ(rig.controller.switches, (Calls{{0, 0, 1}, {0, 1, 2}, {0, 2, 0}}));
}

// As a testpmd before a program of several threads that cannot take more.
TEST_F(OneInLineTest, TheOthersDoNotWaitForItWhileItHasNoWork) {
  rig.monitor.packets[1] = kCapacity;
  Begins(0, kT);
  for (int i = 1; i <= 4; ++i) rig.TickAt(2 * kT + i * (kSlice + kT));
  EXPECT_EQ(rig.controller.switches,
            (Calls{{0, 0, 1}, {0, 1, 2}, {0, 2, 1}, {0, 1, 2}, {0, 2, 1}}));
  rig.monitor.packets[1] = 0;
  for (int i = 6; i <= 7; ++i) rig.TickAt(2 * kT + i * (kSlice + kT));
  EXPECT_EQ(rig.Current(0), 0U) << "in its order";
}

struct NobodySupportsYieldTest : HandoverTest {
  NobodySupportsYieldTest() : HandoverTest(Apart(3), {}, 6) {}
};

TEST_F(NobodySupportsYieldTest, AlgorithmOneDecides) {
  for (int i = 1; i <= 3; ++i) rig.TickAt(i * (kSlice + kT));
  EXPECT_EQ(rig.controller.switches, (Calls{{0, 0, 1}, {0, 1, 2}, {0, 2, 0}}));
}

TEST_F(NobodySupportsYieldTest, WorkThatComesToAnIdleCoreIsSeenAtTheNextTick) {
  rig.monitor.packets.assign(6, 0);
  rig.TickAt(kT);
  rig.TickAt(2 * kT);
  EXPECT_TRUE(rig.controller.switches.empty());
  rig.monitor.packets[2] = kPlenty;
  rig.TickAt(3 * kT);
  EXPECT_EQ(rig.controller.switches, (Calls{{0, 0, 1}}));
}

}  // namespace
}  // namespace unis
