// Which share of the packets that a task takes leaves by each of its egresses: learned from the
// counters of the links while the task runs. Until then an egress counts as if all packets went
// there.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/scheduler/core_tasks.h"

namespace unis {

class Shares {
 public:
  explicit Shares(CoreTasks& tasks);

  // A look at a task of this core. Nothing to do for a task whose packets have one way each.
  void Look(Slot slot) noexcept {
    if (!branches_.empty() && branches_[slot]) LookAt(tasks_[slot]);
  }

 private:
  struct Sample {
    std::uint16_t last = 0;   // the counter of the egress at the last look
    std::uint32_t taken = 0;  // packets that could have left by the egress
    std::uint32_t sent = 0;   // packets that did
  };

  void LookAt(TaskState& task) noexcept;

  CoreTasks& tasks_;
  std::vector<bool> branches_;           // per task; empty: none does
  std::vector<std::uint16_t> received_;  // per ingress, at the last look
  std::vector<Sample> samples_;          // per egress
};

}  // namespace unis
