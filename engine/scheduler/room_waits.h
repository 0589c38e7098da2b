// For how long tasks had packets and no room for them behind: an egress that they may leave by held
// θmax. An estimate, by a look at all tasks each millisecond or at the next decision.
#pragma once

#include <vector>

#include "engine/scheduler/core_tasks.h"

namespace unis {

class RoomWaits {
 public:
  explicit RoomWaits(const CoreTasks& tasks) : tasks_(tasks), waited_(tasks.size()) {}

  // All but the current task.
  void Look(Slot current, Nanoseconds now) noexcept {
    if (now < next_) return;
    if (next_ > 0) LookAtAll(current, now - (next_ - kEvery));
    next_ = now + kEvery;
  }
  // After a time in which all tasks slept: it is no wait.
  void BeginAnew() noexcept { next_ = 0; }
  Nanoseconds Of(Slot task) const noexcept { return waited_[task]; }

 private:
  static constexpr Nanoseconds kEvery = 1'000'000;

  void LookAtAll(Slot current, Nanoseconds since) noexcept {
    for (Slot slot = 0; slot < waited_.size(); ++slot)
      if (slot != current && LacksRoom(tasks_[slot])) waited_[slot] += since;
  }
  bool LacksRoom(const TaskState& task) const noexcept {
    if (!tasks_.SeesIngresses(task)) return false;  // nobody knows whether it has packets
    const auto out = tasks_.Out(task);
    bool lacks = false;
    ForEachBit(tasks_.Loaded(task),
               [&](std::uint32_t j) { lacks |= out[j].share > 0 && tasks_.Room(out[j]) <= 0; });
    return lacks;
  }

  const CoreTasks& tasks_;
  std::vector<Nanoseconds> waited_;
  Nanoseconds next_ = 0;  // 0: nobody has looked yet
};

}  // namespace unis
