// Who decides which task runs: a policy and, where the engine decides, a process controller. Both
// are changed together as one transaction: prepared, committed, and put back where that fails.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/controller/task_controller.h"
#include "engine/run/scheduler_component.h"
#include "engine/scheduler/core_scheduler.h"
#include "engine/scheduler/policy.h"
#include "engine/scheduler/settings.h"
#include "unis/v1/engine.pb.h"

namespace unis {

class Control {
 public:
  struct Decision {
    v1::Policy policy;
    v1::ControllerKind controller;
    std::uint32_t yield_every = 0;  // bursts, for every function; 0: each has its own
    // Absent: those of the run. With settings of its own what is learned of costs goes with it,
    // when the next decision comes.
    std::optional<SchedulerSettings> settings = {};
    bool operator==(const Decision&) const = default;
  };
  struct ScheduledTask {
    HeldThread* thread;
    std::uint32_t yield_every;  // bursts; 0: it does not co-operate
  };
  // All that is referred to outlives the control. `tasks` in the order of `set`; components share
  // the cores in turn.
  struct Parts {
    std::string group;  // name of its cgroup
    TaskSet set;
    CoreIndex cores;
    std::vector<ScheduledTask> tasks;
    Costs* costs;
    const InterfaceMonitor* monitor;
    const TscTimer* timer;
    std::vector<SchedulerComponent*> components;
    std::chrono::nanoseconds fair_slice{};  // of tasks under other and batch; 0: the kernel's
  };
  // Of all schedulers since the start: counters only grow.
  struct Counts {
    std::vector<CoreStatistics> cores;
    std::vector<std::uint64_t> switched_in;  // per task
  };

  Control(Parts parts, SchedulerSettings settings);
  ~Control() { (void)Release(); }
  Control(const Control&) = delete;
  Control& operator=(const Control&) = delete;

  // One thread changes at a time. An error leaves the decision before, or, where a function that
  // died makes that impossible, the kernel's policy `other`; the sentence says so. Before the first
  // decision it leaves `other` too.
  absl::Status Change(const Decision& wanted);
  // No task is held back any longer, and none is scheduled by the engine. An error says what of
  // that could not be undone.
  absl::Status Release();

  std::optional<Decision> decision() const { return decision_; }
  Counts counts();

 private:
  struct Prepared {
    PolicyTraits traits;
    std::uint32_t yield_every;                   // of the decision
    bool forgets;                                // what costs become
    std::unique_ptr<TaskController> controller;  // null: the kernel decides
    std::vector<std::vector<std::unique_ptr<CoreScheduler>>> schedulers;  // per component
  };

  absl::StatusOr<Prepared> Prepare(const Decision& wanted);
  absl::Status Commit(Prepared prepared);
  absl::Status SetClasses(const PolicyTraits& traits, std::uint32_t yield_every);
  absl::Status GoBack(const std::optional<Decision>& before);
  void RetireSchedulers();
  void KeepCosts();
  void PutCostsBack();
  void Add(const SchedulerComponent& component, Counts& counts) const;
  std::size_t ComponentOf(CoreIndex core) const { return core % parts_.components.size(); }

  Parts parts_;
  SchedulerSettings settings_;
  std::optional<Decision> decision_;
  std::unique_ptr<TaskController> controller_;
  Counts retired_;
  // By function, of a decision that forgets; else empty.
  std::vector<std::pair<double, CostSource>> costs_before_;  // ns
};

}  // namespace unis
