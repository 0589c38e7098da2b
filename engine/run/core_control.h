// One core of functions: its policy and, where the engine decides, its scheduler and its process
// controller. It knows tasks, links and functions by numbers of its own and shares nothing with
// other cores, so that it goes on while these change.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/controller/task_controller.h"
#include "engine/monitor/link_monitor.h"
#include "engine/run/convert.h"
#include "engine/run/schedule_counts.h"
#include "engine/run/scheduler_component.h"
#include "engine/scheduler/policy.h"
#include "engine/scheduler/settings.h"
#include "unis/v1/engine.pb.h"

namespace unis {

// Who decides which task runs.
struct Decision {
  v1::Policy policy;
  v1::ControllerKind controller;  // where the engine decides
  std::uint32_t yield_every = 0;  // bursts, for every function; 0: each has its own
  // Absent: those of the run. With settings of its own what is learned of costs goes with it, when
  // the next decision comes.
  std::optional<SchedulerSettings> settings = {};
  bool plain = false;  // no function has what it wishes of the kernel
  bool operator==(const Decision&) const = default;
};

// The kernel decides, and gives all functions of a CPU the same: to drain them, and after errors.
inline Decision AllFair(v1::ControllerKind controller) {
  return {.policy = v1::POLICY_OTHER, .controller = controller, .plain = true};
}

// What there is to schedule on a core. A plain value: a core whose plan stays the same goes on.
struct CorePlan {
  struct Task {
    HeldThread* thread;
    std::uint32_t yield_every;  // bursts; 0: it does not co-operate
    bool stays_awake = false;
    KernelWish kernel = {};
    bool operator==(const Task&) const = default;
  };

  unsigned cpu = 0;
  TaskSet set;                                       // all on core 0
  std::vector<Task> tasks;                           // as in `set`
  std::vector<Occupancy> links;                      // by LinkIndex
  std::vector<std::string> functions;                // by FunctionIndex: names,
  std::vector<std::shared_ptr<FunctionCost>> costs;  // and costs
  SchedulerSettings settings;
  std::chrono::nanoseconds fair_slice{};  // of tasks under other and batch; 0: the kernel's
  bool operator==(const CorePlan&) const = default;

  const std::string& FunctionOf(TaskIndex task) const {
    return functions[set.tasks[task].function];
  }
};

class CoreControl {
 public:
  // `component` and `timer` outlive it. `activities`: of each task, for traces.
  CoreControl(CorePlan plan, std::vector<std::unique_ptr<Activity>> activities,
              SchedulerComponent& component, const TscTimer& timer);
  ~CoreControl() { (void)Release(); }
  CoreControl(const CoreControl&) = delete;
  CoreControl& operator=(const CoreControl&) = delete;

  struct Prepared {
    Decision decision;
    PolicyTraits traits;
    std::unique_ptr<TaskController> controller = {};                  // null: the kernel decides
    v1::ControllerKind controller_kind = v1::CONTROLLER_UNSPECIFIED;  // of `controller`
    std::unique_ptr<CoreScheduler> scheduler = {};                    // likewise
    absl::Status no_handover = {};  // why `controller` switches by priority and does not hand over
  };
  // Everything that can be refused without touching a thread.
  absl::StatusOr<Prepared> Prepare(const Decision& wanted);
  // An error leaves no decision.
  absl::Status Commit(Prepared prepared);
  // The kernel decides from now on, by its policy `other`. Without `controller` no decision is
  // left.
  void LeaveToKernel(std::optional<v1::ControllerKind> controller);
  // No task is held back any longer, and none is scheduled by the engine. An error says what of
  // that could not be undone.
  absl::Status Release();

  const std::optional<Decision>& decision() const { return decision_; }
  // As Prepared has it, of the decision.
  const absl::Status& no_handover() const { return no_handover_; }
  const CorePlan& plan() const { return plan_; }
  SchedulerComponent& component() { return component_; }
  // What it has counted since it was made is added.
  void AddTo(ScheduleCounts& counts);

  // Only of one trace at a time.
  void BeginTrace(Trace& trace);
  void EndTrace();

 private:
  absl::Status SetClasses(const PolicyTraits& traits, const Decision& decision);
  void RetireScheduler();
  void KeepCosts();
  void PutCostsBack();
  void Count(ScheduleCounts& counts) const;

  const CorePlan plan_;
  Costs costs_;
  LinkMonitor monitor_;
  TraceRecorder trace_;
  SchedulerComponent& component_;
  const TscTimer& timer_;
  std::optional<Decision> decision_;
  absl::Status no_handover_;
  std::unique_ptr<TaskController> controller_;
  CoreScheduler* scheduler_ = nullptr;  // the component's; null: the kernel decides
  v1::ControllerKind controller_kind_ = v1::CONTROLLER_UNSPECIFIED;  // where there is a scheduler
  ScheduleCounts retired_;                                           // of schedulers before
  // By function, of a decision that forgets; else empty.
  std::vector<std::pair<double, CostSource>> costs_before_;  // ns
};

}  // namespace unis
