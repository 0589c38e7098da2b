#include "engine/controller/sleepers.h"

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

using SleepersTest = ControllerTest;
using Kind = TurnTakers::Kind;
using Kinds = std::vector<Kind>;

bool Sleep(const TurnTakers& takers, std::size_t i) {
  return Eventually([&] { return takers.thread(i).sleeps(); });
}

TEST_F(SleepersTest, TheTasksOfACoreSleepUntilTheyAreWoken) {
  TurnTakers takers(Kinds(3, Kind::kTakesTurns));
  auto tasks = takers.tasks();
  tasks[1].core = 1;
  Sleepers sleepers(tasks);
  ASSERT_TRUE(sleepers.Rest(0));
  EXPECT_TRUE(Sleep(takers, 0));
  EXPECT_TRUE(Sleep(takers, 2));
  EXPECT_TRUE(takers.Runs(1));
  sleepers.Wake(0, 2);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_TRUE(takers.Runs(i)) << i;
}

TEST_F(SleepersTest, OneTaskSleepsAloneAndIsWokenAloneOrWithItsCore) {
  TurnTakers takers({Kind::kTakesTurns, Kind::kTakesTurns, Kind::kNoPlugin});
  Sleepers sleepers(takers.tasks());
  EXPECT_FALSE(sleepers.RestOne(2));
  ASSERT_TRUE(sleepers.RestOne(1));
  EXPECT_TRUE(Sleep(takers, 1));
  EXPECT_TRUE(takers.Runs(0));
  sleepers.WakeOne(1);
  EXPECT_TRUE(takers.Runs(1));
  ASSERT_TRUE(sleepers.RestOne(1));
  EXPECT_TRUE(Sleep(takers, 1));
  sleepers.Wake(0, 0);
  EXPECT_TRUE(takers.Runs(1));
}

TEST_F(SleepersTest, NoneSleepsWhereOneCannot) {
  for (const bool has_plugin : {false, true}) {
    TurnTakers takers({Kind::kTakesTurns, has_plugin ? Kind::kTakesTurns : Kind::kNoPlugin});
    Sleepers sleepers(takers.tasks());
    EXPECT_EQ(sleepers.Rest(0), has_plugin);
    EXPECT_EQ(sleepers.WhoCannot(0), has_plugin ? std::nullopt : std::optional<TaskIndex>(1));
    EXPECT_EQ(sleepers.turns(1) != nullptr, has_plugin);
    EXPECT_EQ(sleepers.why_not().ok(), has_plugin);
    EXPECT_EQ(Turns::Find(takers.pid(0)).value()->Of(takers.pid(0))->rest != 0, has_plugin);
  }
}

TEST_F(SleepersTest, ARestThatGoesOnChangesTheWord) {
  TurnTakers takers({Kind::kTakesTurns});
  Sleepers sleepers(takers.tasks());
  const auto turns = Turns::Find(takers.pid(0)).value();
  const unis_turn& turn = *turns->Of(takers.pid(0));
  std::uint32_t before = 0;
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(sleepers.Rest(0));
    EXPECT_NE(turn.rest, before);
    EXPECT_NE(turn.rest, 0U);
    before = turn.rest;
  }
  sleepers.Wake(0, 0);
  EXPECT_EQ(turn.rest, 0U);
  ASSERT_TRUE(sleepers.Rest(0));
  EXPECT_NE(turn.rest, before) << "a word that was not renewed holds no longer";
}

TEST_F(SleepersTest, NobodySleepsWhenTheyAreGone) {
  TurnTakers takers(Kinds(2, Kind::kTakesTurns));
  {
    Sleepers sleepers(takers.tasks());
    ASSERT_TRUE(sleepers.Rest(0));
    ASSERT_TRUE(Sleep(takers, 0));
  }
  for (std::size_t i = 0; i < 2; ++i) EXPECT_TRUE(takers.Runs(i)) << i;
}

// All that the scheduler knows: no task runs while they rest, and afterwards the one that it
// switched to.
TEST_F(SleepersTest, UnderPrioritiesWhoWasSwitchedToRunsFirst) {
  TurnTakers takers(Kinds(3, Kind::kTakesTurns));
  PriorityController controller(takers.tasks());
  ASSERT_TRUE(controller.Acquire().ok());
  ASSERT_TRUE(controller.Start(0, 0));
  ASSERT_TRUE(takers.Runs(0));
  ASSERT_TRUE(controller.Rest(0));
  for (std::size_t i = 0; i < 3; ++i) EXPECT_TRUE(Sleep(takers, i)) << i;
  const auto before = takers.Now();
  ASSERT_TRUE(controller.Switch(0, 0, 1));
  controller.Wake(0, 1);
  EXPECT_TRUE(takers.Runs(1));
  const auto now = takers.Now();
  EXPECT_EQ(now[0], before[0]);
  EXPECT_EQ(now[2], before[2]);
  ASSERT_TRUE(controller.Rest(0));
  EXPECT_TRUE(Sleep(takers, 1));
  EXPECT_TRUE(controller.Release().ok());
  for (std::size_t i = 0; i < 3; ++i) EXPECT_TRUE(takers.Runs(i)) << i;
}

}  // namespace
}  // namespace unis
