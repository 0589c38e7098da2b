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
  Rig(const SchedulerSettings& settings, const CostedTasks& tasks, CoreIndex count,
      FakeMonitor links)
      : monitor(std::move(links)),
        costs(tasks.costs),
        cores(MakeSchedulers(settings, tasks.set, count, costs, monitor, timer, controller,
                             [this](CoreIndex) { return &observer; }),
              timer) {}

  Rig(const Rig&) = delete;  // the schedulers refer to their neighbours
  Rig& operator=(const Rig&) = delete;

  std::uint32_t TickAt(Nanoseconds now) {
    timer.now = now;
    const std::uint32_t switched = cores.Tick();
    for (std::size_t i = 0; i < cores.size(); ++i) EXPECT_TRUE(cores[i].QueueIsSound());
    return switched;
  }
  TaskIndex Current(CoreIndex core) const { return cores[core].Current(); }

  FakeMonitor monitor;
  FakeTimer timer;
  FakeController controller;
  FakeObserver observer;
  Costs costs;
  CoreSet cores;
};

}  // namespace unis
