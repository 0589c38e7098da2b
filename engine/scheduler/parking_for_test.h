// A core whose tasks are parked once they have had no packets for kIdleAfter.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "engine/scheduler/paper_for_test.h"

namespace unis {

using TaskList = std::vector<TaskIndex>;
constexpr Nanoseconds kIdleAfter = 500'000;

inline SchedulerSettings ParkingAfter(Nanoseconds idle_after) {
  SchedulerSettings settings;
  settings.idle_after = idle_after;
  settings.max_wait = 1'000'000;
  return settings;
}

struct ParkingCoreTest : testing::Test {
  // `in_line`: the tasks that yield by themselves; none: no task does.
  ParkingCoreTest(const CostedTasks& tasks, const std::vector<std::uint32_t>& packets,
                  TaskList in_line, Nanoseconds idle_after = kIdleAfter)
      : rig(ParkingAfter(idle_after), tasks, 1, Filled(packets), !in_line.empty()) {
    rig.controller.can_park = true;
    rig.observer.wanted = in_line.empty();
    rig.controller.in_line = std::move(in_line);
    EXPECT_TRUE(rig.cores.Start());
  }
  virtual void BeforeTick() {}
  // Ticks every T for so long.
  void Pass(Nanoseconds time) {
    for (const Nanoseconds end = rig.timer.now + time; rig.timer.now < end;) {
      BeforeTick();
      rig.TickAt(rig.timer.now + kT);
    }
  }
  bool AllParked() const { return rig.cores[0].statistics().parked; }
  TaskList Parked() const {
    TaskList parked = rig.controller.parked;
    std::ranges::sort(parked);
    return parked;
  }

  Rig rig;
};

}  // namespace unis
