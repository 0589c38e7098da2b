// Parks tasks without packets, so that the CPU is free, and unparks them when packets come.
//
// Either all tasks of a core are parked, or single tasks that yield by themselves while others
// work: in the line, a task without packets would cost the others a poll and a yield a round.
//
// Of links that nobody can look into only a task that polls knows whether they have packets. All
// tasks of such a core are parked after a while in which none has taken any, and woken for a poll
// every max_delay. So a packet waits no longer than that, until one of them takes it.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "engine/scheduler/components.h"
#include "engine/scheduler/core_tasks.h"
#include "engine/scheduler/demand.h"

namespace unis {

class Parking {
 public:
  Parking(const CoreTasks& tasks, const Demand& demand, ProcessController& controller);

  // The whole core.

  bool all_parked() const noexcept { return all_parked_; }
  // All are parked until then, if no packet comes; 0: they are not, or may have some already.
  Nanoseconds idle_until() const noexcept {
    return all_parked_ && !unseen() ? renewed_ + ProcessController::kRenewParkEvery : 0;
  }
  // Before the first task runs: where links cannot be looked into, the tasks themselves, all of
  // which yield, say what they have taken.
  void CountBy(const YieldingTasks& tasks) noexcept;
  bool unseen() const noexcept { return takers_ != nullptr; }
  std::uint64_t times() const noexcept { return times_; }  // that all were parked
  // For how long, together.
  Nanoseconds parked(Nanoseconds now) const noexcept {
    return parked_before_ + (all_parked_ ? now - parked_since_ : 0);
  }
  // So soon after the tasks were unparked that any packet is work: the first ones wait neither for
  // more packets nor for max_wait at each function on their way.
  bool eager(Nanoseconds now) const noexcept { return now < eager_until_; }
  // A look that leaves the current task where it is. Parks all tasks after a while without packets.
  void LookForIdleCore(Slot current, Nanoseconds now) noexcept;
  // While all are parked. True: there are packets again; no task counts as parked any longer, and
  // UnparkAll() is to follow.
  bool LookForPackets(Slot current, Nanoseconds now) noexcept;
  // `first` before the others.
  void UnparkAll(Slot first) noexcept;
  bool CanParkAll() const noexcept;
  // Also renews. `all_parked` stays as it is, and no task counts as parked alone any longer.
  void ParkAll() noexcept;
  // The first task that cannot be parked, or of which nobody knows whether it has packets, so that
  // the core spins; none where parking is off.
  std::optional<TaskIndex> WhoCannotPark() const noexcept;

  // Single tasks.

  // Before the first task runs: whether single tasks may be parked at all.
  void AllowSingle(bool allowed);
  bool IsParked(Slot slot) const noexcept { return !singles_.empty() && singles_[slot].parked; }
  bool any_parked() const noexcept { return parked_ > 0; }
  // Parks tasks but `current` that have long had no packets.
  void LookForIdleTasks(Slot current, Nanoseconds now) noexcept;
  // Unparks tasks that have packets, and those behind them in their chains. True: there are some.
  bool LookAtParkedTasks(Nanoseconds now) noexcept;

 private:
  static constexpr Nanoseconds kNotIdle = -1;
  struct Single {
    bool parked = false;
    std::uint16_t moved = 0;       // packets, ever, at the last look; wraps
    Nanoseconds since = kNotIdle;  // it has no packets, or is parked
    Nanoseconds patience = 0;      // it is parked after so long without packets
  };

  bool AnyHasPackets(Slot current) const noexcept;
  std::uint16_t Moved() const noexcept;
  Nanoseconds PatienceAfter(Nanoseconds parked, Nanoseconds patience) const noexcept;
  void Unpark(Slot slot, Nanoseconds parked, Nanoseconds now) noexcept;

  const CoreTasks& tasks_;
  const Demand& demand_;
  ProcessController& controller_;
  const YieldingTasks* takers_ = nullptr;  // null: all ingresses are seen, or no task is parked

  bool all_parked_ = false;
  Nanoseconds eager_until_ = 0;
  Nanoseconds idle_since_ = kNotIdle;  // no task has had a packet since then
  Nanoseconds patience_ = 0;           // all are parked after so long; 0: never
  std::uint16_t moved_by_all_ = 0;
  Nanoseconds parked_at_ = 0;  // or they were seen to move packets nevertheless
  Nanoseconds parked_since_ = 0, parked_before_ = 0;
  Nanoseconds renewed_ = 0, woken_ = 0;
  std::uint64_t times_ = 0;

  std::vector<Single> singles_;  // per task; empty: none is parked alone
  std::uint32_t parked_ = 0;
  Nanoseconds next_look_ = 0;
  Nanoseconds singles_renewed_ = 0;
};

}  // namespace unis
