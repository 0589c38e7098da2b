// The schedulers of several cores on one thread: each ticks in turn.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "engine/scheduler/scheduler.h"

namespace unis {

// Algorithm 1 for those of `cores` cores that have a task, in their order: what the engine and the
// simulator both run. A task on none of them is std::invalid_argument. The references but that to
// `tasks` must outlive the schedulers; `observer_of` a core may be null.
std::vector<std::unique_ptr<Scheduler>> MakeSchedulers(
    const SchedulerSettings& settings, const TaskSet& tasks, CoreIndex cores, Costs& costs,
    const InterfaceMonitor& monitor, const TimerSubsystem& timer, ProcessController& controller,
    const std::function<SwitchObserver*(CoreIndex)>& observer_of);

class CoreSet {
 public:
  // All of `schedulers`, or those of the cores that this thread has. `timer` is theirs.
  CoreSet(std::vector<std::unique_ptr<Scheduler>> schedulers, const TimerSubsystem& timer)
      : schedulers_(std::move(schedulers)), timer_(timer) {}

  // False: a core could not be started; those before it run.
  bool Start();
  // Returns how many cores it switched.
  std::uint32_t Tick() noexcept;

  std::size_t size() const noexcept { return schedulers_.size(); }
  Scheduler& operator[](std::size_t i) noexcept { return *schedulers_[i]; }
  const Scheduler& operator[](std::size_t i) const noexcept { return *schedulers_[i]; }

  // Sums over the cores.
  std::uint64_t Decisions() const noexcept;
  std::uint64_t Switches() const noexcept;
  std::uint64_t FailedSwitches() const noexcept;

 private:
  std::vector<std::unique_ptr<Scheduler>> schedulers_;
  const TimerSubsystem& timer_;
};

}  // namespace unis
