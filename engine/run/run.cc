// The life of a run: its begin, its policies and its end.
#include "engine/run/run.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "engine/controller/fair_slice.h"
#include "engine/run/services.h"

namespace unis {

using std::chrono::nanoseconds;

// How long a stop waits while packets move through chains at wires, whose source nobody can stop.
constexpr auto kWireMoves = std::chrono::milliseconds(200);

Run::Run(Options options)
    : function_cpus_(std::move(options.function_cpus)),
      service_lcores_(options.service_lcores),
      end_(std::move(options.end)),
      state_(RunState::Options{.service_lcores = std::move(options.service_lcores),
                               .held = std::move(options.held),
                               .late_look_every = options.late_look_every}) {}

Run::~Run() { Release(); }

absl::Status Run::Deploy(const v1::DeployRequest& request) {
  const auto pass = turnstile_.Enter("deploying");
  if (!pass.ok()) return pass.status();
  auto status = state_.Do([](RunState& state) { return state.RequireEmpty(); });
  if (status.ok() && NeedsFairSlices(request)) status = KnowsFairSlices();
  if (!status.ok()) return status;
  auto deployment = Deployment::Create(request, {function_cpus_, service_lcores_});
  if (!deployment.ok()) return deployment.status();
  if (ending_.raised()) return Ending();
  state_.Do([&](RunState& state) { state.TakeDeployment(*std::move(deployment)); });
  return absl::OkStatus();
}

absl::Status Run::Start(const v1::PolicyRequest& request) {
  const auto pass = turnstile_.Enter("starting");
  if (!pass.ok()) return pass.status();
  auto status = state_.Do([](RunState& state) { return state.MayStart(); });
  if (status.ok()) status = Recount();
  if (!status.ok()) return status;
  status = TakeLeases();
  const auto cost = status.ok() ? SwitchCostOn(std::nullopt, 0) : status;
  status = cost.status();
  if (status.ok()) {
    spdlog::info(
        "a switch: {:.1f} µs of system call, {:.1f} µs until the function stops, {:.1f} µs until "
        "the next one runs; yield {:.1f} µs",
        cost->call_ns / 1e3, cost->until_preempted_ns / 1e3, cost->until_running_ns / 1e3,
        cost->yield_ns / 1e3);
    status = ending_.raised()
                 ? Ending()
                 : state_.Do([&](RunState& state) { return state.Start(request, *cost); });
  }
  if (!status.ok()) ReleaseLeases();
  return status;
}

// Threads that have begun to poll since their function was attached.
absl::Status Run::Recount() {
  auto censuses = state_.Do([](RunState& state) { return state.threads().Censuses(); });
  if (censuses.empty()) return absl::OkStatus();
  for (int look = 0; look < PollerCensus::kLooks; ++look) {
    for (auto& [function, census] : censuses) census.Look();
    if (!ending_.SleepFor(PollerCensus::kEvery)) return Ending();
  }
  return state_.Do([&](RunState& state) { return state.threads().Recount(censuses); });
}

// The machine's settings, for as long as the chains run. Some may be missing after an error.
absl::Status Run::TakeLeases() {
  const auto [slice, cpus] = state_.Do([](RunState& state) {
    return std::pair(state.deployment().config().rr_timeslice_ms(),
                     state.deployment().topology().cpus);
  });
  if (leases_.empty()) {
    auto throttle = Lease::Take(RtRuntime(), -1);
    if (!throttle.ok()) return throttle.status();
    leases_.push_back(*std::move(throttle));
  }
  for (const unsigned cpu : cpus) {
    if (suspended_.contains(cpu)) continue;
    auto fair_server = SuspendFairServer(cpu);
    if (!fair_server.ok()) continue;  // not of every kernel
    leases_.push_back(*std::move(fair_server));
    suspended_.insert(cpu);
  }
  return TakeTimeslice(slice);
}

absl::Status Run::TakeTimeslice(unsigned ms) {
  if (ms == (timeslice_ ? timeslice_->ms : 0)) return absl::OkStatus();
  if (timeslice_) {  // nobody, not even we, may have it at two values
    if (auto status = timeslice_->lease.Release(); !status.ok()) return status;
    timeslice_.reset();
  }
  if (ms == 0) return absl::OkStatus();
  auto lease = Lease::Take(RrTimeslice(), ms);
  if (lease.ok()) timeslice_ = Timeslice{.ms = ms, .lease = *std::move(lease)};
  return lease.status();
}

void Run::ReleaseLeases() {
  if (auto timeslice = std::exchange(timeslice_, std::nullopt))
    leases_.push_back(std::move(timeslice->lease));
  suspended_.clear();
  Warn(Lease::Release(std::exchange(leases_, {})));
}

absl::Status Run::SetPolicy(const v1::PolicyRequest& request) {
  const auto pass = turnstile_.Enter("changing the policy");
  if (!pass.ok()) return pass.status();
  return state_.Do([&](RunState& state) {
    auto status = state.RequireRunning();
    if (!status.ok()) return status;
    return state.ChangeTo(state.DecisionFor(request.policy(), request.controller()));
  });
}

absl::StatusOr<v1::Account> Run::Stop(const v1::SettleRequest& request) {
  ending_.Raise();
  const auto pass = turnstile_.EnterLast();
  enum class Then { kEnd, kDrain, kCount, kNothing };
  absl::Status kernel;
  const nanoseconds timeout(request.timeout_ns());
  nanoseconds moving = timeout;
  const Then then = state_.Do([&](RunState& state) {
    if (state.released()) return Then::kEnd;
    if (!state.deployed() || state.deployment().chains().empty()) return Then::kNothing;
    state.deployment().Pause(true);
    if (!state.running()) return Then::kCount;
    if (state.deployment().wired()) moving = std::min<nanoseconds>(timeout, kWireMoves);
    state.set_still(true);
    state.RemoveEnded();
    const Decision kept = state.DecisionFor(v1::POLICY_OTHER, v1::CONTROLLER_UNSPECIFIED);
    kernel = state.ChangeTo(AllFair(kept.controller));
    Warn(kernel);
    return state.deployment().foreign() ? Then::kCount : Then::kDrain;
  });
  if (then == Then::kEnd) return Ending();
  v1::Account account;
  if (then != Then::kNothing) {
    const bool drained = then == Then::kCount || Drain(timeout, moving, released_);
    account =
        state_.Do([&](RunState& state) { return state.AccountAtRest(drained && kernel.ok()); });
  }
  PutBack();
  if (end_) end_();
  return account;
}

void Run::Release() {
  ending_.Raise();
  released_.Raise();
  const auto pass = turnstile_.EnterLast();
  PutBack();
}

// The leases last, and not in a step: another process may hold their lock.
void Run::PutBack() {
  state_.Do([](RunState& state) { state.PutBack(); });
  ReleaseLeases();
}

}  // namespace unis
