// In which order tasks that yield by themselves have their turns, and when the scheduler mends it.
#include <gtest/gtest.h>

#include <cstdint>
#include <numeric>
#include <vector>

#include "engine/base/dice_for_test.h"
#include "engine/scheduler/paper_for_test.h"

namespace unis {
namespace {

using Line = std::vector<TaskIndex>;

// A look comes after each round of the line, 60 µs after the last.
struct LineOrderTest : testing::Test {
  explicit LineOrderTest(std::size_t tasks = 4, bool keep = true)
      : rig(Settings(keep), Apart(tasks), 1, Links(2 * tasks), true) {
    rig.controller.in_line.resize(tasks);
    std::iota(rig.controller.in_line.begin(), rig.controller.in_line.end(), 0U);
    rig.controller.turn_times.resize(tasks);
    rig.observer.wanted = false;
    EXPECT_TRUE(rig.cores.Start());
  }
  static SchedulerSettings Settings(bool keep) {
    SchedulerSettings settings;
    settings.keep_order = keep;
    return settings;
  }
  void Turn(TaskIndex task) {
    auto& times = rig.controller.turn_times[task];
    times = {.last = ++clock, .before = times.last};
    rig.controller.turn = {.task = task, .begun = true};
  }
  void Round(const Line& line) {
    for (const TaskIndex task : line) Turn(task);
    rig.TickAt(now += 60'000);
  }
  void Rounds(int count, const Line& line) {
    for (int i = 0; i < count; ++i) Round(line);
  }
  CoreStatistics statistics() const { return rig.cores[0].statistics(); }
  std::uint64_t repairs() const { return statistics().order_repairs; }

  Rig rig;
  std::uint64_t clock = 0;
  Nanoseconds now = 0;
};

TEST_F(LineOrderTest, RoundsInTheOrderOfTheChainAreLeftAlone) {
  for (const Line& line : {Line{0, 1, 2, 3}, {2, 3, 0, 1}, {3, 0, 1, 2}}) Rounds(10, line);
  EXPECT_GT(statistics().yields_seen, 60u);
  EXPECT_EQ(statistics().yields_out_of_order, 0u);
  EXPECT_TRUE(rig.controller.put_in_order.empty());
}

TEST_F(LineOrderTest, EachSwitchThatIsSeenIsCountedOnce) {
  Rounds(2, {0, 1, 2, 3});
  const CoreStatistics before = statistics();
  Rounds(2, {0, 2, 1, 3});  // 0 to 2, 2 to 1 and 1 to 3
  EXPECT_EQ(statistics().yields_seen - before.yields_seen, 6u);
  EXPECT_EQ(statistics().yields_out_of_order - before.yields_out_of_order, 6u);
  for (int i = 0; i < 20; ++i) rig.TickAt(now += 60'000);
  EXPECT_EQ(statistics().yields_seen - before.yields_seen, 6u) << "nobody had a turn";
}

TEST_F(LineOrderTest, TheSecondWrongRoundIsMended) {
  Rounds(5, {0, 1, 2, 3});
  Round({0, 2, 1, 3});
  EXPECT_EQ(repairs(), 0u);
  Round({0, 2, 1, 3});
  EXPECT_EQ(repairs(), 1u);
  EXPECT_EQ(rig.controller.put_in_order, Line{3}) << "the task that runs goes on";
  Rounds(5, {3, 0, 1, 2});
  EXPECT_EQ(repairs(), 1u);
}

TEST_F(LineOrderTest, ATaskThatSleepsIsNotMissed) {
  Rounds(3, {0, 1, 2, 3});
  Rounds(3, {0, 1, 3});
  Rounds(3, {0, 2, 3});
  EXPECT_EQ(statistics().yields_out_of_order, 0u);
  Rounds(3, {0, 3, 2});
  EXPECT_GT(statistics().yields_out_of_order, 0u);
}

TEST_F(LineOrderTest, WhereItDoesNotHelpItIsTriedEverMoreSeldom) {
  std::vector<Nanoseconds> at;
  for (int i = 0; i < 5000; ++i) {
    const std::uint64_t before = repairs();
    Round({0, 2, 1, 3});
    if (repairs() > before) at.push_back(now);
  }
  ASSERT_GE(at.size(), 5u);
  EXPECT_LT(at.size(), 12u) << "in 300 ms";
  for (std::size_t i = 2; i < at.size(); ++i) EXPECT_GT(at[i] - at[i - 1], at[i - 1] - at[i - 2]);
}

struct OrderOfTwoTest : LineOrderTest {
  OrderOfTwoTest() : LineOrderTest(2) {}
};

TEST_F(OrderOfTwoTest, TwoAreAlwaysInOrder) {
  Rounds(3, {0, 1});
  Rounds(3, {1, 0});
  EXPECT_EQ(statistics().yields_seen, 0u);
}

struct OrderNotKeptTest : LineOrderTest {
  OrderNotKeptTest() : LineOrderTest(4, false) {}
};

TEST_F(OrderNotKeptTest, ItIsCountedAllTheSame) {
  Rounds(10, {3, 2, 1, 0});
  EXPECT_GT(statistics().yields_out_of_order, 20u);
  EXPECT_TRUE(rig.controller.put_in_order.empty());
}

// The line goes on while it is looked at.
TEST_F(LineOrderTest, LooksThatComeAtAnyTimeSeeNoOrderThatIsNotThere) {
  Dice dice{3};
  const auto go_on = [&](int most) {
    for (int turns = dice.Between(0, most); turns > 0; --turns)
      Turn(static_cast<TaskIndex>(clock % 4));
  };
  rig.controller.before_turn_times = [&] { go_on(2); };
  for (int i = 0; i < 5000; ++i) {
    go_on(9);
    rig.TickAt(now += 60'000);
  }
  EXPECT_GT(statistics().yields_seen, 1000u);
  EXPECT_EQ(statistics().yields_out_of_order, 0u);
  EXPECT_EQ(repairs(), 0u);
}

TEST_F(LineOrderTest, TimesThatCannotBeAreIgnored) {
  Rounds(3, {0, 1, 2, 3});
  const std::uint64_t before = statistics().yields_seen;
  for (int i = 0; i < 10; ++i) {
    for (const TaskIndex task : {1, 2, 3}) Turn(task);
    rig.controller.turn_clock = clock + 1;
    rig.controller.turn_times[0] = i % 2 == 0
                                       ? YieldingTasks::TurnTimes{.last = ~0ULL, .before = clock}
                                       : YieldingTasks::TurnTimes{.last = 1, .before = clock};
    rig.TickAt(now += 60'000);
  }
  EXPECT_GE(statistics().yields_seen, before + 18) << "those of the others are seen as before";
  EXPECT_EQ(statistics().yields_out_of_order, 0u);
}

}  // namespace
}  // namespace unis
