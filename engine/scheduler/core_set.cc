#include "engine/scheduler/core_set.h"

#include <algorithm>
#include <limits>
#include <stdexcept>

namespace unis {

std::vector<std::unique_ptr<CoreScheduler>> MakeSchedulers(
    const PolicyTraits& policy, const SchedulerSettings& settings, const TaskSet& tasks,
    CoreIndex cores, Costs& costs, const InterfaceMonitor& monitor, const TimerSubsystem& timer,
    ProcessController& controller, const std::function<SwitchObserver*(CoreIndex)>& observer_of) {
  if (std::ranges::any_of(tasks.tasks, [cores](const Task& task) { return task.core >= cores; }))
    throw std::invalid_argument("a task is mapped to a core that does not exist");
  std::vector<std::unique_ptr<CoreScheduler>> schedulers;
  for (CoreIndex core = 0; core < cores; ++core) {
    if (std::ranges::none_of(tasks.tasks, [core](const Task& task) { return task.core == core; }))
      continue;
    schedulers.push_back(policy.MakeScheduler({.settings = settings,
                                               .tasks = tasks,
                                               .core = core,
                                               .costs = costs,
                                               .monitor = monitor,
                                               .timer = timer,
                                               .controller = controller,
                                               .observer = observer_of(core)}));
  }
  return schedulers;
}

bool CoreSet::Start() {
  return std::ranges::all_of(schedulers_, [](const auto& scheduler) { return scheduler->Start(); });
}

void CoreSet::Remove(const CoreScheduler& scheduler) {
  std::erase_if(schedulers_, [&](const auto& each) { return each.get() == &scheduler; });
  next_decision_ = slack_ = 0;
}

std::uint32_t CoreSet::Tick() noexcept {
  Nanoseconds now = timer_.Now();
  if (now < next_decision_) return 0;
  std::uint32_t switched = 0;
  next_decision_ = slack_ = std::numeric_limits<Nanoseconds>::max();
  for (const auto& scheduler : schedulers_) {
    if (scheduler->Tick(now)) {
      ++switched;
      now = timer_.Now();  // a switch takes its time
    }
    next_decision_ = std::min(next_decision_, scheduler->next_decision());
    slack_ = std::min(slack_, scheduler->slack());
  }
  return switched;
}

void CoreSet::DecideAtNextTick() noexcept {
  next_decision_ = 0;
  for (const auto& scheduler : schedulers_) scheduler->DecideAtNextTick();
}

Nanoseconds CoreSet::idle_for(Nanoseconds now) const noexcept {
  if (schedulers_.empty()) return 0;
  Nanoseconds least = std::numeric_limits<Nanoseconds>::max();
  for (const auto& scheduler : schedulers_) {
    const Nanoseconds until = scheduler->idle_until();
    // A look that is due now does not keep the CPU awake.
    const Nanoseconds idle =
        until > 0 ? std::max<Nanoseconds>(1, until - now) : scheduler->nap(now);
    least = std::min(least, idle);
  }
  return least;
}

bool CoreSet::any_sleeps() const noexcept {
  return std::ranges::any_of(schedulers_,
                             [](const auto& scheduler) { return scheduler->idle_until() > 0; });
}

bool CoreSet::may_nap() const noexcept {
  return !schedulers_.empty() && std::ranges::all_of(schedulers_, [](const auto& scheduler) {
    return scheduler->may_nap();
  });
}

std::uint64_t CoreSet::Sum(std::uint64_t CoreStatistics::*counter) const noexcept {
  std::uint64_t sum = 0;
  for (const auto& scheduler : schedulers_) sum += scheduler->statistics().*counter;
  return sum;
}

}  // namespace unis
