#include "engine/controller/handover_controller.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "engine/controller/scheduling_for_test.h"
#include "engine/controller/spinners_for_test.h"
#include "engine/controller/turn_takers_for_test.h"

namespace unis {
namespace {

using HandoverControllerTest = ControllerTest;
using TurnsTest = ControllerTest;
using Kind = TurnTakers::Kind;
using Kinds = std::vector<Kind>;

// Turns are long enough to be seen, and short enough to see many.
std::unique_ptr<HandoverController> Made(TurnTakers& takers, std::uint32_t budget = 20'000) {
  const auto tasks = takers.tasks();
  auto controller = HandoverController::Create(tasks).value();
  for (TaskIndex task = 0; task < tasks.size(); ++task) controller->SetBudget(task, budget);
  return controller;
}

TEST_F(HandoverControllerTest, TasksTakeTurnsByThemselves) {
  TurnTakers takers(Kinds(3, Kind::kTakesTurns));
  auto controller = Made(takers);
  ASSERT_TRUE(controller->Acquire().ok());
  ASSERT_TRUE(controller->Start(0, 1));
  std::vector<TaskIndex> order;
  EXPECT_TRUE(Eventually([&] {
    if (const auto turn = controller->CurrentTurn(0); turn && turn->begun)
      order.push_back(turn->task);
    return controller->TurnsOf(0) > 100 && controller->TurnsOf(1) > 100 &&
           controller->TurnsOf(2) > 100 && order.size() > 50;
  }));
  const auto [least, most] =
      std::minmax({controller->TurnsOf(0), controller->TurnsOf(1), controller->TurnsOf(2)});
  EXPECT_LE(most - least, 2u) << "they go round";
  for (TaskIndex task = 0; task < 3; ++task) EXPECT_TRUE(controller->SupportsYield(task));
}

// Of the last round, by when turns began; empty: the line moved meanwhile.
std::vector<TaskIndex> OrderOf(const HandoverController& controller, TaskIndex tasks) {
  std::vector<std::pair<std::uint64_t, TaskIndex>> turns;
  for (TaskIndex task = 0; task < tasks; ++task)
    turns.emplace_back(controller.LastTurns(task).last, task);
  std::ranges::sort(turns);
  std::vector<TaskIndex> order;
  for (const auto& [began, task] : turns) {
    order.push_back(task);
    if (began <= controller.LastTurns(turns.back().second).before) return {};
  }
  std::ranges::rotate(order, std::ranges::find(order, TaskIndex{0}));
  return order;
}

// Two rounds of the line.
bool GoesRound(HandoverController& controller) {
  const std::uint64_t began = controller.TurnsOf(0);
  return Eventually([&] {
    (void)controller.CurrentTurn(0);
    return controller.TurnsOf(0) >= began + 3;
  });
}

TEST_F(HandoverControllerTest, TheLineBeginsInTheOrderOfTheTasksAndIsPutBackIntoIt) {
  constexpr TaskIndex kTasks = 6;
  const std::vector<TaskIndex> in_order = {0, 1, 2, 3, 4, 5}, reverse = {0, 5, 4, 3, 2, 1};
  TurnTakers takers(Kinds(kTasks, Kind::kTakesTurns));
  const auto tasks = takers.tasks();
  auto controller = Made(takers);
  ASSERT_TRUE(controller->Acquire().ok());
  ASSERT_TRUE(controller->Start(0, 2));
  EXPECT_TRUE(Eventually([&] { return OrderOf(*controller, kTasks) == in_order; }));
  int tries = 0;
  for (int time = 0; time < 20; ++time) {
    // As wake-ups may leave it.
    ASSERT_TRUE(Eventually([&] {
      for (TaskIndex task = kTasks; task-- > 0;) {
        EXPECT_TRUE(tasks[task]->SetPriority(HandoverController::kWaiting));
        EXPECT_TRUE(tasks[task]->SetPriority(HandoverController::kInLine));
      }
      return GoesRound(*controller) && OrderOf(*controller, kTasks) == reverse;
    }));
    ASSERT_TRUE(Eventually([&] {
      if (const auto turn = controller->CurrentTurn(0)) tries += controller->PutInOrder(turn->task);
      return GoesRound(*controller) && OrderOf(*controller, kTasks) == in_order;
    }));
  }
  EXPECT_LT(tries, 60) << "where a turn ends meanwhile it is another order";
}

// As it is where nobody has work: a look finds no turn under way, and the line goes on all the
// same.
TEST_F(HandoverControllerTest, ATurnThatIsOverIsSeenToo) {
  TurnTakers takers({Kind::kDeaf, Kind::kDeaf});
  auto controller = Made(takers);
  ASSERT_TRUE(controller->Acquire().ok());
  ASSERT_TRUE(controller->Start(0, 0));
  const auto turns = Turns::Find(takers.pid(1)).value();
  unis_turn& turn = *turns->Of(takers.pid(1));
  EXPECT_FALSE(controller->CurrentTurn(0));
  turn.passed = turn.began = turn.began + 1;
  const auto seen = controller->CurrentTurn(0);
  ASSERT_TRUE(seen);
  EXPECT_EQ(seen->task, 1u);
  EXPECT_TRUE(seen->begun);
  EXPECT_FALSE(controller->CurrentTurn(0)) << "once";
}

TEST_F(HandoverControllerTest, OneThatDoesNotPassTheCpuOnIsPutAtTheEndOfTheLine) {
  TurnTakers takers({Kind::kTakesTurns, Kind::kDeaf, Kind::kTakesTurns});
  auto controller = Made(takers);
  ASSERT_TRUE(controller->Acquire().ok());
  ASSERT_TRUE(controller->Start(0, 1));
  ASSERT_TRUE(takers.Runs(1));
  EXPECT_TRUE(takers.KeepsRunningAlone(1));
  const std::uint64_t before = takers.Now()[2];
  ASSERT_TRUE(controller->Switch(0, 1, 2));
  EXPECT_TRUE(takers.Runs(0));
  EXPECT_GT(takers.Now()[2], before);
}

constexpr std::uint32_t kEndless = 4'000'000'000;

TEST_F(HandoverControllerTest, ABudgetHoldsForTheTurnThatIsUnderWay) {
  TurnTakers takers(Kinds(2, Kind::kTakesTurns));
  auto controller = Made(takers, kEndless);
  ASSERT_TRUE(controller->Acquire().ok());
  ASSERT_TRUE(controller->Start(0, 0));
  ASSERT_TRUE(takers.Runs(0));
  ASSERT_TRUE(takers.KeepsRunningAlone(0));
  controller->SetBudget(0, 20'000);
  EXPECT_TRUE(takers.Runs(1));
}

TEST_F(HandoverControllerTest, WhileAllSleepNobodyHasATurn) {
  TurnTakers takers(Kinds(2, Kind::kTakesTurns));
  auto controller = Made(takers, kEndless);
  ASSERT_TRUE(controller->Acquire().ok());
  ASSERT_TRUE(controller->Start(0, 0));
  ASSERT_TRUE(takers.Runs(0));
  EXPECT_TRUE(controller->AnyInTurn(0));
  for (const TaskIndex task : {0U, 1U}) {
    ASSERT_TRUE(controller->CanPark(task));
    controller->Park(task);
  }
  EXPECT_TRUE(Eventually([&] { return !controller->AnyInTurn(0); }));
  controller->Unpark(1);
  EXPECT_TRUE(Eventually([&] { return controller->AnyInTurn(0); }));
}

TEST_F(HandoverControllerTest, OfThreadsOfOneProcessTheLeastBudgetHolds) {
  for (const bool last : {false, true}) {
    TurnTakers takers(Kinds(2, Kind::kTakesTurns));
    auto tasks = takers.tasks();
    tasks.push_back(tasks[0]);
    auto controller = HandoverController::Create(tasks).value();
    controller->SetBudget(0, last ? kEndless : 20'000);
    controller->SetBudget(1, 20'000);
    controller->SetBudget(2, last ? 20'000 : kEndless);
    ASSERT_TRUE(controller->Acquire().ok());
    ASSERT_TRUE(controller->Start(0, 0));
    EXPECT_TRUE(takers.Runs(1)) << last;
  }
}

TEST_F(HandoverControllerTest, AnOrderToLeaveEndsATurnBeforeItsBudget) {
  TurnTakers takers(Kinds(2, Kind::kTakesTurns));
  auto controller = Made(takers, 0xffff'ffff);
  ASSERT_TRUE(controller->Acquire().ok());
  ASSERT_TRUE(controller->Start(0, 0));
  ASSERT_TRUE(takers.Runs(0));
  ASSERT_TRUE(takers.KeepsRunningAlone(0));
  (void)controller->CurrentTurn(0);
  controller->RequestYield(0);
  EXPECT_TRUE(takers.Runs(1));
}

TEST_F(HandoverControllerTest, WhatIsGrantedIsTakenOnce) {
  TurnTakers takers(Kinds(2, Kind::kTakesTurns));
  auto controller = Made(takers, kEndless);
  ASSERT_TRUE(controller->Acquire().ok());
  ASSERT_TRUE(controller->Start(0, 0));
  ASSERT_TRUE(takers.KeepsRunningAlone(0));
  const auto turns = Turns::Find(takers.pid(0)).value();
  const unis_turn* const turn = turns->Of(takers.pid(0));
  for (int i = 0; i < 3; ++i) {
    const std::uint32_t before = turn->grant;
    controller->Grant(0, 100'000);
    EXPECT_NE(turn->grant, before) << "else it would not be seen";
    EXPECT_EQ(turn->grant & UNIS_GRANT_MOST, 100'000u);
  }
  EXPECT_TRUE(takers.Runs(1)) << "it passes the CPU on when that is taken";
  controller->Grant(0, 0xffff'ffff);
  EXPECT_EQ(turn->grant & UNIS_GRANT_MOST, UNIS_GRANT_MOST);
  for (std::uint32_t i = 0; i < 2 * UNIS_GRANTS; ++i) {
    controller->Grant(0, 0);
    ASSERT_NE(turn->grant, 0u) << "that would be any number";
  }
  ASSERT_TRUE(controller->Release().ok());
  EXPECT_EQ(turn->grant, 0u);
}

TEST_F(HandoverControllerTest, OneWithoutThePluginRunsOnlyWhenItIsSwitchedTo) {
  TurnTakers takers({Kind::kTakesTurns, Kind::kNoPlugin, Kind::kTakesTurns});
  auto controller = Made(takers);
  ASSERT_TRUE(controller->Acquire().ok());
  ASSERT_TRUE(controller->Start(0, 0));
  EXPECT_FALSE(controller->SupportsYield(1));
  EXPECT_TRUE(takers.Runs(2));
  const std::uint64_t still = takers.Now()[1];
  EXPECT_TRUE(takers.KeepsRunning(0));
  EXPECT_TRUE(takers.KeepsRunning(2));
  EXPECT_EQ(takers.Now()[1], still);
  ASSERT_TRUE(controller->Switch(0, 0, 1));
  EXPECT_TRUE(takers.Runs(1));
  EXPECT_TRUE(takers.KeepsRunningAlone(1));
  ASSERT_TRUE(controller->Switch(0, 1, 0));
  EXPECT_TRUE(takers.Runs(0));
  EXPECT_TRUE(takers.Runs(2));
}

// Tasks 0 and 1 take turns. Task 2 is a thread of task 1's program, and polls only rings.
TEST_F(HandoverControllerTest, AThreadThatPollsRingsIsInLineWhileItIsLet) {
  TurnTakers takers({Kind::kTakesTurns, Kind::kHasRings});
  auto controller = Made(takers);
  ASSERT_TRUE(controller->Acquire().ok());
  ASSERT_TRUE(controller->Start(0, 0));
  EXPECT_TRUE(controller->PollsRings(2));
  EXPECT_FALSE(controller->PollsRings(1));
  EXPECT_FALSE(controller->SupportsYield(1)) << "because of the other";
  EXPECT_TRUE(takers.KeepsRunningAlone(0));

  controller->LetRingsJoin(true, 0);
  EXPECT_TRUE(controller->SupportsYield(1));
  EXPECT_FALSE(controller->SupportsYield(2));
  for (int round = 0; round < 3; ++round) {
    ASSERT_TRUE(takers.Runs(2)) << "after the turn of task 1";
    EXPECT_TRUE(takers.KeepsRunningAlone(2));
    const auto before = takers.Now();
    ASSERT_TRUE(controller->Switch(0, 2, 0));
    EXPECT_TRUE(Eventually([&] {
      const auto now = takers.Now();
      return now[0] > before[0] && now[1] > before[1];
    })) << "a turn each";
  }

  controller->LetRingsJoin(false, 2);
  EXPECT_TRUE(takers.KeepsRunningAlone(0));
  EXPECT_FALSE(controller->SupportsYield(1));
}

TEST_F(HandoverControllerTest, AThreadThatPollsAPortLateYieldsFromThenOn) {
  TurnTakers takers({Kind::kTakesTurns, Kind::kHasRings});
  auto controller = Made(takers);
  ASSERT_TRUE(controller->Acquire().ok());
  ASSERT_TRUE(controller->Start(0, 0));
  controller->LetRingsJoin(true, 0);
  EXPECT_TRUE(controller->PollsRings(2));
  ASSERT_TRUE(takers.Polls(2));
  controller->LetRingsJoin(true, 2);
  EXPECT_FALSE(controller->PollsRings(2));
  EXPECT_TRUE(controller->SupportsYield(2));
}

TEST_F(HandoverControllerTest, WhereAllAreOfSuchAProgramOneGoesOnWhenTheyLeaveTheLine) {
  TurnTakers takers({Kind::kHasRings});
  auto controller = Made(takers);
  ASSERT_TRUE(controller->Acquire().ok());
  ASSERT_TRUE(controller->Start(0, 0));
  EXPECT_TRUE(takers.KeepsRunningAlone(0)) << "it does not yield";
  controller->LetRingsJoin(true, 0);
  ASSERT_TRUE(takers.Runs(1));
  controller->LetRingsJoin(false, 1);
  EXPECT_TRUE(takers.KeepsRunningAlone(1));
  ASSERT_TRUE(controller->Switch(0, 1, 0));
  EXPECT_TRUE(takers.KeepsRunningAlone(0));
}

// Several that have to be switched to: they climb, and come down with the line.
TEST_F(HandoverControllerTest, TheLadderAboveTheLineStaysBelowTheKernelsInterruptThreads) {
  TurnTakers takers({Kind::kTakesTurns, Kind::kNoPlugin, Kind::kNoPlugin});
  auto controller = Made(takers);
  ASSERT_TRUE(controller->Acquire().ok());
  ASSERT_TRUE(controller->Start(0, 0));
  ASSERT_TRUE(controller->Switch(0, 0, 1));
  for (TaskIndex i = 0; i < 2 * HandoverController::kTop; ++i) {
    ASSERT_TRUE(controller->Switch(0, 1 + i % 2, 2 - i % 2));
    const SchedulingClass next = takers.thread(2 - i % 2).Class().value();
    ASSERT_LT(takers.thread(1 + i % 2).Class()->priority, next.priority) << i;
    ASSERT_LE(next.priority, HandoverController::kTop) << i;
  }
  ASSERT_TRUE(controller->Switch(0, 1, 0));
  for (const std::size_t i : {1U, 2U})
    EXPECT_EQ(takers.thread(i).Class()->priority, HandoverController::kWaiting);
  EXPECT_TRUE(takers.Runs(0));
}

TEST_F(HandoverControllerTest, ReleasePutsAllBackAndTheyPassNothingOn) {
  TurnTakers takers({Kind::kTakesTurns, Kind::kNoPlugin});
  const std::vector<std::string> before{SchedulingOf(takers.pid(0)), SchedulingOf(takers.pid(1))};
  auto controller = Made(takers);
  ASSERT_TRUE(controller->Acquire().ok());
  EXPECT_FALSE(controller->Acquire().ok());
  ASSERT_TRUE(controller->Start(0, 0));
  EXPECT_NE(SchedulingOf(takers.pid(0)), before[0]);
  ASSERT_TRUE(controller->Release().ok());
  for (const std::size_t i : {0U, 1U}) EXPECT_EQ(SchedulingOf(takers.pid(i)), before[i]);
  const auto turns = Turns::Find(takers.pid(0)).value();
  const auto began = [&] {
    return __atomic_load_n(&turns->Of(takers.pid(0))->began, __ATOMIC_ACQUIRE);
  };
  ASSERT_TRUE(takers.KeepsRunning(0)) << "past a turn that was under way";
  const std::uint32_t last = began();
  ASSERT_TRUE(takers.KeepsRunning(0));
  EXPECT_EQ(began(), last);
}

TEST_F(HandoverControllerTest, AnErrorWhereNobodyHasThePlugin) {
  TurnTakers takers(Kinds(2, Kind::kNoPlugin));
  const auto made = HandoverController::Create(takers.tasks());
  EXPECT_EQ(made.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(made.status().message().find("plug-in"), std::string::npos) << made.status();
}

// What the file says is the program's to write: it misleads nobody but about whose turn it is.
TEST_F(HandoverControllerTest, AnyNumbersInTheFileAreBorne) {
  TurnTakers takers({Kind::kTakesTurns, Kind::kDeaf});
  auto controller = Made(takers);
  ASSERT_TRUE(controller->Acquire().ok());
  ASSERT_TRUE(controller->Start(0, 0));
  const auto turns = Turns::Find(takers.pid(1)).value();
  unis_turn* const turn = turns->Of(takers.pid(1));
  std::uint32_t number = 1;
  for (int i = 0; i < 20'000; ++i) {
    number = number * 1664525 + 1013904223;
    __atomic_store_n(&turn->began, number, __ATOMIC_RELEASE);
    if (i % 3 == 0) __atomic_store_n(&turn->passed, number, __ATOMIC_RELEASE);
    __atomic_store_n(&turn->leave, number, __ATOMIC_RELEASE);
    if (i % 7 == 0) __atomic_store_n(&turn->tid, static_cast<int>(number), __ATOMIC_RELEASE);
    (void)controller->CurrentTurn(0);
    controller->RequestYield(1);
  }
  EXPECT_LE(controller->TurnsOf(1), 20'000ull * 1'000'000);
  const auto honest = controller->TurnsOf(0);
  // Task 0 may still be in the turn that is counted already.
  EXPECT_TRUE(Eventually([&] {
    EXPECT_TRUE(controller->Switch(0, 1, 0));
    (void)controller->CurrentTurn(0);
    return controller->TurnsOf(0) > honest;
  })) << "the other still gets turns";
}

TEST_F(TurnsTest, AFileThatMayShrinkOrIsOfAnotherVersionIsNotUsed) {
  EXPECT_EQ(Turns::Find(getpid()).status().code(), absl::StatusCode::kNotFound);
  const ChildProcess unsealed([] {
    MakeTurnsFile(UNIS_TURNS_VERSION, false);
    pause();
  });
  const ChildProcess newer([] {
    MakeTurnsFile(UNIS_TURNS_VERSION + 1);
    pause();
  });
  EXPECT_TRUE(Eventually([&] {
    return Turns::Find(newer.pid()).status().code() == absl::StatusCode::kFailedPrecondition;
  }));
  EXPECT_EQ(Turns::Find(unsealed.pid()).status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace unis
