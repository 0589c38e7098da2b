// For how long tasks had packets and no room for them behind: some egress held θmax. An estimate,
// by a look at all tasks each millisecond.
#pragma once

#include <algorithm>
#include <vector>

#include "engine/scheduler/core_tasks.h"

namespace unis {

class RoomWaits {
 public:
  explicit RoomWaits(const CoreTasks& tasks) : tasks_(tasks), waited_(tasks.size()) {}

  // All but the current task.
  void Look(Slot current, Nanoseconds now) noexcept {
    if (now < next_) return;
    if (next_ > 0) LookAtAll(current, std::min(now - (next_ - kEvery), kMost));
    next_ = now + kEvery;
  }
  Nanoseconds Of(Slot task) const noexcept { return waited_[task]; }

 private:
  static constexpr Nanoseconds kEvery = 1'000'000;
  // A look stands for the time since the last one, and for no more than this: nobody looks while
  // all tasks sleep.
  static constexpr Nanoseconds kMost = 2 * kEvery;

  void LookAtAll(Slot current, Nanoseconds since) noexcept {
    for (Slot slot = 0; slot < waited_.size(); ++slot)
      if (slot != current && LacksRoom(tasks_[slot])) waited_[slot] += since;
  }
  bool LacksRoom(const TaskState& task) const noexcept {
    return std::ranges::any_of(tasks_.In(task),
                               [this](const auto& in) { return tasks_.Packets(in) > 0; }) &&
           std::ranges::any_of(tasks_.Out(task), [this](const auto& out) {
             return out.share > 0 && tasks_.Room(out) <= 0;
           });
  }

  const CoreTasks& tasks_;
  std::vector<Nanoseconds> waited_;
  Nanoseconds next_ = 0;  // 0: nobody has looked yet
};

}  // namespace unis
