#include "engine/scheduler/core_set.h"

#include <algorithm>
#include <stdexcept>

namespace unis {
namespace {

template <typename Number>
std::uint64_t Sum(const std::vector<std::unique_ptr<Scheduler>>& schedulers, Number number) {
  std::uint64_t sum = 0;
  for (const auto& scheduler : schedulers) sum += ((*scheduler).*number)();
  return sum;
}

}  // namespace

std::vector<std::unique_ptr<Scheduler>> MakeSchedulers(
    const SchedulerSettings& settings, const TaskSet& tasks, CoreIndex cores, Costs& costs,
    const InterfaceMonitor& monitor, const TimerSubsystem& timer, ProcessController& controller,
    const std::function<SwitchObserver*(CoreIndex)>& observer_of) {
  if (std::ranges::any_of(tasks.tasks, [cores](const Task& task) { return task.core >= cores; }))
    throw std::invalid_argument("a task is mapped to a core that is not there");
  std::vector<std::unique_ptr<Scheduler>> schedulers;
  for (CoreIndex core = 0; core < cores; ++core) {
    if (std::ranges::none_of(tasks.tasks, [core](const Task& task) { return task.core == core; }))
      continue;
    schedulers.push_back(std::make_unique<Scheduler>(settings, tasks, core, costs, monitor, timer,
                                                     controller, observer_of(core)));
  }
  return schedulers;
}

bool CoreSet::Start() {
  return std::ranges::all_of(schedulers_, [](const auto& scheduler) { return scheduler->Start(); });
}

std::uint32_t CoreSet::Tick() noexcept {
  Nanoseconds now = timer_.Now();
  std::uint32_t switched = 0;
  for (const auto& scheduler : schedulers_) {
    if (!scheduler->Tick(now)) continue;
    ++switched;
    now = timer_.Now();  // a switch takes its time
  }
  return switched;
}

std::uint64_t CoreSet::Decisions() const noexcept {
  return Sum(schedulers_, &Scheduler::Decisions);
}
std::uint64_t CoreSet::Switches() const noexcept { return Sum(schedulers_, &Scheduler::Switches); }
std::uint64_t CoreSet::FailedSwitches() const noexcept {
  return Sum(schedulers_, &Scheduler::FailedSwitches);
}

}  // namespace unis
