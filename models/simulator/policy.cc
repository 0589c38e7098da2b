#include "models/simulator/policy.h"

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "models/simulator/engine_policy.h"
#include "models/simulator/lines.h"

namespace unis::sim {
namespace {

// SCHED_FIFO at equal priorities. The first task of a core never blocks, so no other runs.
class RunToTheEnd : public CpuPolicy {
 public:
  explicit RunToTheEnd(Machine& machine) : machine_(machine), lines_(machine) {}

  void Start() override {
    for (CoreIndex core = 0; core < lines_.cores(); ++core) machine_.Start(lines_.First(core), 0);
  }

 protected:
  // The running task goes to the end of its core's line.
  void Rotate(CoreIndex core, Time stop, Time start) {
    machine_.HandOver(lines_.Rotate(core), stop, start);
  }

  bool Alone(CoreIndex core) const { return lines_.IsAlone(core); }

 private:
  Machine& machine_;
  Lines lines_;
};

// As before, but a function yields after so many bursts, or when it found nothing to do.
class Cooperative final : public RunToTheEnd {
 public:
  Cooperative(const Scenario& scenario, Machine& machine)
      : RunToTheEnd(machine), yield_(FromNs(scenario.machine.yield_ns)), bursts_(machine.cores()) {
    for (const FunctionSpec& function : scenario.functions)
      yield_every_.push_back(function.yield_every);
  }

  void OnPollEnd(CoreIndex core, TaskIndex task, std::uint32_t packets, Time now) override {
    if (yield_every_[task] == 0 || Alone(core)) return;
    if (packets > 0 && ++bursts_[core] < yield_every_[task]) return;
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

// SCHED_RR, SCHED_OTHER, SCHED_BATCH and SCHED_IDLE. A poll-mode function is always runnable, so
// fair time sharing of equals (EEVDF, CFS) is a round robin too, only with a shorter slice;
// SCHED_BATCH differs from SCHED_OTHER in wake-ups alone, of which there are none, and SCHED_IDLE
// in what others leave it, which are not simulated.
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

std::unique_ptr<CpuPolicy> MakeKernelPolicy(KernelClass kernel, const Scenario& scenario,
                                            Machine& machine) {
  switch (kernel) {
    case KernelClass::kFifo:
      return std::make_unique<RunToTheEnd>(machine);
    case KernelClass::kRoundRobin:
      return std::make_unique<TimeSharing>(scenario, machine, scenario.machine.rr_slice);
    case KernelClass::kFair:
    case KernelClass::kBatch:
    case KernelClass::kIdle:
      break;
  }
  return std::make_unique<TimeSharing>(scenario, machine, scenario.machine.fair_slice);
}

}  // namespace

std::unique_ptr<CpuPolicy> MakePolicy(const Scenario& scenario, Machine& machine,
                                      SwitchObserver& observer) {
  const PolicyTraits* traits = TraitsOf(scenario.policy);
  if (traits == nullptr) throw std::invalid_argument("a scenario without a policy");
  if (traits->engine_decides()) return std::make_unique<EnginePolicy>(scenario, machine, observer);
  if (traits->functions_yield) return std::make_unique<Cooperative>(scenario, machine);
  return MakeKernelPolicy(traits->kernel, scenario, machine);
}

}  // namespace unis::sim
