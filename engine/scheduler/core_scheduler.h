// The scheduler of one core, as the engine and the simulator see it, whatever the policy.
//
// Pure and replayable: the same answers of monitor, timer and controller give the same switches.
// One thread calls what is not const; a tick allocates nothing, takes no lock and makes no system
// call but the controller's. Schedulers of different cores share no mutable state, so each may have
// a thread of its own. To add a policy: docs/architecture.md.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "engine/scheduler/components.h"

namespace unis {

// What a scheduler tells of its core. A policy leaves at 0 what it does not have.
struct CoreStatistics {
  // Now.
  std::optional<TaskIndex> current = {};         // none: all tasks are parked
  std::optional<TaskIndex> cannot_park = {};     // a task for which the core spins without work
  std::optional<TaskIndex> sends_by_timer = {};  // a task for which none sleeps between packets
  bool parked = false;                           // all tasks
  std::uint32_t budget = 0;                      // packets of a turn; 0: no task yields by itself
  Nanoseconds switch_ns = 0;  // from the decision until the next task runs, as seen
  // Counters since the scheduler was made.
  std::uint64_t decisions = 0;  // looks at the core
  std::uint64_t switches = 0;   // with those that tasks made
  // The switches by SwitchReason. Turns that tasks count by themselves are all under kSelf.
  std::array<std::uint64_t, kSwitchReasons> reasons = {};
  std::uint64_t failed_switches = 0;  // that the controller could not make
  std::uint64_t parks = 0;            // times that all tasks were parked
  Nanoseconds all_parked = 0;         // for how long; without sleep between packets
  std::uint64_t wakes = 0;            // of tasks that sleep between packets; each ran them once
  Nanoseconds wake_delay = 0;         // that the first packets had waited then, at most; the sum
  // Yields of a task to another that were seen, where three or more take turns: a part of all.
  std::uint64_t yields_seen = 0;
  std::uint64_t yields_out_of_order = 0;  // of those: to another than the next of the chain
  std::uint64_t order_repairs = 0;        // times that tasks were put back into their order

  // The schedulers of a core one after the other: counters add up, and what is now is that of
  // `later`.
  void GoOnWith(const CoreStatistics& later) {
    const CoreStatistics before = *this;
    *this = later;
    decisions += before.decisions;
    switches += before.switches;
    for (std::size_t i = 0; i < kSwitchReasons; ++i) reasons[i] += before.reasons[i];
    failed_switches += before.failed_switches;
    parks += before.parks;
    all_parked += before.all_parked;
    wakes += before.wakes;
    wake_delay += before.wake_delay;
    yields_seen += before.yields_seen;
    yields_out_of_order += before.yields_out_of_order;
    order_repairs += before.order_repairs;
  }
};

class alignas(64) CoreScheduler {
 public:
  explicit CoreScheduler(CoreIndex core) : core_(core) {}
  virtual ~CoreScheduler() = default;
  CoreScheduler(const CoreScheduler&) = delete;
  CoreScheduler& operator=(const CoreScheduler&) = delete;

  // Runs the first task of the wait queue, or the first that can be started. False: none could.
  virtual bool Start() = 0;
  // Does nothing until T has passed since the last decision. True: it switched.
  bool Tick(Nanoseconds now) noexcept { return now >= next_decision_ && Decide(now); }
  Nanoseconds next_decision() const noexcept { return next_decision_; }
  void DecideAtNextTick() noexcept { next_decision_ = 0; }

  CoreIndex core() const noexcept { return core_; }
  virtual CoreStatistics statistics() const noexcept = 0;
  // Until then the platform's CPU may nap: all tasks sleep, and a packet that comes waits. 0: it
  // may not.
  virtual Nanoseconds idle_until() const noexcept { return 0; }
  // How long the platform's CPU may nap from now on while tasks run. 0: not at all.
  virtual Nanoseconds nap(Nanoseconds) const noexcept { return 0; }
  // Whether it may at times.
  virtual bool may_nap() const noexcept { return false; }
  // How long the platform may keep a packet back that comes. 0: not at all.
  virtual Nanoseconds slack() const noexcept { return 0; }
  virtual std::uint64_t SwitchedIn(TaskIndex task) const noexcept = 0;  // times; 0: of another core
  // For how long the task had packets, and an egress without room for them. 0: of another core,
  // or the policy does not know.
  virtual Nanoseconds WaitedForRoom(TaskIndex) const noexcept { return 0; }
  // Of a policy with a wait queue: current task and queue are a permutation of the tasks. For
  // tests.
  virtual bool QueueIsSound() const noexcept { return true; }

 protected:
  virtual bool Decide(Nanoseconds now) noexcept = 0;

  Nanoseconds next_decision_ = 0;

 private:
  const CoreIndex core_;
};

}  // namespace unis
