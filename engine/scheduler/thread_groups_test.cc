// Functions with several threads on a core: who does what nobody says, packets are handed on
// inside.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "engine/base/dice_for_test.h"
#include "engine/scheduler/paper_for_test.h"

namespace unis {
namespace {

constexpr Nanoseconds kPatience = 6'400;  // 64 · 100 ns

// A function of `threads` from link 0 to 1, and behind it one of one thread from link 2 to 3.
CostedTasks Function(std::size_t threads) {
  CostedTasks tasks;
  tasks.Add(0, {{0, 1}}, kCost, threads);
  tasks.Add(0, {{2, 3}}, kCost);
  return tasks;
}

SchedulerSettings WithSwitches(Nanoseconds lead, Nanoseconds switch_time) {
  SchedulerSettings settings;
  settings.latency_compensation = lead;
  settings.switch_latency = switch_time;
  return settings;
}

class CrewTest : public testing::Test {
 protected:
  void Start(std::size_t threads, const std::vector<std::uint32_t>& packets,
             const SchedulerSettings& settings = {}) {
    tasks_ = Function(threads);
    rig_ = std::make_unique<Rig>(settings, tasks_, 1, Filled(packets));
    rig_->cores.Start();
  }
  TaskIndex Tick() {
    now_ += kT;
    rig_->TickAt(now_);
    return rig_->Current(0);
  }
  // Until another task runs; how long the one before did.
  Nanoseconds UntilASwitch() {
    const TaskIndex before = rig_->Current(0);
    const Nanoseconds begin = now_;
    while (now_ < begin + 10'000'000 && Tick() == before) {
    }
    return now_ - begin;
  }
  void Take(std::uint16_t packets) { rig_->monitor.received[0] += packets; }
  void Put(std::uint16_t packets) { rig_->monitor.sent[1] += packets; }
  SwitchReason Reason() const { return rig_->observer.records.back().reason; }

  CostedTasks tasks_;
  std::unique_ptr<Rig> rig_;
  Nanoseconds now_ = 0;
};

TEST_F(CrewTest, AThreadThatMovesNothingIsLeftForTheNext) {
  Start(3, {1000, 0, 0, 0});
  for (const TaskIndex next : {1u, 2u, 0u, 1u}) {
    EXPECT_EQ(UntilASwitch(), 7 * kT);  // the first tick after its patience
    EXPECT_EQ(rig_->Current(0), next);
    EXPECT_EQ(Reason(), SwitchReason::kStill);
  }
}

TEST_F(CrewTest, AThreadThatMovesPacketsKeepsItsSlice) {
  Start(2, {1000, 0, 0, 0});
  while (now_ < kSlice - kT) {
    Take(5);
    Put(5);
    ASSERT_EQ(Tick(), 0u) << now_;
  }
  EXPECT_LE(UntilASwitch(), 2 * kT);
  EXPECT_EQ(Reason(), SwitchReason::kSliceExpired);
}

TEST_F(CrewTest, MovesInAFullLinkAreSeen) {
  Start(2, {1000, 0, 0, 0});
  Take(64);  // and as many came in meanwhile: the occupancy tells nothing
  Tick();
  EXPECT_EQ(UntilASwitch(), 7 * kT) << "from the last move on";
}

// The lead is what a switch takes off the time after the decision; of a thread of which nothing is
// expected there is nothing to wait for.
TEST_F(CrewTest, TheSwitchFromAThreadThatMovedNothingStartsEarlierByTheLead) {
  Start(2, {1000, 0, 0, 0}, WithSwitches(4'000, 12'000));
  EXPECT_EQ(UntilASwitch(), 12 * kT + 3 * kT);  // 6.4 − 4 µs from when it runs
  EXPECT_EQ(UntilASwitch(), 12 * kT + 3 * kT);
  Start(2, {1000, 0, 0, 0}, WithSwitches(8'000, 12'000));
  now_ = 0;
  EXPECT_EQ(UntilASwitch(), 11 * kT) << "while the switch before is still under way";
}

TEST_F(CrewTest, WhatMovesUntilTheNextRunsCountsForTheOneBefore) {
  Start(2, {1000, 0, 0, 0}, WithSwitches(4'000, 12'000));
  UntilASwitch();
  Take(64);
  UntilASwitch();  // task 1 moved nothing and is left early; so is task 0 ...
  EXPECT_EQ(UntilASwitch(), 19 * kT) << "... but not now: it is known to take packets";
}

// Thread 0 takes, thread 2 passes on, thread 1 does what nobody sees.
TEST_F(CrewTest, AThreadThatSupportsYieldWaitsUntilOthersHaveTakenEnough) {
  Start(3, {1000, 0, 0, 0}, WithSwitches(0, 2 * kT));
  std::vector<std::uint64_t> turns(3);
  std::uint16_t inside = 0;
  Nanoseconds runs = 0;  // since then
  for (int i = 0; i < 10'000; ++i) {
    const TaskIndex task = rig_->Current(0);
    if (now_ >= runs && task == 0 && turns[0] % 8 == 0) Take(8), inside += 8;
    if (now_ >= runs && task == 2) Put(inside), inside = 0;
    if (Tick() != task) ++turns[rig_->Current(0)], runs = now_ + 2 * kT;
  }
  EXPECT_GT(turns[0], 100u);
  EXPECT_GT(turns[1], turns[0] - 5);
  EXPECT_LT(turns[2], turns[0] / 2);
  EXPECT_GT(turns[2], 5u);
}

TEST_F(CrewTest, PacketsInsideAreWorkUntilTheyAreOut) {
  Start(2, {1000, 0, 0, 0});
  Take(40);
  rig_->monitor.packets[0] = 0;
  rig_->monitor.packets[2] = 1;  // of the third task, which waits for more
  Tick();
  for (int turn = 0; turn < 6; ++turn) {
    UntilASwitch();
    EXPECT_LT(rig_->Current(0), 2u) << turn;
  }
  Put(40);
  Tick();
  UntilASwitch();
  EXPECT_EQ(rig_->Current(0), 2u);
}

// A function that drops what it took is not given turns for it for ever.
TEST_F(CrewTest, WhatNeverComesOutIsForgotten) {
  Start(2, {1000, 0, 0, 0});
  Take(40);
  rig_->monitor.packets[0] = 0;
  for (int i = 0; i < 400; ++i) Tick();
  const std::uint64_t before = rig_->Switches();
  EXPECT_GE(before, 32u);
  for (int i = 0; i < 400; ++i) Tick();
  EXPECT_EQ(rig_->Switches(), before);
}

TEST_F(CrewTest, AFullEgressKeepsAllOfThemOut) {
  Start(3, {1000, 0, 1000, 0});
  Tick();
  rig_->monitor.packets[1] = kThetaMax;
  UntilASwitch();
  EXPECT_EQ(Reason(), SwitchReason::kEgressHigh);
  EXPECT_EQ(rig_->Current(0), 3u);
}

TEST_F(CrewTest, OfFunctionsWithOneThreadNoPositionIsRead) {
  Start(1, {1000, 0, 1000, 0});
  for (int i = 0; i < 1000; ++i) Tick();
  EXPECT_GT(rig_->Switches(), 2u);
  EXPECT_EQ(rig_->monitor.positions, 0u);
}

// ------------------------------------------------------------------ packets that move inside

// A chain of a function of one thread, one of several and one of one. The threads of the second
// hand packets on through rings of any size, and wait where one is full.
struct Pipeline {
  std::vector<std::uint32_t> stages;  // of the second function: packets before each thread but 0
  std::uint32_t hand = 0;             // packets that thread 0 has taken and not handed on
  std::uint32_t room;                 // of each of these
  std::uint64_t lost = 0;

  // One µs of a task; `links`: what is in front of each function, and behind the last.
  void Run(FakeMonitor& links, TaskIndex task, std::uint32_t batch) {
    const auto threads = static_cast<TaskIndex>(stages.size() + 1);
    if (task == 0) return Put(links, 1, Take(links, 0, batch));
    if (task == threads + 1) return Put(links, 3, Take(links, 2, batch));
    const TaskIndex thread = task - 1;
    std::uint32_t& from = thread == 0 ? hand : stages[thread - 1];
    if (thread == 0 && hand == 0) hand = Take(links, 1, batch);
    std::uint32_t burst = std::min(from, batch);
    if (thread + 1 < threads) {
      burst = std::min(burst, room - stages[thread]);
      stages[thread] += burst;
    } else {
      Put(links, 2, burst);
    }
    from -= burst;
  }

 private:
  static std::uint32_t Take(FakeMonitor& links, LinkIndex link, std::uint32_t batch) {
    const std::uint32_t burst = std::min(batch, links.packets[link]);
    links.packets[link] -= burst;
    links.received[link] = static_cast<std::uint16_t>(links.received[link] + burst);
    return burst;
  }
  void Put(FakeMonitor& links, LinkIndex link, std::uint32_t burst) {
    const std::uint32_t fits = std::min(burst, links.capacity[link] - links.packets[link]);
    links.packets[link] += fits;
    links.sent[link] = static_cast<std::uint16_t>(links.sent[link] + fits);
    lost += burst - fits;
  }
};

// Who runs while switches are under way: a task until the lead after the decision to leave it, then
// nobody, then the next; a switch may begin before the one before it is over.
class Core {
 public:
  void Switch(TaskIndex to, Nanoseconds stop, Nanoseconds start) {
    pending_.push_back({to, stop, start});
  }
  std::optional<TaskIndex> RunsAt(Nanoseconds now) {
    while (!pending_.empty() && now >= pending_.front().start) {
      runs_ = pending_.front().to;
      pending_.pop_front();
    }
    if (!pending_.empty() && now >= pending_.front().stop) return std::nullopt;
    return runs_;
  }

 private:
  struct Pending {
    TaskIndex to;
    Nanoseconds stop, start;
  };
  std::deque<Pending> pending_;
  TaskIndex runs_ = 0;
};

// However small the rings inside and however the turns fall: no thread waits for long while its
// function has work, and without new traffic everything comes out.
TEST(CrewPropertyTest, EveryThreadHasItsTurnAndEverythingComesOut) {
  constexpr Nanoseconds kBound = 5'000'000;
  std::uint64_t delivered = 0;
  for (std::uint64_t seed = 1; seed <= Cases(100); ++seed) {
    Dice dice(seed);
    const std::uint32_t threads = dice.Between(2, 5);
    CostedTasks tasks;
    tasks.Add(0, {{0, 1}}, 20);
    tasks.Add(0, {{1, 2}}, 20, threads);
    tasks.Add(0, {{2, 3}}, 20);
    FakeMonitor links = Filled({0, 0, 0, 0});
    for (std::uint32_t& capacity : links.capacity) capacity = 64u << dice.Between(1, 5);
    SchedulerSettings settings;
    settings.latency_compensation = dice.OneIn(2) ? 0 : dice.Between(0, 10'000);
    settings.switch_latency = settings.latency_compensation + dice.Between(0, 8'000);
    settings.max_wait = dice.OneIn(2) ? 0 : dice.Between(10'000, 500'000);
    settings.lazy = dice.OneIn(2);
    Rig rig(settings, tasks, 1, links);
    rig.cores.Start();
    Pipeline pipeline{.stages = std::vector<std::uint32_t>(threads - 1),
                      .room = dice.Between(8, 256)};
    std::vector<Nanoseconds> since(threads + 2);
    Core core;
    std::uint64_t offered = 0;
    for (Nanoseconds now = kT; now < 12 * kBound; now += kT) {
      if (rig.TickAt(now) > 0)
        core.Switch(rig.Current(0), now + settings.latency_compensation,
                    now + *settings.switch_latency);
      const auto runs = core.RunsAt(now);
      if (runs) pipeline.Run(rig.monitor, *runs, 50);
      delivered += std::exchange(rig.monitor.packets[3], 0);
      const std::uint32_t room = rig.monitor.capacity[0] - rig.monitor.packets[0];
      const std::uint32_t burst = now < 4 * kBound ? std::min(room, dice.Between(0, 30)) : 0;
      rig.monitor.packets[0] += burst;
      offered += burst;
      for (TaskIndex thread = 1; thread <= threads; ++thread) {
        const bool idle = rig.monitor.packets[1] <= kThetaMin;
        if (runs == thread || idle) since[thread] = now;
        ASSERT_LE(now - since[thread], kBound) << "seed " << seed << " thread " << thread;
      }
    }
    std::uint32_t left = pipeline.hand;
    for (const std::uint32_t stage : pipeline.stages) left += stage;
    EXPECT_EQ(left, 0u) << "seed " << seed;
    for (const std::uint32_t packets : rig.monitor.packets) EXPECT_EQ(packets, 0u) << seed;
    EXPECT_GT(offered, 1'000u);
  }
  EXPECT_GT(delivered, Cases(1'000'000));
}

}  // namespace
}  // namespace unis
