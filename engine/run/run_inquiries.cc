// What a run is asked while it lives: costs, statistics, windows, traces, accounts.
#include <absl/cleanup/cleanup.h>

#include <utility>

#include "engine/run/account.h"
#include "engine/run/estimation.h"
#include "engine/run/measurement.h"
#include "engine/run/packet_work.h"
#include "engine/run/run.h"
#include "engine/run/services.h"

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

absl::StatusOr<v1::EstimateReply> Run::Estimate(const v1::EstimateRequest& request,
                                                const Wanted& wanted) {
  const auto pass = turnstile_.Enter("measuring costs");
  if (!pass.ok()) return pass.status();
  RunState* before_start = nullptr;
  const auto status = state_.Do([&](RunState& state) -> absl::Status {
    if (auto not_running = state.RequireNotRunning(); !not_running.ok()) return not_running;
    if (state.deployment().chains().empty())
      return absl::FailedPreconditionError("no chain is deployed");
    if (state.deployment().foreign())
      return absl::FailedPreconditionError(
          "nothing is sent through the functions of others: the scheduler measures what a packet "
          "costs them while they run");
    if (state.deployment().wired())
      return absl::FailedPreconditionError(
          "nothing is sent through functions at wires: the scheduler measures what a packet costs "
          "them while they run");
    before_start = &state;
    return absl::OkStatus();
  });
  if (!status.ok()) return status;
  const auto throttle = Lease::Take(RtRuntime(), -1);
  if (!throttle.ok()) return throttle.status();
  const auto go_on = [&]() -> absl::Status {
    if (ending_.raised()) return Ending();
    if (wanted && !wanted()) return CallerGone();
    return absl::OkStatus();
  };
  // Not in a step, for it takes seconds: before the start nothing but an operation changes what it
  // works with.
  auto reply =
      Estimation(before_start->deployment(), before_start->threads(), before_start->timer(), go_on)
          .Run(request);
  // Else nothing was sent: the request names what there is not.
  if (reply.ok() || !absl::IsInvalidArgument(reply.status()))
    state_.Do([](RunState& state) { state.set_estimated(); });
  return reply;
}

// None: the first CPU of functions.
absl::StatusOr<SwitchCost> Run::SwitchCostOn(std::optional<unsigned> cpu, unsigned rounds) {
  constexpr unsigned kRounds = 200;
  const auto [cpus, memory] = state_.Do([](RunState& state) {
    const Deployment& deployment = state.deployment();
    return std::pair(deployment.topology().cpus,
                     deployment.foreign() ? nullptr : &deployment.memory());
  });
  std::optional<PacketWork> work;
  if (memory != nullptr) work.emplace(*memory);
  auto cost = unis::MeasureSwitchCost(
      cpu.value_or(cpus.front()), cpus, rounds > 0 ? rounds : kRounds,
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
  auto status = state_.Do([](RunState& state) { return state.RequireNotRunning(); });
  if (!status.ok()) return status;
  const auto throttle = Lease::Take(RtRuntime(), -1);
  if (!throttle.ok()) return throttle.status();
  const auto cost = SwitchCostOn(request.cpu(), request.rounds());
  if (!cost.ok()) return cost.status();
  v1::SwitchCostReply reply;
  reply.set_call_ns(cost->call_ns);
  reply.set_until_preempted_ns(cost->until_preempted_ns);
  reply.set_until_running_ns(cost->until_running_ns);
  reply.set_yield_ns(cost->yield_ns);
  return reply;
}

absl::StatusOr<v1::Stats> Run::GetStats(const v1::StatsRequest& request) {
  return state_.Do([&](RunState& state) { return state.Stats(request.latency()); });
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
  const absl::Cleanup as_before = [this, &request] {
    state_.Do([&](RunState& state) {
      if (ChangesRate(request) && state.running())
        (void)state.deployment().ChangeRate(state.deployment().config().traffic());
    });
  };
  auto status = state_.Do([&](RunState& state) -> absl::Status {
    if (auto running = state.RequireRunning(); !running.ok()) return running;
    Deployment& deployment = state.deployment();
    if (ChangesRate(request)) {
      const auto traffic = TrafficOf(request, deployment.config().traffic());
      if (auto changed = deployment.ChangeRate(traffic); !changed.ok()) return changed;
    }
    Decision decision = state.DecisionFor(request.policy(), request.controller());
    decision.yield_every = request.yield_every();
    if (request.has_scheduler()) decision.settings = state.Settings(request.scheduler());
    return state.ChangeTo(decision);
  });
  if (!status.ok()) return status;
  status = Sleep(nanoseconds(request.settle_ns()), wanted);
  if (!status.ok()) return status;
  const Snapshot begin = state_.Do([](RunState& state) { return state.TakeSnapshot(); });
  status = Sleep(nanoseconds(request.window_ns()), wanted);
  if (!status.ok()) return status;
  return state_.Do([&](RunState& state) {
    v1::MeasureReply reply = Difference(begin, state.TakeSnapshot());
    const auto decision = state.decided();
    reply.set_policy(decision->policy);
    reply.set_controller(decision->controller);
    reply.set_yield_every(decision->yield_every);
    if (decision->settings) *reply.mutable_scheduler() = request.scheduler();
    return reply;
  });
}

absl::StatusOr<v1::TraceReply> Run::Trace(const v1::TraceRequest& request, const Wanted& wanted) {
  const auto pass = turnstile_.Enter("taking a trace");
  if (!pass.ok()) return pass.status();
  const auto cpus = state_.Do([](RunState& state) -> absl::StatusOr<std::size_t> {
    if (auto running = state.RequireRunning(); !running.ok()) return running;
    return state.deployment().topology().cpus.size();
  });
  if (!cpus.ok()) return cpus.status();
  // To make them, and the reply, takes long: not in a step.
  std::vector<CoreTrace> traces(*cpus);
  v1::TraceReply reply;
  state_.Do([&](RunState& state) {
    reply.set_policy(state.decided()->policy);
    state.BeginTrace(traces);
    reply.set_begin_ns(static_cast<std::uint64_t>(state.timer().Now()));
  });
  auto status = Sleep(nanoseconds(request.duration_ns()), wanted);
  status.Update(state_.Do([&](RunState& state) {
    reply.set_end_ns(static_cast<std::uint64_t>(state.timer().Now()));
    return state.EndTrace();
  }));
  if (!status.ok()) return status;
  FillTrace(traces, reply);
  return reply;
}

// Waits until no packet is under way, or until nothing has moved for so long that what is left will
// stay, say with a function that collects packets, or was dropped by a program over memif: what it
// has in hand looks the same. True if so: an account taken then is exact.
bool Run::Drain(nanoseconds timeout, nanoseconds moving, Interrupt& interrupt) {
  constexpr int kEmptyFor = 2, kStillFor = 250;  // looks
  const auto look = [](RunState& state) {
    const Deployment& deployment = state.deployment();
    (void)deployment.FreeSent();
    state.RemoveEnded();
    state.DropForAbsent();
    // Else a function has passed packets on and was kept from its CPU before it counted them.
    const bool adds_up = TakeAccount(deployment).unaccounted() == 0;
    return std::pair(Movement(deployment),
                     adds_up && Drained(deployment) && InForeignHands(deployment) == 0);
  };
  const auto begin = std::chrono::steady_clock::now();
  std::uint64_t last = 0;
  for (int still = 0; std::chrono::steady_clock::now() - begin < timeout;) {
    const auto [moved, empty] = state_.Do(look);
    if (moved != last && std::chrono::steady_clock::now() - begin > moving) return false;
    still = moved == last ? still + 1 : 0;
    last = moved;
    if (still >= (empty ? kEmptyFor : kStillFor)) return true;
    if (!interrupt.SleepFor(kDrainLookEvery)) return false;
  }
  return false;
}

// The kernel runs the functions meanwhile: Algorithm 1 has no reason to run one whose ingress is
// empty, even if it was preempted between sending a packet and counting it.
absl::StatusOr<v1::Account> Run::Settle(const v1::SettleRequest& request) {
  const auto pass = turnstile_.Enter("counting every packet");
  if (!pass.ok()) return pass.status();
  std::optional<Decision> before;
  const absl::Cleanup go_on = [&] {
    state_.Do([&](RunState& state) {
      if (!before) return;
      state.set_still(false);
      if (!ending_.raised()) state.deployment().Pause(false);
    });
  };
  auto status = state_.Do([&](RunState& state) {
    auto running = state.RequireRunning();
    if (!running.ok()) return running;
    if (state.deployment().foreign())
      return absl::FailedPreconditionError(
          "somebody else's traffic runs through these functions, and he alone can account for it");
    state.RemoveEnded();
    before = state.decided();
    state.set_still(true);
    state.deployment().Pause(true);
    return state.ChangeTo(AllFair(before->controller));
  });
  if (!status.ok()) return status;
  const nanoseconds timeout(request.timeout_ns());
  const bool drained = Drain(timeout, timeout, ending_);
  v1::Account account;
  status = state_.Do([&](RunState& state) {
    account = state.AccountAtRest(drained);
    return ending_.raised() ? Ending() : state.ReturnTo(*before);
  });
  if (!status.ok()) return status;
  return account;
}

}  // namespace unis
