#include "engine/scheduler/policy.h"

#include <gtest/gtest.h>

#include <optional>

#include "engine/scheduler/fakes_for_test.h"
#include "engine/scheduler/paper_for_test.h"

namespace unis {
namespace {

// Says by its core who made it.
class Named final : public CoreScheduler {
 public:
  using CoreScheduler::CoreScheduler;
  bool Start() override { return true; }
  CoreStatistics statistics() const noexcept override { return {}; }
  std::uint64_t SwitchedIn(TaskIndex) const noexcept override { return 0; }

 protected:
  bool Decide(Nanoseconds) noexcept override { return false; }
};

template <CoreIndex name>
std::unique_ptr<CoreScheduler> Make(const SchedulerParts&) {
  return std::make_unique<Named>(name);
}

constexpr CoreIndex kChooses = 1, kWatches = 2;

CoreIndex MadeBy(const PolicyTraits& policy, bool tasks_yield) {
  const SchedulerSettings settings;
  const TaskSet tasks;
  Costs costs(1);
  const FakeMonitor monitor;
  const FakeTimer timer;
  FakeController controller;
  controller.yields = tasks_yield;
  return policy
      .MakeScheduler({.settings = settings,
                      .tasks = tasks,
                      .core = 0,
                      .costs = costs,
                      .monitor = monitor,
                      .timer = timer,
                      .controller = controller,
                      .observer = nullptr})
      ->core();
}

TEST(PolicyTest, WhoWatchesIsAskedOnlyWhereTasksYield) {
  const PolicyTraits both{.policy = Policy::kUnis,
                          .make_scheduler = Make<kChooses>,
                          .make_handover_scheduler = Make<kWatches>};
  EXPECT_EQ(MadeBy(both, true), kWatches);
  EXPECT_EQ(MadeBy(both, false), kChooses);
}

TEST(PolicyTest, OneThatCannotWatchChoosesAndHandsNothingOver) {
  const PolicyTraits chooses{.policy = Policy::kUnis, .make_scheduler = Make<kChooses>};
  EXPECT_TRUE(chooses.engine_decides());
  EXPECT_FALSE(chooses.hands_over());
  EXPECT_EQ(MadeBy(chooses, true), kChooses);
}

TEST(PolicyTest, EachIsFoundByItsNumberAndNoOther) {
  for (std::size_t i = 0; i < Policies().size(); ++i)
    EXPECT_EQ(TraitsOf(static_cast<Policy>(i + 1)), &Policies()[i]);
  EXPECT_EQ(TraitsOf(static_cast<Policy>(0)), nullptr);
  EXPECT_EQ(TraitsOf(static_cast<Policy>(Policies().size() + 1)), nullptr);
}

}  // namespace
}  // namespace unis
