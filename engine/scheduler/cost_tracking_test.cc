// Costs that the scheduler follows while its tasks run: on fake time, tasks that take bursts.
#include <gtest/gtest.h>

#include <vector>

#include "engine/scheduler/paper_for_test.h"

namespace unis {
namespace {

SchedulerSettings Online() {
  SchedulerSettings settings;
  settings.online_cost = true;
  return settings;
}

// Tasks with work and room throughout, of which each takes a burst as often as it costs while it
// runs.
struct Working {
  Working(const SchedulerSettings& settings, const CostedTasks& tasks, std::size_t links,
          const std::vector<TaskIndex>& in_line = {})
      : cost(tasks.set.tasks.size(), kCost),
        worked(cost.size()),
        rig(settings, tasks, 1, Links(links), !in_line.empty()) {
    rig.monitor.received.assign(links, 0);
    rig.observer.wanted = false;
    rig.controller.in_line = in_line;
    EXPECT_TRUE(rig.cores.Start());
  }
  explicit Working(const SchedulerSettings& settings = Online()) : Working(settings, Apart(2), 4) {}

  void RunFor(Nanoseconds time) {
    for (const Nanoseconds end = now + time; now < end;) Tick();
  }
  virtual void Tick() {
    now += kT;
    Work(rig.Current(0), kT);
    rig.TickAt(now);
  }
  void Work(TaskIndex task, double time) {
    const double burst = kBatch * cost[task];
    for (worked[task] += time; worked[task] >= burst; worked[task] -= burst)
      rig.monitor.received[2 * task] += kBatch;
  }

  std::vector<double> cost;  // per task, the true one
  std::vector<double> worked;
  Nanoseconds now = 0;
  Rig rig;
};

constexpr Nanoseconds kWhile = 20 * kSlice;

TEST(FollowTest, StaysWithARightCost) {
  Working tasks;
  tasks.RunFor(kWhile);
  EXPECT_NEAR(tasks.rig.costs.Ns(0), kCost, 3);
  EXPECT_NEAR(tasks.rig.costs.Ns(1), kCost, 3);
}

TEST(FollowTest, AJumpChangesCostAndSliceOfThatTaskAlone) {
  Working tasks;
  tasks.RunFor(kWhile);
  tasks.cost[1] = 5 * kCost;
  tasks.RunFor(kWhile);
  EXPECT_NEAR(tasks.rig.costs.Ns(1), 5 * kCost, 0.05 * 5 * kCost);
  EXPECT_NEAR(static_cast<double>(AlgorithmOf(tasks.rig).TimeSlice(1)), 5 * kSlice,
              0.05 * 5 * kSlice);
  EXPECT_NEAR(tasks.rig.costs.Ns(0), kCost, 3);
}

TEST(FollowTest, NoCostThatIsFollowedMakesASliceWithoutEnd) {
  Working line;
  line.cost[0] = 1000 * kCost;
  line.RunFor(2'000'000'000);
  EXPECT_EQ(AlgorithmOf(line.rig).TimeSlice(0), 20'000'000);
  EXPECT_LT(AlgorithmOf(line.rig).TimeSlice(1), 20'000'000);
}

TEST(FollowTest, AStaticCostStays) {
  SchedulerSettings settings = Online();
  settings.online_cost = false;
  Working tasks(settings);
  tasks.cost = {5 * kCost, 5 * kCost};
  tasks.RunFor(kWhile);
  EXPECT_EQ(tasks.rig.costs.Ns(0), kCost);
  EXPECT_EQ(tasks.rig.monitor.positions, 0u) << "nor is anything read for it";
}

TEST(FollowTest, TimeInWhichTheEgressIsFullDoesNotCount) {
  Working tasks;
  tasks.rig.monitor.packets = {kPlenty, kCapacity, kPlenty, kCapacity};
  tasks.cost = {5 * kCost, 5 * kCost};
  tasks.RunFor(kWhile);
  EXPECT_EQ(tasks.rig.costs.Ns(0), kCost);
}

TEST(FollowTest, TimeInWhichTheIngressMayHaveBeenEmptyDoesNotCount) {
  Working tasks;
  tasks.cost = {5 * kCost, 5 * kCost};
  tasks.rig.monitor.packets[0] = kBatch;  // whenever a burst is taken, that was all
  tasks.rig.monitor.packets[2] = kBatch;
  tasks.RunFor(kWhile);
  EXPECT_EQ(tasks.rig.costs.Ns(0), kCost);
}

TEST(FollowTest, ACostThatSomebodyElseMeasuresIsWhereItGoesOn) {
  Working tasks;
  tasks.RunFor(kWhile);
  tasks.rig.monitor.packets[0] = kBatch;  // nothing is learnt of it
  tasks.rig.costs.Set(0, 1'000);
  tasks.cost[0] = 1'200;
  tasks.RunFor(kWhile);
  EXPECT_EQ(tasks.rig.costs.Ns(0), 1'000);
}

TEST(FollowTest, AFunctionWithSeveralThreadsKeepsItsCost) {
  CostedTasks crew;
  crew.Add(0, {{0, 1}}, kCost, 2);
  Working tasks(Online(), crew, 4);
  tasks.cost = {5 * kCost, 5 * kCost};
  tasks.RunFor(kWhile);
  EXPECT_EQ(tasks.rig.costs.Ns(0), kCost);
}

TEST(FollowTest, ALazySchedulerFollowsToo) {
  SchedulerSettings settings = Online();
  settings.lazy = true;
  settings.latency_compensation = 5'000;
  settings.switch_latency = 8'000;
  Working tasks(settings);
  tasks.cost = {5 * kCost, kCost / 2};
  tasks.RunFor(4 * kWhile);
  EXPECT_NEAR(tasks.rig.costs.Ns(0), 5 * kCost, 0.05 * 5 * kCost);
  EXPECT_NEAR(tasks.rig.costs.Ns(1), kCost / 2, 0.05 * kCost / 2);
}

// What the tasks took in each of their turns that are over.
std::vector<std::uint32_t> TurnsOf(Working& tasks, Nanoseconds time) {
  std::vector<std::uint32_t> turns;
  std::uint16_t before = 0;
  for (const Nanoseconds end = tasks.now + time; tasks.now < end;) {
    const TaskIndex task = tasks.rig.Current(0);
    tasks.Tick();
    if (tasks.rig.Current(0) == task) continue;
    turns.push_back(static_cast<std::uint16_t>(tasks.rig.monitor.received[2 * task] - before));
    before = tasks.rig.monitor.received[2 * tasks.rig.Current(0)];
  }
  return turns;
}

TEST(ProlongTest, ASliceThatIsTooShortGoesOnUntilTheEgressIsFilled) {
  SchedulerSettings settings = Online();
  settings.slice_factor = 1.0 / 3;
  Working tasks(settings);
  const auto turns = TurnsOf(tasks, 10 * kSlice);
  ASSERT_GE(turns.size(), 8u);
  for (const std::uint32_t turn : turns) EXPECT_NEAR(turn, kThetaMax, 2 * kBatch);
}

TEST(ProlongTest, NotAsPrintedNorWithoutTheOptimisation) {
  for (const bool online : {false, true}) {
    SchedulerSettings settings;
    settings.slice_factor = 1.0 / 3;
    settings.online_cost = online;
    settings.occupancy = !online;
    Working tasks(settings);
    const auto turns = TurnsOf(tasks, 10 * kSlice);
    ASSERT_GE(turns.size(), 8u);
    for (const std::uint32_t turn : turns) EXPECT_NEAR(turn, kThetaMax / 3, 2 * kBatch);
  }
}

TEST(ProlongTest, ACostThatHasJumpedIsMadeGoodInTheSameTurn) {
  Working tasks;
  tasks.RunFor(kSlice + 10 * kT);
  ASSERT_EQ(tasks.rig.Current(0), 1u);
  tasks.cost[1] = 3 * kCost;
  const auto turns = TurnsOf(tasks, 4 * kSlice);
  ASSERT_FALSE(turns.empty());
  EXPECT_GE(turns[0], kThetaMax - 2 * kBatch);
}

TEST(ProlongTest, NoTurnIsLongerThanFourSlices) {
  Working tasks;
  tasks.cost[0] = 10 * kCost;
  tasks.RunFor(4 * kSlice - 2 * kT);
  EXPECT_EQ(tasks.rig.Current(0), 0u);
  tasks.RunFor(4 * kT);
  EXPECT_EQ(tasks.rig.Current(0), 1u);
  EXPECT_EQ(tasks.rig.controller.switches.size(), 1u);
}

TEST(ProlongTest, OneThatTakesNothingIsLeftAtTheEndOfItsSlice) {
  Working tasks;
  tasks.cost[0] = 1e9;
  tasks.RunFor(kSlice + 2 * kT);
  EXPECT_EQ(tasks.rig.Current(0), 1u);
}

// Each passes the CPU on after half of a link's packets, and is seen to do so.
struct Handing final : Working {
  Handing() : Working(Online(), Apart(2), 4, {0, 1}) {}
  void Tick() override {
    now += kT;
    const std::uint16_t before = rig.monitor.received[2 * running];
    Work(running, kT);
    taken += static_cast<std::uint16_t>(rig.monitor.received[2 * running] - before);
    if (taken >= kCapacity / 2) {
      running = 1 - running;
      taken = 0;
      rig.controller.turn = {.task = running, .begun = true};
    }
    rig.TickAt(now);
  }
  TaskIndex running = 0;
  std::uint32_t taken = 0;
};

TEST(FollowTest, TurnsThatTasksEndThemselvesAreFollowed) {
  Handing tasks;
  tasks.RunFor(kWhile);
  tasks.cost = {5 * kCost, 2 * kCost};
  tasks.RunFor(4 * kWhile);
  EXPECT_NEAR(tasks.rig.costs.Ns(0), 5 * kCost, 0.05 * 5 * kCost);
  EXPECT_NEAR(tasks.rig.costs.Ns(1), 2 * kCost, 0.05 * 2 * kCost);
}

}  // namespace
}  // namespace unis
