// The schedulers themselves, all on one service core, with a virtual process controller: by
// priority (a switch takes effect when the kernel has carried it out), or where functions hand the
// CPU over as those do that UNiS' plug-in is loaded into (ports/unis_ports). Sleep is not
// simulated: who has no packets polls.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/base/random.h"
#include "engine/scheduler/core_set.h"
#include "models/simulator/lines.h"
#include "models/simulator/machine.h"
#include "models/simulator/policy.h"
#include "models/simulator/scenario.h"

namespace unis::sim {

// Calls of the schedulers take virtual time, in which they do not tick. The task that is left runs
// on until the kernel takes the CPU from it.
class EnginePolicy final : public CpuPolicy, TimerSubsystem, ProcessController, YieldingTasks {
 public:
  // All must outlive it.
  EnginePolicy(const Scenario& scenario, Machine& machine, SwitchObserver& observer);

  void Start() override { cores_.Start(); }
  Time NextEvent() const override { return next_tick_; }
  Time OnTime(Time now) override;
  bool IsScheduler() const override { return true; }
  std::uint64_t Decisions() const override { return cores_.Sum(&CoreStatistics::decisions); }
  std::uint64_t FailedSwitches() const override {
    return cores_.Sum(&CoreStatistics::failed_switches);
  }

  void OnPollEnd(CoreIndex core, TaskIndex task, std::uint32_t packets, Time now) override;
  bool WantsEmptyPolls(CoreIndex core, TaskIndex) const override {
    return handover_ && !lines_.IsAlone(core);
  }

 private:
  // What the plug-in keeps of a function.
  struct Passer {
    std::uint32_t budget = ~std::uint32_t{0};
    std::uint32_t taken = 0;                    // packets, in this turn
    bool in_turn = false;                       // also while it is preempted
    std::uint64_t began = 0;                    // turns
    std::uint64_t seen = 0;                     // of which the scheduler knows
    std::uint64_t leave = 0;                    // the turn to be passed on; 0: none
    std::uint32_t granted = ~std::uint32_t{0};  // packets that it may still take
  };

  bool Happens(double ratio) noexcept { return ratio > 0 && faults_.Unit() < ratio; }
  void BeginTurn(TaskIndex task) noexcept;
  void Preempt(CoreIndex core, TaskIndex task) noexcept;

  Nanoseconds Now() const noexcept override { return clock_ / kNanosecond; }
  bool Start(CoreIndex core, TaskIndex first) noexcept override;
  bool Switch(CoreIndex core, TaskIndex from, TaskIndex to) noexcept override;
  YieldingTasks* yielding() noexcept override { return handover_ ? this : nullptr; }
  bool SupportsYield(TaskIndex) const noexcept override { return handover_; }
  std::optional<Turn> CurrentTurn(CoreIndex core) noexcept override;
  std::uint64_t TurnsOf(TaskIndex task) const noexcept override { return passers_[task].seen; }
  void RequestYield(TaskIndex task) noexcept override {
    passers_[task].leave = passers_[task].seen;
  }
  void Grant(TaskIndex task, std::uint32_t packets) noexcept override {
    passers_[task].granted = packets;
  }
  void SetBudget(TaskIndex task, std::uint32_t packets) noexcept override {
    passers_[task].budget = packets;
  }

  Machine& machine_;
  const MachineSpec& spec_;
  const bool handover_;
  Time interval_;
  Time call_;
  Time switch_;
  Time preemption_;
  Time yield_;
  Lines lines_;
  std::vector<Passer> passers_;  // per task
  std::vector<Time> preempted_;  // per core: until then a preemption is under way
  Random faults_;
  Time clock_ = 0;  // the service core's
  Time next_tick_ = 0;
  Costs costs_;
  CoreSet cores_;
};

}  // namespace unis::sim
