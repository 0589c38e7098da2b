// All there is of a run, and what becomes of it in one step: empty → deployed → running → released.
// For one thread at a time; nothing here waits. Operations that take time are sequences of such
// steps (run.h).
//
// A running run changes in three parts. The cores that the change concerns are let go. Links,
// threads or settings change. Cores for what there is then are made, with the policy of before.
// Other cores go on. It takes milliseconds, in which nothing is lost that the source could have
// kept back. A chain is up while functions are there by which packets come through it.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/pidfd.h"
#include "engine/controller/switch_cost.h"
#include "engine/run/control.h"
#include "engine/run/deployment.h"
#include "engine/run/function_times.h"
#include "engine/run/held_file.h"
#include "engine/run/measurement.h"
#include "engine/run/thread_registry.h"
#include "engine/timer/tsc_timer.h"
#include "unis/v1/engine.pb.h"

namespace unis {

class RunState {
 public:
  struct Options {
    std::vector<unsigned> service_lcores;  // source, sink, bridges and schedulers share them
    HeldFile held;                         // tells the guard who is held
    std::chrono::nanoseconds late_look_every;
  };

  explicit RunState(Options options) : options_(std::move(options)) {}

  // ---- what may be done when
  absl::Status RequireEmpty() const;
  absl::Status RequireDeployed() const;
  absl::Status RequireNotRunning() const;
  absl::Status RequireRunning() const;
  absl::Status MayStart() const;
  bool running() const { return phase_ == v1::RUN_PHASE_RUNNING; }
  bool released() const { return phase_ == v1::RUN_PHASE_RELEASED; }

  // ---- from one phase to the next
  void TakeDeployment(std::unique_ptr<Deployment> deployment);
  // An error leaves it deployed.
  absl::Status Start(const v1::PolicyRequest& request, const SwitchCost& cost);
  // Stops the traffic and puts every thread back to how it was found. Any number of times.
  void PutBack();

  // ---- policies
  // Where something is unspecified, as it is now.
  Decision DecisionFor(v1::Policy policy, v1::ControllerKind controller) const;
  std::optional<Decision> decided() const { return control_ ? control_->decision() : std::nullopt; }
  SchedulerSettings Settings(const v1::SchedulerSettings& wanted) const;
  absl::Status ChangeTo(const Decision& wanted);
  // The same after a time under another one, also if somebody has died in it.
  absl::Status ReturnTo(const Decision& before);

  // ---- what is deployed
  bool Is(const v1::DeployRequest& config) const;
  // An error: no run can take this on while it lives.
  absl::Status MayBecome(const v1::DeployRequest& config) const;
  // The chains that `config` no longer has get no more packets. Their links.
  std::vector<LinkIndex> Close(const v1::DeployRequest& config);
  absl::Status Apply(Deployment::Prepared prepared);

  // ---- who is there
  // OK: till EndAttaching() what waits for the function is left to the process that comes, also
  // where the one before it, which was let go, ends meanwhile.
  absl::Status BeginAttaching(const std::string& function);
  void EndAttaching() { attaching_.clear(); }
  // Takes hold of these threads of the process.
  absl::Status Attach(const v1::AttachRequest& request, Pidfd process,
                      const std::vector<pid_t>& tids);
  // True: it has died, and what is under way to it is to be dropped before it is forgotten.
  // `gone`: its process has ended, whoever it was.
  absl::StatusOr<bool> Detach(const std::string& function, bool gone);
  void Forget(const std::string& function) { absent_.erase(function); }
  // Drops what waits for functions that died. DropFor() returns the packets that were dropped so
  // far in the chains of its function.
  void DropForAbsent();
  std::uint64_t DropFor(const std::string& function);
  // Functions that have died go: their branches are down, or chains, and the others go on.
  void RemoveEnded();
  // True as long as nothing but deaths may change which threads there are.
  void set_still(bool still) { still_ = still; }
  // Where the guard has put all threads back, because the engine stood still, takes them again.
  // Removes who has ended. Threads that have begun to poll since become tasks.
  void Look();

  // ---- what it tells
  v1::Stats Stats(bool latency);
  Snapshot TakeSnapshot() const;
  // The source rests. `drained`: nothing moves any more.
  v1::Account AccountAtRest(bool drained);
  // `traces`: one for each CPU of functions, and until EndTrace() the recorders'.
  void BeginTrace(std::vector<CoreTrace>& traces);
  // Aborted: cores have changed meanwhile.
  absl::Status EndTrace();

  // Once there is one; it stays till the end.
  Deployment& deployment() { return *deployment_; }
  const Deployment& deployment() const { return *deployment_; }
  bool deployed() const { return deployment_ != nullptr; }
  ThreadRegistry& threads() { return *threads_; }
  const TscTimer& timer() const { return timer_; }
  // Costs were measured in this run, so that its chains do not start.
  void set_estimated() { estimated_ = true; }

 private:
  absl::Status MayGo(const v1::FunctionConfig& function) const;
  absl::Status Reconfigure(Deployment::Prepared prepared);
  void TakeCosts(const std::map<std::string, double>& stated_before);  // ns, by function
  absl::Status MakeSchedulerComponents();
  std::vector<Control::Wanted> PlanCores();
  absl::Status TakeCores();                       // as they are planned now
  bool Ready(const std::string& function) const;  // it is deployed, and lives
  void RaiseChains();
  // `change` concerns these functions: the cores around them schedule nothing meanwhile. Before the
  // start there is nothing to let go. `takes_locks`: it may wait for locks of DPDK, which other
  // processes hold.
  absl::Status Rearrange(const std::set<std::string>& functions,
                         const std::function<absl::Status()>& change, bool takes_locks = true);
  void ReacquireThreads();
  void TakeLate();
  void LookAtTimes(const ScheduleCounts& counts);
  std::set<unsigned> CpusThatRested();
  ScheduleCounts Counts() const;

  Options options_;
  TscTimer timer_;
  v1::RunPhase phase_ = v1::RUN_PHASE_EMPTY;
  std::unique_ptr<Deployment> deployment_;
  std::unique_ptr<ThreadRegistry> threads_;
  std::map<std::string, std::shared_ptr<FunctionCost>> costs_;
  FunctionTimes times_;
  Nanoseconds times_at_ = 0;
  std::vector<std::unique_ptr<SchedulerComponent>> schedulers_;
  std::unique_ptr<Control> control_;  // null: before the start
  std::optional<Decision> wanted_;
  std::uint64_t arranged_ = 0;  // times
  std::uint64_t traced_ = 0;    // `arranged_` when the trace began
  bool whole_ = true;           // false: the last arrangement failed, and is to be tried again
  bool estimated_ = false;
  bool deaths_ = false;
  bool still_ = false;
  std::chrono::steady_clock::time_point looked_for_late_;
  std::map<unsigned, std::uint64_t> rests_;  // by CPU, when it looked last
  std::set<std::string> absent_;             // they died, and what waits for them is dropped
  std::string attaching_;                    // or it is left to this one
  std::optional<SwitchCost> switch_cost_;
  Nanoseconds lead_ = 0;
};

}  // namespace unis
