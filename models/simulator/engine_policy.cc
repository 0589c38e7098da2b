#include "models/simulator/engine_policy.h"

#include <algorithm>
#include <utility>

namespace unis::sim {

EnginePolicy::EnginePolicy(const Scenario& scenario, Machine& machine, SwitchObserver& observer)
    : machine_(machine),
      spec_(scenario.machine),
      handover_(scenario.handover && TraitsOf(scenario.policy)->hands_over()),
      interval_(scenario.scheduler.interval * kNanosecond),
      call_(FromNs(spec_.switch_call_ns)),
      switch_(FromNs(spec_.switch_ns)),
      preemption_(std::min(FromNs(spec_.kernel_switch_ns), switch_)),
      yield_(FromNs(spec_.yield_ns)),
      lines_(machine),
      passers_(machine.rings().tasks().tasks.size()),
      preempted_(machine.cores(), 0),
      faults_(Random(scenario.seed ^ 0x5EED).Next()),
      costs_(machine.rings().scheduled_costs()),
      cores_(MakeSchedulers(*TraitsOf(scenario.policy), scenario.scheduler, machine.rings().tasks(),
                            machine.cores(), costs_, machine.rings(), *this, *this,
                            [&observer](CoreIndex) { return &observer; }),
             *this) {}

Time EnginePolicy::OnTime(Time now) {
  clock_ = now;
  cores_.Tick();
  next_tick_ = std::max(now + interval_, clock_);
  if (Happens(spec_.late_tick_ratio)) next_tick_ += spec_.late_tick * kNanosecond;
  return clock_;
}

bool EnginePolicy::Start(CoreIndex core, TaskIndex first) noexcept {
  lines_.BeginWith(core, first);
  BeginTurn(first);
  passers_[first].seen = passers_[first].began;
  machine_.Start(first, clock_);
  return true;
}

bool EnginePolicy::Switch(CoreIndex core, TaskIndex from, TaskIndex to) noexcept {
  const bool lost = Happens(spec_.lost_switch_ratio);
  if (!lost) {
    if (handover_)
      Preempt(core, from);
    else
      machine_.HandOver(to, clock_ + switch_ - preemption_, clock_ + switch_);
  }
  clock_ += handover_ ? 2 * call_ : call_;
  return !lost;
}

// It goes to the end of the line, which takes a call to go down and one to come up again; who does
// not run, as the scheduler may believe, only changes its place.
void EnginePolicy::Preempt(CoreIndex core, TaskIndex task) noexcept {
  if (!lines_.MoveToEnd(core, task)) return;
  BeginTurn(lines_.First(core));
  preempted_[core] = clock_ + switch_;
  machine_.HandOver(lines_.First(core), clock_ + switch_ - preemption_, clock_ + switch_);
}

// It passes the CPU on when it has found nothing, has taken its budget or is asked to.
void EnginePolicy::OnPollEnd(CoreIndex core, TaskIndex task, std::uint32_t packets, Time now) {
  if (!handover_ || lines_.IsAlone(core) || now < preempted_[core]) return;
  Passer& passer = passers_[task];
  passer.taken += packets;
  passer.granted -= std::min(passer.granted, packets);
  if (packets > 0 && passer.taken < passer.budget && passer.granted > 0 &&
      passer.leave != passer.began)
    return;
  passer.in_turn = false;
  TaskIndex next = lines_.Rotate(core);
  Time then = now + yield_;
  BeginTurn(next);
  for (std::size_t i = 0; i < lines_[core].size() && passers_[next].granted == 0; ++i) {
    passers_[next].in_turn = false;
    next = lines_.Rotate(core);
    BeginTurn(next);
    then += yield_;
  }
  machine_.HandOver(next, now, then);
}

// One that was preempted goes on with its turn.
void EnginePolicy::BeginTurn(TaskIndex task) noexcept {
  Passer& passer = passers_[task];
  if (std::exchange(passer.in_turn, true)) return;
  passer.taken = 0;
  ++passer.began;
}

std::optional<YieldingTasks::Turn> EnginePolicy::CurrentTurn(CoreIndex core) noexcept {
  std::optional<TaskIndex> began;
  for (const TaskIndex task : lines_[core]) {  // who runs comes first
    Passer& passer = passers_[task];
    if (std::exchange(passer.seen, passer.began) != passer.began && !began) began = task;
  }
  if (!began) return std::nullopt;
  return Turn{.task = *began, .begun = true};
}

}  // namespace unis::sim
