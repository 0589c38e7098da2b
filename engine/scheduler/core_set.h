// The schedulers of several cores on one thread: each ticks in turn.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "engine/scheduler/core_scheduler.h"
#include "engine/scheduler/policy.h"

namespace unis {

// The schedulers of `policy` for those of `cores` cores that have a task, in their order. A task on
// none of them is std::invalid_argument. The references but that to `tasks` must outlive the
// schedulers; `observer_of` a core may be null.
std::vector<std::unique_ptr<CoreScheduler>> MakeSchedulers(
    const PolicyTraits& policy, const SchedulerSettings& settings, const TaskSet& tasks,
    CoreIndex cores, Costs& costs, const InterfaceMonitor& monitor, const TimerSubsystem& timer,
    ProcessController& controller, const std::function<SwitchObserver*(CoreIndex)>& observer_of);

class CoreSet {
 public:
  // All of `schedulers`, or those of the cores that this thread has. `timer` is theirs.
  CoreSet(std::vector<std::unique_ptr<CoreScheduler>> schedulers, const TimerSubsystem& timer)
      : schedulers_(std::move(schedulers)), timer_(timer) {}

  // False: a core could not be started; those before it run.
  bool Start();
  // Of a core that was started.
  void Add(std::unique_ptr<CoreScheduler> scheduler) {
    schedulers_.push_back(std::move(scheduler));
    next_decision_ = slack_ = 0;
  }
  void Remove(const CoreScheduler& scheduler);
  // Returns how many cores it switched.
  std::uint32_t Tick() noexcept;
  // Each scheduler decides in the next Tick(), also before its interval has passed.
  void DecideAtNextTick() noexcept;

  // How long the platform's CPU may nap: the least over all schedulers. A scheduler whose tasks
  // sleep allows a nap until its idle_until(), another one its nap(). 0: no nap, or no scheduler.
  Nanoseconds idle_for(Nanoseconds now) const noexcept;
  bool any_sleeps() const noexcept;  // all tasks of a core
  // Whether it may while tasks run.
  bool may_nap() const noexcept;
  // The least slack() of the schedulers at the last decisions; 0 without a scheduler.
  Nanoseconds slack() const noexcept { return schedulers_.empty() ? 0 : slack_; }

  std::size_t size() const noexcept { return schedulers_.size(); }
  CoreScheduler& operator[](std::size_t i) noexcept { return *schedulers_[i]; }
  const CoreScheduler& operator[](std::size_t i) const noexcept { return *schedulers_[i]; }

  // A counter of all cores.
  std::uint64_t Sum(std::uint64_t CoreStatistics::*counter) const noexcept;

 private:
  std::vector<std::unique_ptr<CoreScheduler>> schedulers_;
  const TimerSubsystem& timer_;
  Nanoseconds next_decision_ = 0;  // the earliest of them all
  Nanoseconds slack_ = 0;
};

}  // namespace unis
