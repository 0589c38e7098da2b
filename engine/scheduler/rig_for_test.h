// Schedulers among fakes.
#pragma once

#include <gtest/gtest.h>

#include <utility>

#include "engine/scheduler/core_set.h"
#include "engine/scheduler/fakes_for_test.h"

namespace unis {

// The schedulers of some cores, watched for their invariant, with fakes around them, and the hands
// to move time and packets.
struct Rig {
  // `yields`: there may be tasks that yield by themselves.
  Rig(const SchedulerSettings& settings, const CostedTasks& tasks, CoreIndex count,
      FakeMonitor links, bool yields = false, Policy policy = Policy::kUnis)
      : monitor(std::move(links)),
        controller(Controller(yields)),
        costs(tasks.costs),
        cores(MakeSchedulers(*TraitsOf(policy), settings, tasks.set, count, costs, monitor, timer,
                             controller, [this](CoreIndex) { return &observer; }),
              timer) {}

  Rig(const Rig&) = delete;  // the schedulers refer to their neighbours
  Rig& operator=(const Rig&) = delete;

  std::uint32_t TickAt(Nanoseconds now) {
    timer.now = now;
    const std::uint32_t switched = cores.Tick();
    for (std::size_t i = 0; i < cores.size(); ++i) EXPECT_TRUE(cores[i].QueueIsSound());
    return switched;
  }
  // As it was last; also while all are parked.
  TaskIndex Current(CoreIndex core) const {
    const auto current = cores[core].statistics().current;
    if (current) last = *current;
    return last;
  }
  std::uint64_t Sum(std::uint64_t CoreStatistics::*counter) const { return cores.Sum(counter); }
  std::uint64_t Switches() const { return Sum(&CoreStatistics::switches); }
  std::uint64_t Decisions() const { return Sum(&CoreStatistics::decisions); }

  static FakeController Controller(bool yields) {
    FakeController controller;
    controller.yields = yields;
    return controller;
  }

  FakeMonitor monitor;
  FakeTimer timer;
  FakeController controller;
  FakeObserver observer;
  Costs costs;
  CoreSet cores;
  mutable TaskIndex last = 0;
};

}  // namespace unis
