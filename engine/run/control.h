// Who decides which task runs, on all cores of a run. A change of the policy is one transaction:
// prepared for every core, committed, and put back where that fails. A change of what runs touches
// only the cores for which something changes.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "engine/run/core_control.h"

namespace unis {

class Control {
 public:
  // A core to be, and what shows that its tasks run.
  struct Wanted {
    CorePlan plan;
    std::vector<std::unique_ptr<Activity>> activities;
  };

  // `timer` outlives the control. One thread calls all that follows.
  explicit Control(const TscTimer& timer) : timer_(timer) {}

  // Lets the cores with these CPUs go: nothing reads the links of their tasks or touches their
  // threads.
  void LetGo(const std::set<unsigned>& cpus);
  // Makes these cores, and removes all others. A core whose plan did not change goes on untouched.
  // A new core waits for the next Change(). It runs on one of `components`, which outlive the
  // control.
  void Take(std::vector<Wanted> cores, const std::vector<SchedulerComponent*>& components);
  // Nothing is done where all cores have that decision. An error leaves to each core what it had,
  // or, where a function that died makes that impossible or the core is new, the kernel's policy
  // `other`; the sentence says so. `again`: after it was in force before; then it is also where no
  // function is left that hands the CPU over.
  absl::Status Change(const Decision& wanted, bool again = false);
  // Carries out the last decision again, after somebody else has changed the threads' scheduling.
  // After an error the policy is `other`.
  absl::Status Repeat();
  // No task is held back any longer, and none is scheduled by the engine. An error says what of
  // that could not be undone.
  absl::Status Release();

  // None before the first.
  const std::optional<Decision>& decision() const { return decision_; }
  // Of all schedulers since the start: counters only grow.
  ScheduleCounts counts() const;
  std::vector<CoreControl*> cores() const;

 private:
  using Prepared = std::vector<std::pair<CoreControl*, CoreControl::Prepared>>;
  using Before = std::vector<std::pair<CoreControl*, std::optional<Decision>>>;

  absl::StatusOr<Prepared> Prepare(const Decision& wanted, bool again);
  absl::Status GoBack(const Before& before);
  void LeaveToKernel(v1::ControllerKind controller);
  void Retire(unsigned cpu);
  SchedulerComponent& LeastUsed(const std::vector<SchedulerComponent*>& components) const;

  const TscTimer& timer_;
  std::map<unsigned, std::unique_ptr<CoreControl>> cores_;  // by CPU
  std::optional<Decision> decision_;
  ScheduleCounts retired_;  // of cores that are gone
};

}  // namespace unis
