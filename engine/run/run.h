// The life of one run as a state machine: empty → deployed → running → released. Operations that
// change, measure or estimate go one at a time (Turnstile); looking is always possible. Messages
// come with their limits checked; calls may come from any thread.
//
// A running run changes by being arranged anew: its schedulers go, links, threads or settings
// change, and schedulers for what there is then take over, with the policy of before. It takes
// milliseconds, in which nothing is lost that the source could have kept back. A chain is up while
// all of its functions are there.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <chrono>
#include <functional>
#include <map>
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
#include "engine/run/schedule_counts.h"
#include "engine/run/scheduler_component.h"
#include "engine/run/thread_registry.h"
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
  absl::Status Apply(const v1::DeployRequest& request);
  absl::StatusOr<v1::AttachReply> Attach(const v1::AttachRequest& request);
  absl::Status Detach(const v1::DetachRequest& request);
  // Before the start, in a run whose chains are never started.
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

  // To be called every few milliseconds. Where the guard has put all threads back, because the
  // engine stood still, takes them again. Where a function has died, its chains go down and the
  // others go on. Threads that have begun to poll since become tasks.
  void Look();
  // Whatever the run is doing: breaks that off, stops the traffic and puts every thread and setting
  // back to how it was found. Any number of times.
  void Release();
  // False: the run is ending.
  bool SleepFor(std::chrono::nanoseconds time) { return ending_.SleepFor(time); }

 private:
  absl::Status RequireDeployed() const;
  absl::Status RequireNotRunning() const;
  absl::Status RequireRunning() const;
  absl::Status MayBecome(const v1::DeployRequest& config) const;
  absl::Status MayGo(const v1::FunctionConfig& function) const;
  void LetRunEmpty(const v1::DeployRequest& config);
  absl::Status Reconfigure(Deployment::Prepared prepared);
  void TakeCosts(const std::map<std::string, double>& stated_before);  // ns, by function
  absl::Status TakeLeases();
  absl::Status TakeTimeslice(unsigned ms);  // of SCHED_RR, instead of the one before; 0: none
  absl::Status MeasureLead();
  // From here on state_ is held.
  absl::Status MakeSchedulerComponents();
  std::vector<Control::Wanted> PlanCores();
  absl::Status TakeCores();  // as they are planned now
  SchedulerSettings Settings(const v1::SchedulerSettings& wanted) const;
  bool Ready(const std::string& function) const;  // it is deployed, and lives
  void RaiseChains();
  // `change` concerns the cores with these CPUs, which nothing schedules meanwhile.
  absl::Status Rearrange(const std::set<unsigned>& cpus,
                         const std::function<absl::Status()>& change);
  absl::Status ChangeTo(const Decision& wanted);
  void ReacquireThreads();
  void RemoveEnded();
  void TakeLate();
  std::set<unsigned> CpusThatRested();
  ScheduleCounts Counts() const;
  // To here.
  absl::StatusOr<SwitchCost> SwitchCostOn(unsigned cpu, unsigned rounds) const;
  absl::Status Change(const Decision& wanted);
  // The last decision; not between two.
  std::optional<Decision> Decided() const;
  Decision DecisionFor(v1::Policy policy, v1::ControllerKind controller) const;
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
  // Held by whoever counts on links and threads to stay as they are for longer than state_ is held.
  // Before state_.
  std::mutex arrangement_;
  // Guards what follows against those that look; whoever changes it has passed the turnstile too,
  // or holds arrangement_.
  mutable std::mutex state_;
  v1::RunPhase phase_ = v1::RUN_PHASE_EMPTY;
  std::unique_ptr<Deployment> deployment_;
  std::unique_ptr<ThreadRegistry> threads_;
  std::map<std::string, std::shared_ptr<FunctionCost>> costs_;
  WorkCounter work_;
  std::vector<std::unique_ptr<SchedulerComponent>> schedulers_;
  std::unique_ptr<Control> control_;  // null: before the start
  std::optional<Decision> wanted_;
  std::uint64_t arranged_ = 0;  // times
  bool whole_ = true;           // the last arrangement did not fail
  bool estimated_ = false;      // costs, so the chains do not start in this run
  bool deaths_ = false;         // since all packets were last accounted for
  std::chrono::steady_clock::time_point looked_for_late_;
  std::map<unsigned, std::uint64_t> rests_;  // by CPU, when it looked last
  std::set<std::string> absent_;             // they died, and what waits for them is dropped
  std::optional<SwitchCost> switch_cost_;
  Nanoseconds lead_ = 0;
  std::optional<Lease> timeslice_;
  std::vector<Lease> leases_;  // these by whoever has passed the turnstile; nobody looks at them
};

}  // namespace unis
