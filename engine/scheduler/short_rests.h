// The tasks of a core sleep between packets, if all of them yield by themselves. They sleep until
// a quarter of an ingress is full, a packet has waited for max_delay, or one comes long after the
// last ones. Then the tasks with packets run once, in the order of the line. Each sleeps again when
// it finds its ports empty.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "engine/scheduler/components.h"
#include "engine/scheduler/core_tasks.h"
#include "engine/scheduler/parking.h"

namespace unis {

class ShortRests {
 public:
  ShortRests(const CoreTasks& tasks, Parking& parking, ProcessController& controller)
      : tasks_(tasks), parking_(parking), controller_(controller) {}

  // Before the first task runs. `possible`: all tasks yield, and none waits for room behind it.
  void Start(bool possible);
  // All tasks sleep, or will where they have done their work.
  bool active() const noexcept { return active_; }
  // All tasks sleep until then, and a packet that comes waits. 0: a task runs, was woken, or may.
  Nanoseconds idle_until() const noexcept { return idle_until_; }
  std::uint64_t times() const noexcept { return times_; }
  std::uint64_t wakes() const noexcept { return wakes_; }  // while active
  // That the first packets had waited when tasks were woken, at most; the sum of all wakes.
  Nanoseconds wake_delay() const noexcept { return wake_delay_; }
  // A task that was seen to send packets which it kept while it slept. From then on no task sleeps
  // between packets: what it sends by a timer would be sent late.
  std::optional<TaskIndex> sends_by_timer() const noexcept { return sends_by_timer_; }

  // A look while tasks spin; `turn_seen`: a turn has begun since the last look. True: tasks sleep
  // from now on, because two looks have found few packets, and no task keeps the CPU.
  bool BeginsAfter(bool turn_seen, Nanoseconds now) noexcept;
  // A look while active. False: tasks spin again, because there is too much work, or one of them
  // keeps the CPU.
  bool Look(bool turn_seen, Nanoseconds now) noexcept;

 private:
  static constexpr Nanoseconds kNever = -1;
  // Of the fullest ingress.
  enum class Waiting { kNone, kLittle, kMuch, kHalfFull };

  // What a task had taken and sent when it was last seen asleep with nothing to do; both wrap.
  struct Asleep {
    std::uint16_t taken = 0, sent = 0;
    std::uint8_t times = 0;  // of late, that it has sent since then, and taken nothing
    Nanoseconds first = 0;   // of these
  };

  Waiting Look() const noexcept;
  bool SpinAgain() noexcept;  // returns false, as Look() does then
  bool FindTimers(Nanoseconds now) noexcept;
  void ParkAll(Nanoseconds now) noexcept;
  void Wake(Nanoseconds now) noexcept;
  void WakeChain(Slot slot) noexcept;

  const CoreTasks& tasks_;
  Parking& parking_;
  ProcessController& controller_;
  bool allowed_ = false, active_ = false;
  Nanoseconds calm_since_ = kNever;    // little waits, while tasks spin
  Nanoseconds not_before_ = 0;         // tasks sleep again
  Nanoseconds since_ = kNever;         // packets may wait, while tasks sleep
  Nanoseconds behind_since_ = kNever;  // much waits, while tasks run
  Nanoseconds woken_at_ = 0;
  bool started_ = false;      // a turn was seen since then
  bool out_of_turn_ = false;  // all tasks were, at the last look
  Nanoseconds turn_at_ = 0;   // when a turn was seen to begin last
  Nanoseconds renewed_ = 0;
  Nanoseconds looked_at_ = 0, looked_before_ = 0;
  Nanoseconds idle_until_ = 0;
  std::uint64_t times_ = 0, wakes_ = 0;
  std::vector<bool> woken_;     // per task
  std::vector<Asleep> asleep_;  // per task
  bool seen_asleep_ = false;    // since the last wake
  Nanoseconds asleep_at_ = 0;   // when that was
  Nanoseconds wake_delay_ = 0;
  std::optional<TaskIndex> sends_by_timer_;
};

}  // namespace unis
