// How many packets a turn may take, as the scheduler tells it tasks that yield by themselves.
#include <gtest/gtest.h>

#include <vector>

#include "engine/scheduler/paper_for_test.h"

namespace unis {
namespace {

using Budgets = std::vector<std::uint32_t>;

// What a chain of three is told, all of which yield, before the first of them runs.
Budgets Told(std::uint32_t budget, const std::vector<std::uint32_t>& capacity) {
  SchedulerSettings settings;
  settings.budget = budget;
  FakeMonitor links = Links(4);
  links.capacity = capacity;
  Rig rig(settings, Chain({0, 0, 0}), 1, links, true);
  rig.controller.in_line = {0, 1, 2};
  EXPECT_TRUE(rig.cores.Start());
  EXPECT_EQ(rig.cores[0].statistics().budget, *std::ranges::max_element(rig.controller.budgets));
  return rig.controller.budgets;
}

TEST(BudgetTest, ABudgetThatIsGivenHolds) {
  EXPECT_EQ(Told(300, {2048, 2048, 2048, 2048}), (Budgets{300, 300, 300}));
}

TEST(BudgetTest, WithoutOneLongRingsAreNotEmptiedInATurn) {
  EXPECT_EQ(Told(0, {8192, 8192, 8192, 8192}), (Budgets{2048, 2048, 2048}));
}

TEST(BudgetTest, NoTaskTakesMoreThanGammaOfTheLeastOfItsLinks) {
  EXPECT_EQ(Told(4000, {2048, 2048, 512, 2048}), (Budgets{1536, 384, 384}));
  EXPECT_EQ(Told(0, {2048, 2048, 512, 2048}), (Budgets{1536, 384, 384}));
}

TEST(BudgetTest, ABurstIsTheLeast) {
  EXPECT_EQ(Told(0, {2048, 64, 64, 2048}), (Budgets{64, 64, 64}));
}

TEST(BudgetTest, WhereNoTaskYieldsThereIsNone) {
  Rig rig({}, Chain({0, 0, 0}), 1, Links(4));
  ASSERT_TRUE(rig.cores.Start());
  EXPECT_EQ(rig.cores[0].statistics().budget, 0U);
  EXPECT_TRUE(rig.controller.budgets.empty());
}

}  // namespace
}  // namespace unis
