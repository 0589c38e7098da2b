#include "engine/controller/parker.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/controller/priority_controller.h"
#include "engine/controller/scheduling_for_test.h"
#include "engine/controller/spinners_for_test.h"
#include "engine/controller/turn_takers_for_test.h"

namespace unis {
namespace {

using ParkerTest = ControllerTest;
using Kind = TurnTakers::Kind;
using Kinds = std::vector<Kind>;

bool Sleep(const TurnTakers& takers, std::size_t i) {
  return Eventually([&] { return takers.thread(i).sleeps(); });
}

// By a Parker or a controller.
template <typename Parks>
void Park(Parks& by, const std::vector<TaskIndex>& tasks) {
  for (const TaskIndex task : tasks) {
    ASSERT_TRUE(by.CanPark(task));
    by.Park(task);
  }
}

TEST_F(ParkerTest, AParkedTaskSleepsUntilItIsUnparked) {
  TurnTakers takers(Kinds(3, Kind::kTakesTurns));
  Parker parker(takers.tasks());
  Park(parker, {0, 2});
  EXPECT_TRUE(Sleep(takers, 0));
  EXPECT_TRUE(Sleep(takers, 2));
  EXPECT_TRUE(takers.Runs(1));
  parker.Unpark(2);
  EXPECT_TRUE(takers.Runs(2));
  EXPECT_TRUE(takers.thread(0).sleeps());
  parker.Unpark(0);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_TRUE(takers.Runs(i)) << i;
}

TEST_F(ParkerTest, ATaskWithoutThePluginCannotBeParked) {
  for (const bool has_plugin : {false, true}) {
    TurnTakers takers({Kind::kTakesTurns, has_plugin ? Kind::kTakesTurns : Kind::kNoPlugin});
    Parker parker(takers.tasks());
    EXPECT_TRUE(parker.CanPark(0));
    EXPECT_EQ(parker.CanPark(1), has_plugin);
    EXPECT_EQ(parker.turns(1) != nullptr, has_plugin);
    EXPECT_EQ(parker.why_not().ok(), has_plugin);
  }
}

TEST_F(ParkerTest, ATaskThatIsToStayAwakeCannotBeParked) {
  TurnTakers takers(Kinds(2, Kind::kTakesTurns));
  Parker parker(takers.tasks());
  parker.Never(1);
  EXPECT_TRUE(parker.CanPark(0));
  EXPECT_FALSE(parker.CanPark(1));
  EXPECT_NE(parker.turns(1), nullptr) << "it hands the CPU over all the same";
}

TEST_F(ParkerTest, ParkingAgainChangesTheWord) {
  TurnTakers takers({Kind::kTakesTurns});
  Parker parker(takers.tasks());
  const auto turns = Turns::Find(takers.pid(0)).value();
  const unis_turn& turn = *turns->Of(takers.pid(0));
  std::uint32_t before = 0;
  for (int i = 0; i < 3; ++i) {
    Park(parker, {0});
    EXPECT_NE(turn.rest, before);
    EXPECT_NE(turn.rest, 0U);
    before = turn.rest;
  }
  parker.Unpark(0);
  EXPECT_EQ(turn.rest, 0U);
  parker.Park(0);
  EXPECT_NE(turn.rest, before) << "a word that was not renewed holds no longer";
}

TEST_F(ParkerTest, NoTaskStaysParkedWhenTheParkerIsGone) {
  TurnTakers takers(Kinds(2, Kind::kTakesTurns));
  {
    Parker parker(takers.tasks());
    Park(parker, {0, 1});
    ASSERT_TRUE(Sleep(takers, 0));
  }
  for (std::size_t i = 0; i < 2; ++i) EXPECT_TRUE(takers.Runs(i)) << i;
}

// No task runs while all are parked, and afterwards the one that was switched to.
TEST_F(ParkerTest, UnderPrioritiesTheTaskThatWasSwitchedToRunsFirst) {
  TurnTakers takers(Kinds(3, Kind::kTakesTurns));
  PriorityController controller(takers.tasks());
  ASSERT_TRUE(controller.Acquire().ok());
  ASSERT_TRUE(controller.Start(0, 0));
  ASSERT_TRUE(takers.Runs(0));
  Park(controller, {0, 1, 2});
  for (std::size_t i = 0; i < 3; ++i) EXPECT_TRUE(Sleep(takers, i)) << i;
  const auto before = takers.Now();
  ASSERT_TRUE(controller.Switch(0, 0, 1));
  for (const TaskIndex task : {1U, 2U, 0U}) controller.Unpark(task);
  EXPECT_TRUE(takers.Runs(1));
  const auto now = takers.Now();
  EXPECT_EQ(now[0], before[0]);
  EXPECT_EQ(now[2], before[2]);
  Park(controller, {0, 1, 2});
  EXPECT_TRUE(Sleep(takers, 1));
  EXPECT_TRUE(controller.Release().ok());
  for (std::size_t i = 0; i < 3; ++i) EXPECT_TRUE(takers.Runs(i)) << i;
}

}  // namespace
}  // namespace unis
