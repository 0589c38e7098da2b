// The operations on a run, as others call them, from any thread. Messages come with their limits
// checked.
//
// Each operation is a sequence of steps on the run's state (run_state.h), which has the state for
// itself; what takes time, above all waiting, is done between two steps. Operations that change,
// measure or estimate go one at a time (Turnstile); a look, and whoever asks for statistics, comes
// in between their steps.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <sys/types.h>

#include <chrono>
#include <functional>
#include <optional>
#include <set>
#include <vector>

#include "engine/base/exclusive.h"
#include "engine/base/interrupt.h"
#include "engine/controller/kernel_setting.h"
#include "engine/controller/switch_cost.h"
#include "engine/run/run_state.h"
#include "engine/run/turnstile.h"
#include "unis/v1/costs.pb.h"
#include "unis/v1/engine.pb.h"

namespace unis {

class Run {
 public:
  struct Options {
    std::vector<unsigned> service_lcores;  // source, sink, bridges and schedulers share them
    std::set<unsigned> function_cpus;      // those that functions may be put on
    std::function<void()> end;             // asks the process to end, once Stop() has answered
    HeldFile held = {};                    // tells the guard who is held
    // How often threads are looked for that began to poll after their function was attached.
    std::chrono::nanoseconds late_look_every = std::chrono::milliseconds(200);
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

  // To be called every few milliseconds, see RunState.
  void Look() {
    state_.Do([](RunState& state) { state.Look(); });
  }
  // Whatever the run is doing: breaks that off, stops the traffic and puts every thread and setting
  // back to how it was found. Any number of times.
  void Release();
  // False: the run is ending.
  bool SleepFor(std::chrono::nanoseconds time) { return ending_.SleepFor(time); }

 private:
  void LetRunEmpty(const v1::DeployRequest& config);
  absl::StatusOr<std::vector<pid_t>> WaitForPolling(const v1::AttachRequest& request);
  absl::Status WaitForLinks(const v1::AttachRequest& request);
  // Calls `look` until it answers something else than NotFound, and returns that. Other errors: the
  // process ended before `what`, or the time is over; then the error ends with the last answer.
  absl::Status WaitFor(const v1::AttachRequest& request, const char* what,
                       const std::function<absl::Status(RunState&)>& look);
  absl::Status Recount();
  absl::Status TakeLeases();                // those that what is deployed lacks
  absl::Status TakeTimeslice(unsigned ms);  // of SCHED_RR, instead of the one before; 0: none
  void ReleaseLeases();
  absl::StatusOr<SwitchCost> SwitchCostOn(std::optional<unsigned> cpu, unsigned rounds);
  // OK: slept the whole time.
  absl::Status Sleep(std::chrono::nanoseconds time, const Wanted& wanted);
  // Lets the kernel run the functions until no packet is under way; the source rests. False:
  // packets still move `moving` after the call, or the timeout is over.
  bool Drain(std::chrono::nanoseconds timeout, std::chrono::nanoseconds moving,
             Interrupt& interrupt);
  void PutBack();

  const std::set<unsigned> function_cpus_;
  const std::vector<unsigned> service_lcores_;
  const std::function<void()> end_;
  Exclusive<RunState> state_;
  Turnstile turnstile_;
  Interrupt ending_;    // raised by Stop() and Release()
  Interrupt released_;  // raised by Release()
  // The machine's settings that are held, by whoever has passed the turnstile.
  struct Timeslice {
    unsigned ms;
    Lease lease;
  };
  std::optional<Timeslice> timeslice_;
  std::vector<Lease> leases_;     // throttle and fair servers
  std::set<unsigned> suspended_;  // CPUs whose fair servers are among them
};

}  // namespace unis
