// The life of one run as a state machine: empty → deployed → running → released. Operations that
// change, measure or estimate go one at a time (Turnstile); looking is always possible. Messages
// come with their limits checked; calls may come from any thread.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "engine/base/interrupt.h"
#include "engine/controller/kernel_setting.h"
#include "engine/controller/switch_cost.h"
#include "engine/run/control.h"
#include "engine/run/deployment.h"
#include "engine/run/held_file.h"
#include "engine/run/members.h"
#include "engine/run/scheduler_component.h"
#include "engine/run/turnstile.h"
#include "engine/run/work_counter.h"
#include "engine/timer/tsc_timer.h"
#include "unis/v1/costs.pb.h"
#include "unis/v1/engine.pb.h"

namespace unis {

class Run {
 public:
  struct Options {
    std::vector<unsigned> service_lcores;  // source, sink, bridges and schedulers share them
    std::set<unsigned> function_cpus;      // those that functions may be put on
    std::string group;                     // name of the cgroup for functions, should one be made
    std::function<void()> end;             // asks the process to end, once Stop() has answered
    HeldFile held = {};                    // tells the guard who is held
  };

  // Whether the caller still waits for the answer; none: for ever.
  using Wanted = std::function<bool()>;

  explicit Run(Options options);
  ~Run();
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  absl::Status Deploy(const v1::DeployRequest& request);
  absl::Status Add(const v1::AddRequest& request);
  absl::Status Remove(const v1::RemoveRequest& request);
  absl::StatusOr<v1::AttachReply> Attach(const v1::AttachRequest& request);
  absl::StatusOr<v1::EstimateReply> Estimate(const v1::EstimateRequest& request,
                                             const Wanted& wanted = {});
  absl::StatusOr<v1::SwitchCostReply> MeasureSwitchCost(const v1::SwitchCostRequest& request);
  absl::Status Start(const v1::PolicyRequest& request);
  absl::Status SetPolicy(const v1::PolicyRequest& request);
  absl::StatusOr<v1::Stats> GetStats(const v1::StatsRequest& request);
  absl::StatusOr<v1::MeasureReply> Measure(const v1::MeasureRequest& request,
                                           const Wanted& wanted = {});
  absl::StatusOr<v1::Account> Settle(const v1::SettleRequest& request);
  absl::StatusOr<v1::TraceReply> Trace(const v1::TraceRequest& request, const Wanted& wanted = {});
  absl::StatusOr<v1::Account> Stop(const v1::SettleRequest& request);

  // Where the guard has put all threads back, because the engine stood still: takes them again. To
  // be called every few milliseconds.
  void TakeBack();
  // Whatever the run is doing: breaks that off, stops the traffic and puts every thread and setting
  // back to how it was found. Any number of times.
  void Release();
  // False: the run is ending.
  bool SleepFor(std::chrono::nanoseconds time) { return ending_.SleepFor(time); }

 private:
  absl::Status RequireDeployed() const;
  absl::Status RequireNotRunning() const;
  absl::Status RequireRunning() const;
  absl::Status Reconfigure(const v1::DeployRequest& config);
  void MakeCounters();
  absl::Status TakeLeases();
  absl::Status MakeControl();
  absl::Status MakeSchedulerComponents(const Topology::Tasks& tasks);
  absl::Status ChooseLead(SchedulerSettings& settings);
  absl::StatusOr<SwitchCost> SwitchCostOn(unsigned cpu, unsigned rounds) const;
  absl::Status Change(const Control::Decision& wanted);
  // The last decision; not between two.
  std::optional<Control::Decision> Decided() const;
  Control::Decision DecisionFor(v1::Policy policy, v1::ControllerKind controller) const;
  // OK: slept the whole time.
  absl::Status Sleep(std::chrono::nanoseconds time, const Wanted& wanted);
  // Pauses the source and lets the kernel run the functions until no packet is under way; then
  // `work`, told whether that was so; then as it was before, whatever happened.
  absl::Status WhilePaused(std::chrono::nanoseconds timeout, Interrupt& interrupt,
                           const std::function<void(bool)>& work);
  bool Drain(std::chrono::nanoseconds timeout, Interrupt& interrupt);
  void PutBack();
  void ReleaseLeases();

  Options options_;
  TscTimer timer_;
  Turnstile turnstile_;
  Interrupt ending_;    // raised by Stop() and Release()
  Interrupt released_;  // raised by Release()
  // Guards what follows against those that look; whoever changes it has passed the turnstile too.
  mutable std::mutex state_;
  v1::RunPhase phase_ = v1::RUN_PHASE_EMPTY;
  std::unique_ptr<Deployment> deployment_;
  std::unique_ptr<Members> members_;
  std::unique_ptr<Costs> costs_;                       // by position of the function
  std::vector<std::unique_ptr<Activity>> activities_;  // of tasks, for the traces
  std::vector<std::unique_ptr<SchedulerComponent>> schedulers_;
  std::unique_ptr<Control> control_;
  std::unique_ptr<WorkCounter> work_;
  std::vector<std::size_t> function_of_;  // per task
  std::optional<SwitchCost> switch_cost_;
  Nanoseconds lead_ = 0;
  std::vector<Lease> leases_;  // by whoever has passed the turnstile; nobody looks at them
};

}  // namespace unis
