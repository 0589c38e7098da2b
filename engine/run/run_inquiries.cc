// What a run is asked while it lives: costs, statistics, windows, traces, accounts.
#include <absl/cleanup/cleanup.h>

#include <utility>

#include "engine/run/account.h"
#include "engine/run/estimation.h"
#include "engine/run/measurement.h"
#include "engine/run/packet_work.h"
#include "engine/run/run.h"
#include "engine/run/services.h"
#include "engine/run/stats.h"

namespace unis {
namespace {

using std::chrono::nanoseconds;

constexpr auto kDrainLookEvery = std::chrono::milliseconds(2);

bool ChangesRate(const v1::MeasureRequest& request) {
  return request.has_pps() || request.arrivals() != v1::ARRIVALS_UNSPECIFIED;
}

// The traffic that is measured, where the run has `traffic`.
v1::TrafficConfig TrafficOf(const v1::MeasureRequest& request, v1::TrafficConfig traffic) {
  if (request.has_pps()) {
    traffic.set_pps(request.pps());
    traffic.clear_bps();
  }
  if (request.arrivals() != v1::ARRIVALS_UNSPECIFIED) traffic.set_arrivals(request.arrivals());
  return traffic;
}

}  // namespace

// ------------------------------------------------------------------ costs

absl::StatusOr<v1::EstimateReply> Run::Estimate(const v1::EstimateRequest& request,
                                                const Wanted& wanted) {
  const auto pass = turnstile_.Enter("measuring costs");
  if (!pass.ok()) return pass.status();
  if (auto status = RequireNotRunning(); !status.ok()) return status;
  if (deployment_->chains().empty()) return absl::FailedPreconditionError("no chain is deployed");
  if (deployment_->foreign())
    return absl::FailedPreconditionError(
        "nothing is sent through the functions of others: the scheduler measures what a packet "
        "costs them while they run");
  const auto throttle = Lease::Take(RtRuntime(), -1);
  if (!throttle.ok()) return throttle.status();
  const auto go_on = [&]() -> absl::Status {
    if (ending_.raised()) return Ending();
    if (wanted && !wanted()) return CallerGone();
    return absl::OkStatus();
  };
  auto reply = Estimation(*deployment_, *threads_, timer_, go_on).Run(request);
  // Else nothing was sent: the request names what there is not.
  estimated_ |= reply.ok() || !absl::IsInvalidArgument(reply.status());
  return reply;
}

absl::StatusOr<SwitchCost> Run::SwitchCostOn(unsigned cpu, unsigned rounds) const {
  constexpr unsigned kRounds = 200;
  std::optional<PacketWork> work;
  if (!deployment_->foreign()) work.emplace(deployment_->memory());
  auto cost = unis::MeasureSwitchCost(
      cpu, deployment_->topology().cpus, rounds > 0 ? rounds : kRounds,
      [&work] {
        if (work) work->Burst();
      },
      [this] { return !ending_.raised(); });
  if (ending_.raised()) return Ending();
  return cost;
}

absl::StatusOr<v1::SwitchCostReply> Run::MeasureSwitchCost(const v1::SwitchCostRequest& request) {
  const auto pass = turnstile_.Enter("measuring a switch");
  if (!pass.ok()) return pass.status();
  if (auto status = RequireNotRunning(); !status.ok()) return status;
  const auto throttle = Lease::Take(RtRuntime(), -1);
  if (!throttle.ok()) return throttle.status();
  const auto cost = SwitchCostOn(request.cpu(), request.rounds());
  if (!cost.ok()) return cost.status();
  v1::SwitchCostReply reply;
  reply.set_call_ns(cost->call_ns);
  reply.set_until_preempted_ns(cost->until_preempted_ns);
  reply.set_until_running_ns(cost->until_running_ns);
  reply.set_until_running_ns_q1(cost->until_running_ns_q1);
  reply.set_until_running_ns_q3(cost->until_running_ns_q3);
  reply.set_yield_ns(cost->yield_ns);
  return reply;
}

// ------------------------------------------------------------------ looking

absl::StatusOr<v1::Stats> Run::GetStats(const v1::StatsRequest& request) {
  const std::lock_guard lock(state_);
  v1::Stats stats;
  stats.set_phase(phase_);
  stats.set_time_ns(static_cast<std::uint64_t>(timer_.Now()));
  if (!deployment_) return stats;
  stats.set_run(deployment_->config().run());
  stats.set_run_id(deployment_->config().run_id());
  stats.set_lead_ns(static_cast<std::uint64_t>(lead_));
  if (switch_cost_) {
    stats.set_switch_ns(static_cast<std::uint64_t>(switch_cost_->until_running_ns));
    stats.set_preempt_ns(static_cast<std::uint64_t>(switch_cost_->until_preempted_ns));
  }
  FillStats({.deployment = *deployment_,
             .threads = *threads_,
             .decision = control_ ? control_->decision() : std::nullopt,
             .counts = Counts(),
             .work = work_,
             .costs = costs_,
             .schedulers = schedulers_,
             .timer = timer_},
            request.latency(), stats);
  return stats;
}

absl::Status Run::Sleep(nanoseconds time, const Wanted& wanted) {
  constexpr nanoseconds kLookAtCaller = std::chrono::milliseconds(100);
  const auto end = std::chrono::steady_clock::now() + time;
  for (auto left = time; left > nanoseconds::zero();
       left = end - std::chrono::steady_clock::now()) {
    if (!SleepFor(std::min(left, kLookAtCaller))) return Ending();
    if (wanted && !wanted()) return CallerGone();
  }
  return absl::OkStatus();
}

absl::StatusOr<v1::MeasureReply> Run::Measure(const v1::MeasureRequest& request,
                                              const Wanted& wanted) {
  const auto pass = turnstile_.Enter("measuring");
  if (!pass.ok()) return pass.status();
  if (auto status = RequireRunning(); !status.ok()) return status;
  const absl::Cleanup as_before = [this, &request] {
    if (ChangesRate(request)) (void)deployment_->ChangeRate(deployment_->config().traffic());
  };
  if (ChangesRate(request)) {
    if (auto status = deployment_->ChangeRate(TrafficOf(request, deployment_->config().traffic()));
        !status.ok())
      return status;
  }
  auto wanted_decision = DecisionFor(request.policy(), request.controller());
  wanted_decision.yield_every = request.yield_every();
  if (request.has_scheduler()) wanted_decision.settings = Settings(request.scheduler());
  if (auto status = Change(wanted_decision); !status.ok()) return status;
  if (auto status = Sleep(nanoseconds(request.settle_ns()), wanted); !status.ok()) return status;
  const auto snapshot = [this] {
    const std::lock_guard lock(state_);
    return TakeSnapshot(*deployment_, *threads_, Counts(), timer_);
  };
  const Snapshot begin = snapshot();
  if (auto status = Sleep(nanoseconds(request.window_ns()), wanted); !status.ok()) return status;
  v1::MeasureReply reply = Difference(begin, snapshot());
  const auto decision = Decided();
  reply.set_policy(decision->policy);
  reply.set_controller(decision->controller);
  reply.set_yield_every(decision->yield_every);
  if (decision->settings) *reply.mutable_scheduler() = request.scheduler();
  return reply;
}

absl::StatusOr<v1::TraceReply> Run::Trace(const v1::TraceRequest& request, const Wanted& wanted) {
  const auto pass = turnstile_.Enter("taking a trace");
  if (!pass.ok()) return pass.status();
  if (auto status = RequireRunning(); !status.ok()) return status;
  v1::TraceReply reply;
  reply.set_policy(Decided()->policy);
  std::uint64_t arranged = 0;
  {
    const std::lock_guard lock(state_);
    arranged = arranged_;
    for (CoreControl* const core : control_->cores()) {
      TraceRecorder::Room room;
      core->BeginTrace(room);
    }
  }
  reply.set_begin_ns(static_cast<std::uint64_t>(timer_.Now()));
  const auto slept = Sleep(nanoseconds(request.duration_ns()), wanted);
  reply.set_end_ns(static_cast<std::uint64_t>(timer_.Now()));
  const std::lock_guard lock(state_);
  std::vector<CoreTrace> traces;
  for (CoreControl* const core : control_->cores())
    traces.push_back({.plan = &core->plan(), .trace = &core->EndTrace()});
  if (!slept.ok()) return slept;
  if (arranged != arranged_)
    return absl::AbortedError("a function came or went while the trace was taken: take another");
  FillTrace(traces, reply);
  return reply;
}

// ------------------------------------------------------------------ standing still

absl::Status Run::WhilePaused(nanoseconds timeout, Interrupt& interrupt,
                              const std::function<void(bool)>& work) {
  {
    const std::lock_guard lock(state_);
    RemoveEnded();
  }
  const Decision before =
      Decided().value_or(DecisionFor(v1::POLICY_UNSPECIFIED, v1::CONTROLLER_UNSPECIFIED));
  deployment_->Pause(true);
  const absl::Cleanup go_on = [this, &interrupt] {
    if (!interrupt.raised()) deployment_->Pause(false);
  };
  // The kernel runs the functions meanwhile: Algorithm 1 has no reason to run one whose ingress is
  // empty, even if it was preempted between sending a packet and counting it.
  const auto kernel = Change({.policy = v1::POLICY_OTHER, .controller = before.controller});
  if (!kernel.ok()) return kernel;
  work(Drain(timeout, interrupt));
  if (interrupt.raised()) return Ending();
  const std::lock_guard lock(state_);
  wanted_ = before;  // also if somebody has died meanwhile
  RemoveEnded();
  return ChangeTo(before);
}

// Waits until no packet is under way, or until nothing has moved for so long that what is left will
// stay, say with a function that collects packets, or was dropped by a program over memif: what it
// has in hand looks the same. True if so: an account taken then is exact.
bool Run::Drain(nanoseconds timeout, Interrupt& interrupt) {
  constexpr int kEmptyFor = 2, kStillFor = 250;  // looks
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  std::uint64_t last = 0;
  int still = 0;
  while (std::chrono::steady_clock::now() < deadline) {
    (void)deployment_->FreeSent();
    {
      const std::lock_guard lock(state_);
      RemoveEnded();
    }
    for (const std::string& name : absent_)
      deployment_->EmptyBefore(*deployment_->topology().FindFunction(name));
    const std::uint64_t moved = Movement(*deployment_);
    still = moved == last ? still + 1 : 0;
    last = moved;
    const bool empty = Drained(*deployment_) && InForeignHands(*deployment_) == 0;
    if (still >= (empty ? kEmptyFor : kStillFor)) {
      if (std::exchange(deaths_, false)) deployment_->WriteOff();
      return true;
    }
    if (!interrupt.SleepFor(kDrainLookEvery)) return false;
  }
  return false;
}

absl::StatusOr<v1::Account> Run::Settle(const v1::SettleRequest& request) {
  const auto pass = turnstile_.Enter("counting every packet");
  if (!pass.ok()) return pass.status();
  if (auto status = RequireRunning(); !status.ok()) return status;
  if (deployment_->foreign())
    return absl::FailedPreconditionError(
        "somebody else's traffic runs through these functions, and he alone can account for it");
  v1::Account account;
  const std::lock_guard arrangement(arrangement_);
  const auto status = WhilePaused(nanoseconds(request.timeout_ns()), ending_, [&](bool drained) {
    account = TakeAccountAtRest(*deployment_, drained);
  });
  if (!status.ok()) return status;
  return account;
}

}  // namespace unis
