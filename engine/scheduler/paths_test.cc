// Tasks of several paths: no loss that can be avoided, no dead-lock ever.
#include <gtest/gtest.h>

#include <array>
#include <set>
#include <vector>

#include "engine/base/dice_for_test.h"
#include "engine/scheduler/paper_for_test.h"

namespace unis {
namespace {

// Task i of two paths: link 4i to 4i + 1 and link 4i + 2 to 4i + 3.
CostedTasks TwoPathsEach(std::size_t count) {
  CostedTasks tasks;
  for (LinkIndex i = 0; i < count; ++i)
    tasks.Add(0, {{4 * i, 4 * i + 1}, {4 * i + 2, 4 * i + 3}}, kCost);
  return tasks;
}

Rig Started(std::size_t tasks, const std::vector<std::uint32_t>& packets) {
  return Rig({}, TwoPathsEach(tasks), 1, Filled(packets));
}

TEST(PathsTest, WorkOnOnePathIsReasonToStay) {
  Rig rig = Started(2, {0, 0, 1000, 0, 1000, 0, 0, 0});
  rig.cores.Start();
  rig.TickAt(kT);
  EXPECT_EQ(rig.Current(0), 0u);
  rig.monitor.packets[2] = kThetaMin;
  rig.TickAt(2 * kT);
  EXPECT_EQ(rig.Current(0), 1u);
  EXPECT_EQ(rig.observer.records.back().reason, SwitchReason::kIngressLow);
}

TEST(PathsTest, ABlockedPathThatHoldsPacketsIsReasonToLeave) {
  Rig rig = Started(2, {1000, 0, 0, kThetaMax, 1000, 0, 0, 0});
  rig.cores.Start();
  rig.TickAt(kT);
  EXPECT_EQ(rig.Current(0), 0u) << "it loses nothing: the blocked path is empty";
  rig.monitor.packets[2] = 1;
  rig.TickAt(2 * kT);
  EXPECT_EQ(rig.Current(0), 1u);
  EXPECT_EQ(rig.observer.records.back().reason, SwitchReason::kEgressHigh);
}

TEST(PathsTest, ATaskThatWouldLoseIsPassedOverWhileAnotherCanRun) {
  Rig rig = Started(3, {0, 0, 0, 0, 1000, 0, 1, kThetaMax, 0, 0, 1000, 0});
  rig.cores.Start();
  rig.TickAt(kT);
  EXPECT_EQ(rig.Current(0), 2u);
}

TEST(PathsTest, OfTheSecondRankTheLeastLossRuns) {
  Rig rig = Started(4, {0, 0, 0, 0,                     // nothing
                        1000, 0, 30, kThetaMax,         // loses 30
                        1000, 0, 20, kThetaMax,         // loses 20
                        kThetaMin, 0, 40, kThetaMax});  // loses 40
  rig.cores.Start();
  rig.TickAt(kT);
  EXPECT_EQ(rig.Current(0), 2u);
}

TEST(PathsTest, LittleWorkWithoutLossComesBeforeMuchWithLoss) {
  Rig rig = Started(3, {0, 0, 0, 0, 1000, 0, 1, kThetaMax, 3, 0, 0, 0});
  rig.cores.Start();
  rig.TickAt(kT);
  EXPECT_EQ(rig.Current(0), 2u);
}

TEST(PathsTest, ItsLastPacketsATaskFinishesItself) {
  Rig rig = Started(2, {5, 0, 0, 0, 5, 0, 0, 0});
  rig.cores.Start();
  rig.TickAt(kT);
  EXPECT_EQ(rig.Current(0), 0u);
  rig.monitor.packets[0] = 0;
  rig.TickAt(2 * kT);
  EXPECT_EQ(rig.Current(0), 1u) << "few packets wait for no threshold where nobody has more";
}

TEST(PathsTest, RatherATaskThatLosesNothingThanOneThatLoses) {
  Rig rig = Started(3, {10, kThetaMax, 0, 0,   // loses 10, has no work
                        20, kThetaMax, 0, 0,   // loses 20
                        0, kThetaMax, 0, 0});  // idles
  rig.cores.Start();
  rig.TickAt(kT);
  EXPECT_EQ(rig.Current(0), 2u);
}

TEST(PathsTest, TheSliceIsTheLeastOfThePathsThatHoldPackets) {
  FakeMonitor links = Filled({0, 0, 1000, 0});
  links.capacity = {2048, 512, 2048, 1024};
  Rig rig({}, TwoPathsEach(1), 1, links);
  EXPECT_EQ(AlgorithmOf(rig).TimeSlice(0), 76'800);  // 100 ns · 0.75 · 1024
  rig.monitor.packets[0] = 1;
  EXPECT_EQ(AlgorithmOf(rig).TimeSlice(0), 38'400);
  rig.monitor.packets[0] = rig.monitor.packets[2] = 0;
  EXPECT_EQ(AlgorithmOf(rig).TimeSlice(0), 38'400) << "none holds any: the least of all";
}

// Task 1 would lose packets, and task 2 always has work for which it need not.
TEST(PathsTest, AMillisecondPassedOverIsReasonEnough) {
  Rig rig = Started(3, {1000, 0, 0, 0, 1000, 0, 1, kThetaMax, 1000, 0, 0, 0});
  rig.cores.Start();
  Nanoseconds ran = 0;
  for (Nanoseconds now = kT; now < 2'000'000 && ran == 0; now += kT) {
    rig.TickAt(now);
    if (rig.Current(0) == 1) ran = now;
  }
  EXPECT_GE(ran, 1'000'000);
  EXPECT_LE(ran, 1'000'000 + 4 * kSlice);
}

TEST(PathsTest, ATaskWithoutAPathIsRefused) {
  CostedTasks tasks;
  tasks.Add(0, {}, kCost);
  EXPECT_THROW(Rig({}, tasks, 1, Filled({})), std::invalid_argument);
}

// ------------------------------------------------------------------ systems whose rings move

// Poll-mode tasks on rings, a batch a path a step; what does not fit is lost.
struct World {
  std::vector<std::uint32_t> packets, capacity;  // per link
  std::uint64_t lost = 0;

  // Whether any packet got through.
  bool Run(const CostedTasks& tasks, TaskIndex task, std::uint32_t batch) {
    bool moved = false;
    for (const auto& [in, out] : tasks.paths_of[task]) {
      const std::uint32_t burst = std::min(batch, packets[in]);
      const std::uint32_t room = capacity[out] - packets[out];
      packets[in] -= burst;
      packets[out] += std::min(burst, room);
      lost += burst - std::min(burst, room);
      moved |= burst > 0 && room > 0;
    }
    return moved;
  }
};

bool HasDeliverableWork(const World& world, const CostedTasks& tasks, TaskIndex task,
                        const std::vector<std::uint32_t>& theta_max) {
  return std::ranges::any_of(tasks.paths_of[task], [&](const auto& path) {
    return world.packets[path.first] > 0 && world.packets[path.second] < theta_max[path.second];
  });
}

// A chain through all tasks there and back: link 2i leads to task i on the way there, 2i + 1 on the
// way back.
CostedTasks ThereAndBack(std::size_t count, CoreIndex cores) {
  CostedTasks tasks;
  for (LinkIndex i = 0; i < count; ++i)
    tasks.Add(i % cores, {{2 * i, 2 * i + 2}, {2 * i + 3, 2 * i + 1}}, 10);
  return tasks;
}

// Every state of short rings between two tasks on one core: what is lost, is lost in every order.
TEST(PathsTest, NothingIsLostWhereAnOrderWithoutLossExists) {
  constexpr std::uint32_t kFits = 3;
  const CostedTasks tasks = ThereAndBack(2, 1);
  SchedulerSettings settings;
  settings.theta_min = 0;
  settings.theta_max = kFits;
  std::uint64_t lossless = 0;
  std::uint64_t lossy = 0;
  // Links 0, 5: into the chain; 2, 3: between the tasks; 1, 4: out of it, emptied at once.
  for (std::uint32_t state = 0; state < 4 * 4 * 4 * 4; ++state) {
    World start;
    start.capacity.assign(6, kFits);
    start.packets = {state % 4, 0, state / 4 % 4, state / 16 % 4, 0, state / 64};
    // All states that can be reached without loss: is the empty one among them?
    std::set<std::vector<std::uint32_t>> seen = {start.packets};
    std::vector<World> open = {start};
    bool can_do = false;
    while (!open.empty()) {
      const World now = open.back();
      open.pop_back();
      can_do |= now.packets[0] + now.packets[2] + now.packets[3] + now.packets[5] == 0;
      for (TaskIndex task = 0; task < 2; ++task) {
        World next = now;
        next.Run(tasks, task, 1);
        next.packets[1] = next.packets[4] = 0;
        if (next.lost == 0 && seen.insert(next.packets).second) open.push_back(next);
      }
    }
    FakeMonitor links;
    links.packets = start.packets;
    links.capacity = start.capacity;
    Rig rig(settings, tasks, 1, links);
    rig.cores.Start();
    World world = start;
    for (int step = 1; step <= 60; ++step) {
      rig.monitor.packets = world.packets;
      rig.TickAt(step * kT);
      world.Run(tasks, rig.Current(0), 1);
      world.packets[1] = world.packets[4] = 0;
    }
    EXPECT_EQ(world.packets[0] + world.packets[2] + world.packets[3] + world.packets[5], 0u)
        << "dead-lock in state " << state;
    if (can_do) {
      EXPECT_EQ(world.lost, 0u) << "state " << state;
    }
    ++(can_do ? lossless : lossy);
  }
  EXPECT_GT(lossless, 100u);
  EXPECT_GT(lossy, 0u);
}

struct RandomWorld {
  CostedTasks tasks;
  CoreIndex cores;
  World world;
  SchedulerSettings settings;
  std::vector<LinkIndex> sources, sinks;
};

// A chain there and back over several cores, with rings of all sizes.
RandomWorld DrawWorld(Dice& dice) {
  RandomWorld drawn;
  const std::uint32_t count = dice.Between(2, 8);
  drawn.cores = dice.Between(1, std::min(3u, count));
  drawn.tasks = ThereAndBack(count, drawn.cores);
  for (LinkIndex link = 0; link < 2 * count + 2; ++link) {
    drawn.world.capacity.push_back(64u << dice.Between(1, 4));
    drawn.world.packets.push_back(dice.Between(0, drawn.world.capacity.back()));
  }
  drawn.settings.latency_compensation = dice.OneIn(2) ? 0 : dice.Between(0, 10'000);
  drawn.settings.max_wait = dice.OneIn(2) ? 0 : dice.Between(10'000, 500'000);
  drawn.settings.lazy = dice.OneIn(2);
  drawn.sources = {0, 2 * count + 1};
  drawn.sinks = {1, 2 * count};
  return drawn;
}

// However full the rings are at first and however fast the traffic: a task that has packets for
// which there is room runs within its wait and a round of slices.
TEST(PathsTest, EveryTaskWithDeliverableWorkRunsWithinABound) {
  constexpr Nanoseconds kBound = 5'000'000;
  std::uint64_t runs = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    Dice dice(seed);
    RandomWorld drawn = DrawWorld(dice);
    World& world = drawn.world;
    const bool traffic = !dice.OneIn(3);
    std::vector<std::uint32_t> theta_max;
    FakeMonitor links;
    links.packets = world.packets;
    links.capacity = world.capacity;
    for (const std::uint32_t capacity : world.capacity) theta_max.push_back(capacity * 3 / 4);
    Rig rig(drawn.settings, drawn.tasks, drawn.cores, links);
    rig.cores.Start();
    std::vector<Nanoseconds> since(drawn.tasks.set.tasks.size(), 0);
    for (Nanoseconds now = kT; now < 3 * kBound; now += kT) {
      rig.monitor.packets = world.packets;
      rig.TickAt(now);
      for (CoreIndex core = 0; core < drawn.cores; ++core)
        runs += world.Run(drawn.tasks, rig.Current(core), 50);  // 10 ns a packet, two paths
      for (const LinkIndex sink : drawn.sinks) world.packets[sink] = 0;
      for (const LinkIndex source : drawn.sources) {
        std::uint32_t& ring = world.packets[source];
        if (traffic) ring = std::min(world.capacity[source], ring + dice.Between(0, 60));
      }
      for (TaskIndex task = 0; task < since.size(); ++task) {
        const CoreIndex core = drawn.tasks.set.tasks[task].core;
        if (rig.Current(core) == task || !HasDeliverableWork(world, drawn.tasks, task, theta_max))
          since[task] = now;
        ASSERT_LE(now - since[task], kBound) << "seed " << seed << " task " << task;
      }
    }
    if (traffic) continue;
    for (LinkIndex link = 0; link < world.packets.size(); ++link)
      EXPECT_EQ(world.packets[link], 0u) << "seed " << seed << " link " << link;
  }
  EXPECT_GT(runs, 100'000u);
}

}  // namespace
}  // namespace unis
