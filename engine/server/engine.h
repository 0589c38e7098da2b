// The life of one run: deploy, attach the NFs, estimate, start, change the policy, stop. Puts the
// parts together; calls come from the server's threads, one at a time.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "unis/v1/engine.pb.h"
#include "engine/controller/kernel_setting.h"
#include "engine/controller/nf_controller.h"
#include "engine/controller/switch_cost.h"
#include "engine/estimator/cycle_estimator.h"
#include "engine/monitor/ring_monitor.h"
#include "engine/server/deployment.h"
#include "engine/server/policies.h"
#include "engine/server/scheduler_component.h"
#include "engine/server/trace_recorder.h"
#include "engine/timer/tsc_timer.h"

namespace unis {

class Engine {
 public:
  struct Options {
    std::string run;                       // name of this run, for cgroups
    std::vector<unsigned> service_lcores;  // source, sink and scheduler are spread over them
  };

  explicit Engine(Options options);

  // Whatever state the run is in: stops the traffic and puts every NF back to how it was attached.
  void Release();

  absl::StatusOr<v1::DeployReply> Deploy(const v1::DeployRequest& request);
  absl::StatusOr<v1::AttachReply> Attach(const v1::AttachRequest& request);
  absl::StatusOr<v1::EstimateReply> Estimate(const v1::EstimateRequest& request);
  absl::StatusOr<v1::SwitchCostReply> MeasureSwitchCost(const v1::SwitchCostRequest& request);
  absl::Status Start(v1::Policy policy);
  absl::Status SetPolicy(v1::Policy policy);
  absl::StatusOr<v1::Stats> GetStats(bool reset_latency);
  absl::StatusOr<v1::MeasureReply> Measure(const v1::MeasureRequest& request);
  absl::StatusOr<v1::Account> Settle(Nanoseconds timeout);
  absl::StatusOr<v1::TraceReply> Trace(Nanoseconds duration);
  absl::StatusOr<v1::Account> Stop(Nanoseconds timeout);

 private:
  struct Attached {
    NfThread thread;
    SchedulingState before;
  };
  // What one NF had done at some time.
  struct NfProgress {
    std::uint64_t cpu_ns = 0;
    std::uint64_t rx_packets = 0;
  };
  struct Progress {
    Nanoseconds time = 0;
    std::vector<NfProgress> nfs;
  };

  absl::Status RequireDeployed() const;
  absl::Status RequireRunning() const;
  absl::StatusOr<std::size_t> FindNf(const std::string& name) const;
  std::vector<NfThread> Threads() const;
  absl::Status RunComponents();
  absl::Status ApplyPolicy(v1::Policy policy);
  absl::Status LetKernelDecide(const PolicyTraits& traits);
  absl::Status LetEngineDecide();
  void ReleaseNfs();
  absl::StatusOr<SwitchCost> SwitchCostOn(unsigned cpu, unsigned rounds) const;
  absl::Status ChooseLead();
  absl::StatusOr<v1::EstimateReply> EstimateInTurns(const v1::EstimateRequest& request);
  absl::Status SampleAlone(std::size_t nf, std::uint32_t size, std::uint32_t rounds,
                           CostSamples& samples);
  absl::StatusOr<bool> Drain(Nanoseconds timeout);
  // While the chains run: pauses the source, drains, does `work`, and goes on under the same
  // policy. `work` is told whether the chains are drained.
  absl::Status WhilePaused(Nanoseconds timeout, const std::function<void(bool)>& work);
  v1::Account TakeAccount(bool exact) const;
  std::vector<std::uint64_t> CpuTimes() const;
  void FillNf(std::size_t index, v1::NfStats& stats);
  void FillCores(v1::Stats& stats);

  Options options_;
  TscTimer timer_;
  std::mutex mutex_;
  std::unique_ptr<Deployment> deployment_;
  std::unique_ptr<RingMonitor> monitor_;
  std::unique_ptr<TraceRecorder> trace_;
  std::unique_ptr<SchedulerComponent> scheduling_;
  SchedulerSettings settings_;
  std::optional<SwitchCost> switch_cost_;
  bool lead_given_ = false;
  ControllerKind controller_kind_ = ControllerKind::kPriority;
  std::unique_ptr<NfController> controller_;
  std::vector<std::optional<Attached>> attached_;  // per NF
  KernelSetting rt_runtime_{kRtRuntime};
  KernelSetting rr_timeslice_{kRrTimeslice};
  long rr_timeslice_ms_ = 0;
  std::optional<v1::Policy> policy_;  // set while running
  Progress last_;                     // for the shares of busy, spinning and idle
  v1::Stats shares_;                  // CoreStats computed last
};

}  // namespace unis
