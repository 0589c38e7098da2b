#include "engine/simulator/policy.h"

#include <algorithm>
#include <deque>
#include <stdexcept>
#include <vector>

#include "engine/base/random.h"
#include "engine/scheduler/core_set.h"

namespace unis::sim {
namespace {

// Tasks of each core in chain order; the first of each queue is the one that runs.
std::vector<std::deque<TaskIndex>> QueuesOf(const Machine& machine) {
  std::vector<std::deque<TaskIndex>> queues(machine.cores());
  const auto& tasks = machine.rings().tasks().tasks;
  for (TaskIndex task = 0; task < tasks.size(); ++task) queues[tasks[task].core].push_back(task);
  return queues;
}

// SCHED_FIFO at equal priorities. The first task of a core never blocks, so no other runs.
class RunToTheEnd : public CpuPolicy {
 public:
  explicit RunToTheEnd(Machine& machine) : machine_(machine), queues_(QueuesOf(machine)) {}

  void Start() override {
    for (const auto& queue : queues_) machine_.Start(queue.front(), 0);
  }

 protected:
  // The running task goes to the back of its core's queue.
  void Rotate(CoreIndex core, Time stop, Time start) {
    auto& queue = queues_[core];
    queue.push_back(queue.front());
    queue.pop_front();
    machine_.HandOver(queue.front(), stop, start);
  }

  bool Alone(CoreIndex core) const { return queues_[core].size() == 1; }

 private:
  Machine& machine_;
  std::vector<std::deque<TaskIndex>> queues_;
};

// As before, but a function yields after so many bursts, or when it found nothing to do.
class Cooperative final : public RunToTheEnd {
 public:
  Cooperative(const Scenario& scenario, Machine& machine)
      : RunToTheEnd(machine), yield_(FromNs(scenario.machine.yield_ns)), bursts_(machine.cores()) {
    for (const FunctionSpec& function : scenario.functions)
      yield_every_.push_back(function.yield_every);
  }

  void OnPollEnd(CoreIndex core, TaskIndex task, bool empty, Time now) override {
    if (yield_every_[task] == 0 || Alone(core)) return;
    if (!empty && ++bursts_[core] < yield_every_[task]) return;
    bursts_[core] = 0;
    Rotate(core, now, now + yield_);
  }

  bool WantsEmptyPolls(CoreIndex core, TaskIndex task) const override {
    return yield_every_[task] != 0 && !Alone(core);
  }

 private:
  Time yield_;
  std::vector<std::uint32_t> yield_every_;  // per task
  std::vector<std::uint32_t> bursts_;       // per core, since the hand-over
};

// SCHED_RR, SCHED_OTHER and SCHED_BATCH. A poll-mode function is always runnable, so fair time
// sharing of equals (EEVDF, CFS) is a round robin too, only with a shorter slice; SCHED_BATCH
// differs from SCHED_OTHER in wake-ups alone, of which there are none.
class TimeSharing final : public RunToTheEnd {
 public:
  TimeSharing(const Scenario& scenario, Machine& machine, Nanoseconds slice)
      : RunToTheEnd(machine),
        switch_(FromNs(scenario.machine.kernel_switch_ns)),
        slice_(slice * kNanosecond),
        slice_end_(machine.cores(), kNever) {
    for (CoreIndex core = 0; core < slice_end_.size(); ++core) {
      if (!Alone(core)) slice_end_[core] = slice_;
    }
  }

  Time NextEvent() const override {
    return *std::min_element(slice_end_.begin(), slice_end_.end());
  }

  Time OnTime(Time now) override {
    for (CoreIndex core = 0; core < slice_end_.size(); ++core) {
      if (slice_end_[core] > now) continue;
      Rotate(core, now, now + switch_);
      slice_end_[core] = now + switch_ + slice_;
    }
    return now;
  }

 private:
  Time switch_;
  Time slice_;
  std::vector<Time> slice_end_;  // per core
};

// The schedulers themselves, all on one service core. Their calls take virtual time, in which they
// do not tick. The task that is left runs on until the kernel takes the CPU from it.
class AlgorithmOne final : public CpuPolicy, TimerSubsystem, ProcessController {
 public:
  AlgorithmOne(const Scenario& scenario, Machine& machine, SwitchObserver& observer)
      : machine_(machine),
        spec_(scenario.machine),
        interval_(scenario.scheduler.interval * kNanosecond),
        call_(FromNs(spec_.switch_call_ns)),
        switch_(FromNs(spec_.switch_ns)),
        preemption_(std::min(FromNs(spec_.kernel_switch_ns), switch_)),
        faults_(Random(scenario.seed ^ 0x5EED).Next()),
        costs_(machine.rings().scheduled_costs()),
        cores_(MakeSchedulers(scenario.scheduler, machine.rings().tasks(), machine.cores(), costs_,
                              machine.rings(), *this, *this,
                              [&observer](CoreIndex) { return &observer; }),
               *this) {}

  void Start() override { cores_.Start(); }

  Time NextEvent() const override { return next_tick_; }

  Time OnTime(Time now) override {
    clock_ = now;
    cores_.Tick();
    next_tick_ = std::max(now + interval_, clock_);
    if (Happens(spec_.late_tick_ratio)) next_tick_ += spec_.late_tick * kNanosecond;
    return clock_;
  }

  bool IsScheduler() const override { return true; }

  std::uint64_t Decisions() const override { return cores_.Decisions(); }
  std::uint64_t FailedSwitches() const override { return cores_.FailedSwitches(); }

 private:
  bool Happens(double ratio) noexcept { return ratio > 0 && faults_.Unit() < ratio; }

  Nanoseconds Now() const noexcept override { return clock_ / kNanosecond; }

  bool Start(CoreIndex, TaskIndex first) noexcept override {
    machine_.Start(first, clock_);
    return true;
  }

  bool Switch(CoreIndex, TaskIndex, TaskIndex to) noexcept override {
    const bool lost = Happens(spec_.lost_switch_ratio);
    if (!lost) machine_.HandOver(to, clock_ + switch_ - preemption_, clock_ + switch_);
    clock_ += call_;
    return !lost;
  }

  Machine& machine_;
  const MachineSpec& spec_;
  Time interval_;
  Time call_;
  Time switch_;
  Time preemption_;
  Random faults_;
  Time clock_ = 0;  // the service core's
  Time next_tick_ = 0;
  Costs costs_;
  CoreSet cores_;
};

std::unique_ptr<CpuPolicy> MakeKernelPolicy(KernelClass kernel, const Scenario& scenario,
                                            Machine& machine) {
  switch (kernel) {
    case KernelClass::kFifo:
      return std::make_unique<RunToTheEnd>(machine);
    case KernelClass::kRoundRobin:
      return std::make_unique<TimeSharing>(scenario, machine, scenario.machine.rr_slice);
    case KernelClass::kFair:
    case KernelClass::kBatch:
      break;
  }
  return std::make_unique<TimeSharing>(scenario, machine, scenario.machine.fair_slice);
}

}  // namespace

std::unique_ptr<CpuPolicy> MakePolicy(const Scenario& scenario, Machine& machine,
                                      SwitchObserver& observer) {
  const PolicyTraits* traits = TraitsOf(scenario.policy);
  if (traits == nullptr) throw std::invalid_argument("a scenario without a policy");
  if (traits->engine_decides) return std::make_unique<AlgorithmOne>(scenario, machine, observer);
  if (traits->functions_yield) return std::make_unique<Cooperative>(scenario, machine);
  return MakeKernelPolicy(traits->kernel, scenario, machine);
}

}  // namespace unis::sim
