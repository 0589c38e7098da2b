// Whether tasks that yield by themselves have their turns in the order of the chains. The kernel
// puts a task that wakes up behind all others. In another order than that of the chains a packet
// waits at a function for the next round of the line.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/scheduler/components.h"
#include "engine/scheduler/core_tasks.h"

namespace unis {

class LineOrder {
 public:
  LineOrder(const CoreTasks& tasks, YieldingTasks& yielding);

  // Counts the switches of the last round of the line, each once. Rounds between two looks are not
  // seen. `keep`: puts the line in order where two such rounds were not, beginning with `current`.
  void Look(bool keep, Slot current, Nanoseconds now) noexcept;

  // Of tasks that yielded to the next, among three or more.
  std::uint64_t seen() const noexcept { return seen_; }
  std::uint64_t out_of_order() const noexcept { return out_of_order_; }
  std::uint64_t repairs() const noexcept { return repairs_; }

 private:
  void Repair(Slot current, Nanoseconds now) noexcept;

  const CoreTasks& tasks_;
  YieldingTasks& yielding_;
  // Of those that had a turn in the last round: when it began, in the order of the tasks; and their
  // places there, in the order of the turns.
  std::vector<YieldingTasks::TurnTimes> times_;
  std::vector<std::uint64_t> began_;
  std::vector<std::uint32_t> turns_;
  std::uint64_t counted_until_ = 0;  // on the clock of the tasks
  std::uint64_t seen_ = 0, out_of_order_ = 0, repairs_ = 0;
  std::uint32_t wrong_rounds_ = 0;  // one after the other
  const Nanoseconds least_pause_;
  Nanoseconds pause_, repair_after_ = 0;
};

}  // namespace unis
