// Who runs on a virtual core, and until when: one small class a policy.
#pragma once

#include <cstdint>
#include <memory>

#include "engine/scheduler/components.h"
#include "models/simulator/machine.h"
#include "models/simulator/scenario.h"

namespace unis::sim {

class CpuPolicy : public PollObserver {
 public:
  // Runs the first task of every core.
  virtual void Start() = 0;
  // When the policy wants to act by itself; kNever: only at the end of polls.
  virtual Time NextEvent() const { return kNever; }
  // Returns until when the scheduler's CPU is busy with it.
  virtual Time OnTime(Time now) { return now; }
  // Whether it acts on a CPU of the platform, not in the kernel of each core.
  virtual bool IsScheduler() const { return false; }
  virtual std::uint64_t Decisions() const { return 0; }
  virtual std::uint64_t FailedSwitches() const { return 0; }

  void OnPollEnd(CoreIndex, TaskIndex, std::uint32_t, Time) override {}
  bool WantsEmptyPolls(CoreIndex, TaskIndex) const override { return false; }
};

// Both arguments and the observer (Algorithm 1 only) must outlive the policy.
std::unique_ptr<CpuPolicy> MakePolicy(const Scenario& scenario, Machine& machine,
                                      SwitchObserver& observer);

}  // namespace unis::sim
