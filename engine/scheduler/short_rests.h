// Between packets the tasks of a core sleep, where all of them yield by themselves: until an eighth
// of an ingress is full, or a packet has waited for max_delay. Then those that have work run once,
// in the order of the line, and each sleeps again where it finds its ports empty.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/scheduler/components.h"
#include "engine/scheduler/core_tasks.h"

namespace unis {

class ShortRests {
 public:
  ShortRests(const CoreTasks& tasks, ProcessController& controller)
      : tasks_(tasks), controller_(controller) {}

  // Before the first task runs. `possible`: all tasks yield, and none waits for room behind it.
  void Start(bool possible);
  // All tasks sleep, or will where they have done their work.
  bool active() const noexcept { return active_; }
  std::uint64_t times() const noexcept { return times_; }
  std::uint64_t wakes() const noexcept { return wakes_; }  // while active

  // A look while tasks spin; `turn_seen`: a turn has begun since the last one. True: little waits
  // anywhere, also at a look before, and nobody keeps the CPU; from now on tasks sleep.
  bool BeginsAfter(bool turn_seen, Nanoseconds now) noexcept;
  // A look while active. False: there is so much work, or one task keeps the CPU so long, that
  // tasks spin again; none sleeps.
  bool Look(bool turn_seen, Nanoseconds now) noexcept;

 private:
  static constexpr Nanoseconds kNever = -1;
  // Of the fullest ingress.
  enum class Waiting { kNone, kLittle, kMuch, kHalfFull };

  Waiting Look() const noexcept;
  void ParkAll(Nanoseconds now) noexcept;
  void End() noexcept;
  void Wake(Nanoseconds now) noexcept;

  const CoreTasks& tasks_;
  ProcessController& controller_;
  bool allowed_ = false, active_ = false;
  Nanoseconds calm_since_ = kNever;    // little waits, while tasks spin
  Nanoseconds since_ = kNever;         // packets wait, while tasks sleep
  Nanoseconds behind_since_ = kNever;  // much waits, while tasks run
  Nanoseconds woken_at_ = 0;
  bool started_ = false;      // a turn was seen since then
  bool out_of_turn_ = false;  // all tasks were, at the last look
  Nanoseconds turn_at_ = 0;   // when a turn was seen to begin last
  Nanoseconds renewed_ = 0;
  std::uint64_t times_ = 0, wakes_ = 0;
  std::vector<bool> woken_;  // per task
};

}  // namespace unis
