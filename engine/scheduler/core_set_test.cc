// Schedulers of several cores: all on one thread, or each on its own.
#include "engine/scheduler/core_set.h"

#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "engine/scheduler/algorithm_one.h"
#include "engine/scheduler/paper_for_test.h"

namespace unis {
namespace {

CostedTasks TwoTasksEach(CoreIndex cores) {
  std::vector<OnePath> tasks;
  for (LinkIndex i = 0; i < 2 * cores; ++i) tasks.push_back({i / 2, 2 * i, 2 * i + 1, 1});
  return tasks;
}

FakeMonitor FullLinks(CoreIndex cores) {
  FakeMonitor links;
  for (CoreIndex i = 0; i < 4 * cores; ++i) {
    links.packets.push_back(i % 2 == 0 ? 1000 : 0);
    links.capacity.push_back(kCapacity);
  }
  return links;
}

// Each switch takes its time, which the cores behind see.
struct SlowController final : ProcessController {
  explicit SlowController(FakeTimer& timer) : timer(timer) {}
  bool Switch(CoreIndex, TaskIndex, TaskIndex) noexcept override {
    timer.now += 8'000;
    return true;
  }
  bool Start(CoreIndex, TaskIndex) noexcept override { return true; }
  FakeTimer& timer;
};

struct SlowRig {
  explicit SlowRig(CoreIndex count)
      : tasks(TwoTasksEach(count)),
        costs(tasks.costs),
        links(FullLinks(count)),
        controller(timer),
        cores(MakeSchedulers(*TraitsOf(Policy::kUnis), {}, tasks.set, count, costs, links, timer,
                             controller, [this](CoreIndex) { return &observer; }),
              timer) {
    cores.Start();
    timer.now = 1'536;  // all slices are over
  }
  CostedTasks tasks;
  Costs costs;
  FakeMonitor links;
  FakeTimer timer;
  SlowController controller;
  FakeObserver observer;
  CoreSet cores;
};

TEST(CoreSetTest, ACoreIsLookedAtWhenTheSwitchBeforeItIsOver) {
  SlowRig rig(2);
  EXPECT_EQ(rig.cores.Tick(), 2u);
  EXPECT_EQ(rig.observer.records.back().time, 1'536 + 8'000);
  EXPECT_EQ(rig.cores.Sum(&CoreStatistics::switches), 2u);
  EXPECT_EQ(rig.cores.Sum(&CoreStatistics::decisions), 2u);
}

TEST(CoreSetTest, TheNextDecisionIsTAfterTheSwitch) {
  SlowRig rig(1);
  EXPECT_EQ(rig.cores.Tick(), 1u);
  rig.timer.now += kT - 1;
  rig.cores.Tick();
  EXPECT_EQ(rig.cores.Sum(&CoreStatistics::decisions), 1u);
  rig.timer.now += 1;
  rig.cores.Tick();
  EXPECT_EQ(rig.cores.Sum(&CoreStatistics::decisions), 2u);
}

// Each core is due at a time of its own, and one that comes is due at once.
TEST(CoreSetTest, ACoreThatComesOrGoesMakesNoOtherLate) {
  SlowRig rig(2);
  CoreSet cores({}, rig.timer);
  const auto made = [&](CoreIndex core) {
    auto scheduler = std::make_unique<AlgorithmOne>(
        SchedulerSettings{}, rig.tasks.set, core, rig.costs, rig.links, rig.timer, rig.controller);
    EXPECT_TRUE(scheduler->Start());
    return scheduler;
  };
  const auto decisions = [&](std::size_t i) { return cores[i].statistics().decisions; };
  EXPECT_EQ(cores.Tick(), 0U) << "without a core";
  cores.Add(made(0));
  rig.timer.now += 100 * kT;
  cores.Tick();
  EXPECT_EQ(decisions(0), 1U);
  cores.Add(made(1));
  rig.timer.now += kT - 1;
  cores.Tick();
  EXPECT_EQ(decisions(1), 0U) << "it began just now";
  rig.timer.now += 1;
  cores.Tick();
  EXPECT_EQ(decisions(0), 2U);
  EXPECT_EQ(decisions(1), 1U);
  cores.Remove(cores[0]);
  rig.timer.now += 100 * kT;
  cores.Tick();
  EXPECT_EQ(decisions(0), 2U) << "of the one that is left";
}

// Sleeps, or does not, as the test says.
struct SleepyScheduler final : CoreScheduler {
  SleepyScheduler(CoreIndex core, Nanoseconds slack) : CoreScheduler(core), slack_ns(slack) {}
  bool Start() override { return true; }
  CoreStatistics statistics() const noexcept override { return {}; }
  std::uint64_t SwitchedIn(TaskIndex) const noexcept override { return 0; }
  Nanoseconds slack() const noexcept override { return slack_ns; }
  Nanoseconds idle_until() const noexcept override { return until; }
  Nanoseconds nap(Nanoseconds) const noexcept override { return slack_ns / 2; }
  bool may_nap() const noexcept override { return slack_ns > 0; }
  bool Decide(Nanoseconds now) noexcept override {
    next_decision_ = now + kT;
    return false;
  }
  Nanoseconds slack_ns, until = 0;
};

TEST(CoreSetTest, PacketsMayBeKeptBackForAsLongAsEachCoreAllows) {
  FakeTimer timer;
  CoreSet cores({}, timer);
  const auto slack = [&] {
    cores.Tick();
    return cores.slack();
  };
  EXPECT_EQ(slack(), 0) << "without a core";
  EXPECT_EQ(cores.idle_for(0), 0);
  EXPECT_FALSE(cores.may_nap());
  for (const auto& [core, ns] : {std::pair<CoreIndex, Nanoseconds>{0, 200}, {1, 100}})
    cores.Add(std::make_unique<SleepyScheduler>(core, ns));
  EXPECT_EQ(slack(), 100);
  EXPECT_EQ(cores.idle_for(0), 50);
  EXPECT_TRUE(cores.may_nap());
  cores.Add(std::make_unique<SleepyScheduler>(2, 0));
  EXPECT_EQ(slack(), 0) << "one does not sleep";
  EXPECT_EQ(cores.idle_for(0), 0);
  EXPECT_FALSE(cores.may_nap());
  cores.Remove(cores[2]);
  EXPECT_EQ(slack(), 100) << "from now on";
  cores.Remove(cores[1]);
  EXPECT_EQ(cores.slack(), 0) << "until the others have been asked";
  EXPECT_EQ(slack(), 200);
  cores.Remove(cores[0]);
  EXPECT_EQ(slack(), 0);
}

TEST(CoreSetTest, ANapEndsWhenTheFirstCoreIsDue) {
  FakeTimer timer;
  CoreSet cores({}, timer);
  auto asleep = std::make_unique<SleepyScheduler>(0, 0);
  SleepyScheduler& first = *asleep;
  first.until = 1'030;
  cores.Add(std::move(asleep));
  EXPECT_EQ(cores.idle_for(1'000), 30);
  EXPECT_TRUE(cores.any_sleeps());
  cores.Add(std::make_unique<SleepyScheduler>(1, 100));
  EXPECT_EQ(cores.idle_for(1'000), 30) << "the other may nap for longer";
  first.until = 1'080;
  EXPECT_EQ(cores.idle_for(1'000), 50);
  first.until = 900;
  EXPECT_EQ(cores.idle_for(1'000), 1) << "late";
}

TEST(CoreSetTest, ACoreWithoutATaskHasNoScheduler) {
  CostedTasks tasks = TwoTasksEach(3);
  for (Task& task : tasks.set.tasks)
    if (task.core == 1) task.core = 2;
  Costs costs(tasks.costs);
  const FakeMonitor links = FullLinks(3);
  FakeTimer timer;
  FakeController controller;
  std::vector<CoreIndex> observed;
  const auto observer_of = [&](CoreIndex core) -> SwitchObserver* {
    observed.push_back(core);
    return nullptr;
  };
  const auto schedulers = MakeSchedulers(*TraitsOf(Policy::kUnis), {}, tasks.set, 4, costs, links,
                                         timer, controller, observer_of);
  ASSERT_EQ(schedulers.size(), 2U);
  EXPECT_EQ(schedulers[1]->core(), 2U);
  EXPECT_EQ(observed, (std::vector<CoreIndex>{0, 2}));
  EXPECT_THROW(MakeSchedulers(*TraitsOf(Policy::kUnis), {}, tasks.set, 2, costs, links, timer,
                              controller, observer_of),
               std::invalid_argument);
}

struct NoController final : ProcessController {
  bool Switch(CoreIndex, TaskIndex, TaskIndex) noexcept override { return true; }
  bool Start(CoreIndex, TaskIndex) noexcept override { return true; }
};

struct StaticMonitor final : InterfaceMonitor {
  std::uint32_t NumPkts(LinkIndex link) const noexcept override { return link % 2 == 0 ? 1000 : 0; }
  std::uint32_t PktCap(LinkIndex) const noexcept override { return 2048; }
};

// For the thread sanitizer: nothing but atomics is shared.
TEST(CoreSetTest, CoresOnThreadsOfTheirOwnShareNothing) {
  constexpr CoreIndex kCores = 3;
  constexpr int kTicks = 20'000;
  const CostedTasks tasks = TwoTasksEach(kCores);
  Costs costs(tasks.costs);
  const StaticMonitor links;
  NoController controller;
  const SchedulerSettings settings;
  std::vector<FakeTimer> timers(kCores);
  std::vector<std::unique_ptr<CoreScheduler>> schedulers;
  for (CoreIndex core = 0; core < kCores; ++core) {
    schedulers.push_back(std::make_unique<AlgorithmOne>(settings, tasks.set, core, costs, links,
                                                        timers[core], controller));
  }
  std::vector<std::thread> threads;
  for (CoreIndex core = 0; core < kCores; ++core) {
    threads.emplace_back([&, core] {
      schedulers[core]->Start();
      for (int tick = 0; tick < kTicks; ++tick) {
        timers[core].now += kT;
        schedulers[core]->Tick(timers[core].now);
      }
    });
  }
  for (int i = 0; i < kTicks; ++i) {
    costs.Set(static_cast<FunctionIndex>(i) % (2 * kCores), 1);
  }
  for (std::thread& thread : threads) thread.join();
  for (CoreIndex core = 1; core < kCores; ++core) {
    EXPECT_EQ(schedulers[core]->statistics().switches, schedulers[0]->statistics().switches);
  }
  EXPECT_GT(schedulers[0]->statistics().switches, 1'000u);
}

}  // namespace
}  // namespace unis
