#include "engine/run/run.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "engine/contract/check_limits.h"
#include "engine/controller/fair_slice.h"
#include "engine/run/account.h"
#include "engine/run/convert.h"
#include "engine/run/placement.h"
#include "engine/run/services.h"

namespace unis {

using std::chrono::nanoseconds;

namespace {

// Until the scheduler has seen the function at work: a light function's cost, so that a heavy one's
// first turns are short.
constexpr double kAssumedCostNs = 100;

void Log(const absl::Status& status) {
  if (!status.ok()) spdlog::warn("{}", std::string(status.message()));
}

}  // namespace

Run::Run(Options options) : options_(std::move(options)) {}

Run::~Run() { Release(); }

// ------------------------------------------------------------------ what may be done when

absl::Status Run::RequireDeployed() const {
  if (phase_ == v1::RUN_PHASE_RELEASED) return Ending();
  if (deployment_) return absl::OkStatus();
  return absl::FailedPreconditionError("nothing is deployed yet");
}

absl::Status Run::RequireNotRunning() const {
  if (auto status = RequireDeployed(); !status.ok()) return status;
  if (phase_ != v1::RUN_PHASE_RUNNING) return absl::OkStatus();
  return absl::FailedPreconditionError("the chains run already");
}

absl::Status Run::RequireRunning() const {
  if (phase_ == v1::RUN_PHASE_RELEASED) return Ending();
  if (phase_ == v1::RUN_PHASE_RUNNING) return absl::OkStatus();
  return absl::FailedPreconditionError("the chains are not running");
}

// ------------------------------------------------------------------ before the start

absl::Status Run::Deploy(const v1::DeployRequest& request) {
  const auto pass = turnstile_.Enter("deploying");
  if (!pass.ok()) return pass.status();
  if (phase_ == v1::RUN_PHASE_RELEASED) return Ending();
  if (deployment_)
    return absl::FailedPreconditionError("chains are deployed already; one engine, one run");
  if (request.has_fair_slice_ns())
    if (auto status = KnowsFairSlices(); !status.ok()) return status;
  auto deployment = Deployment::Create(request, {options_.function_cpus, options_.service_lcores});
  if (!deployment.ok()) return deployment.status();
  if (ending_.raised()) return Ending();
  const std::lock_guard lock(state_);
  deployment_ = *std::move(deployment);
  threads_ = std::make_unique<ThreadRegistry>(*deployment_, options_.held);
  phase_ = v1::RUN_PHASE_DEPLOYED;
  MakeCounters();
  return absl::OkStatus();
}

void Run::MakeCounters() {
  const auto& functions = deployment_->topology().functions;
  auto costs = std::make_unique<Costs>(functions.size());
  for (std::size_t i = 0; i < functions.size(); ++i) {
    const double stated = functions[i].config.cost_ns();
    if (stated > 0)
      costs->Set(static_cast<FunctionIndex>(i), stated);
    else
      costs->Set(static_cast<FunctionIndex>(i), kAssumedCostNs, CostSource::kAssumed);
  }
  costs_ = std::move(costs);
  work_ = std::make_unique<WorkCounter>(functions.size());
}

// ------------------------------------------------------------------ policies

absl::Status Run::Start(const v1::PolicyRequest& request) {
  const auto pass = turnstile_.Enter("starting");
  if (!pass.ok()) return pass.status();
  if (auto status = RequireNotRunning(); !status.ok()) return status;
  if (deployment_->chains().empty()) return absl::FailedPreconditionError("no chain is deployed");
  if (const auto threads = threads_->All(); !threads.ok()) return threads.status();
  if (estimated_)
    return absl::FailedPreconditionError(
        "costs were measured in this run, and functions may still hold packets of the measurement: "
        "end this run and start the chains in the next");
  auto status = threads_->Recount(ending_, state_);
  if (status.ok()) status = TakeLeases();
  if (status.ok()) status = MeasureLead();
  if (status.ok()) {
    const std::lock_guard lock(state_);
    for (std::size_t i = 0; i < costs_->size(); ++i) deployment_->NotePositions(i);
    status = MakeControl();
  }
  if (status.ok() && ending_.raised()) status = Ending();
  if (status.ok()) status = Change(DecisionFor(request.policy(), request.controller()));
  if (!status.ok()) {
    {
      const std::lock_guard lock(state_);
      options_.held.Watch(0);
      control_.reset();
      schedulers_.clear();
      activities_.clear();
      if (Heartbeat* const heartbeat = deployment_->heartbeat()) heartbeat->Reset();
    }
    ReleaseLeases();
    return status;
  }
  const std::lock_guard lock(state_);
  RaiseChains();
  deployment_->Pause(false);
  phase_ = v1::RUN_PHASE_RUNNING;
  return absl::OkStatus();
}

// The machine's settings, for as long as the chains run.
absl::Status Run::TakeLeases() {
  std::vector<Lease> leases;
  auto throttle = Lease::Take(RtRuntime(), -1);
  if (!throttle.ok()) return throttle.status();
  leases.push_back(*std::move(throttle));
  if (auto status = TakeTimeslice(deployment_->config().rr_timeslice_ms()); !status.ok())
    return status;
  for (Lease& lease : SuspendFairServers(deployment_->topology().cpus))
    leases.push_back(std::move(lease));
  leases_ = std::move(leases);
  return absl::OkStatus();
}

absl::Status Run::TakeTimeslice(unsigned ms) {
  if (timeslice_) {  // nobody, not even we, may have it at two values
    if (auto status = timeslice_->Release(); !status.ok()) return status;
    timeslice_.reset();
  }
  if (ms == 0) return absl::OkStatus();
  auto timeslice = Lease::Take(RrTimeslice(), ms);
  if (!timeslice.ok()) return timeslice.status();
  timeslice_ = *std::move(timeslice);
  return absl::OkStatus();
}

absl::Status Run::MeasureLead() {
  const auto cost = SwitchCostOn(deployment_->topology().cpus.front(), 0);
  if (!cost.ok()) return cost.status();
  spdlog::info(
      "a switch: {:.1f} µs of system call, {:.1f} µs until the function stops, {:.1f} µs until the "
      "next one runs; yield {:.1f} µs",
      cost->call_ns / 1e3, cost->until_preempted_ns / 1e3, cost->until_running_ns / 1e3,
      cost->yield_ns / 1e3);
  const std::lock_guard lock(state_);
  switch_cost_ = *cost;
  return absl::OkStatus();
}

SchedulerSettings Run::Settings(const v1::SchedulerSettings& wanted) const {
  SchedulerSettings settings = FromProto(wanted);
  settings.lazy = true;
  CompensateBy({.until_stopped = switch_cost_->until_preempted_ns,
                .until_running = switch_cost_->until_running_ns},
               wanted, settings);
  return settings;
}

absl::Status Run::MakeControl() {
  const SchedulerSettings settings = Settings(deployment_->config().scheduler());
  lead_ = settings.latency_compensation;
  const auto& functions = deployment_->topology().functions;
  std::vector<std::vector<HeldThread*>> threads;
  std::vector<std::size_t> counts;
  for (const auto& function : functions) {
    const std::string& name = function.config.name();
    threads.push_back(Ready(name) ? threads_->Living(name) : std::vector<HeldThread*>());
    counts.push_back(threads.back().size());
  }
  const Topology::Tasks tasks = deployment_->topology().TasksOf(counts);
  if (auto status = MakeSchedulerComponents(tasks); !status.ok()) return status;
  Control::Parts parts{.group = options_.group,
                       .set = tasks.set,
                       .cores = static_cast<CoreIndex>(deployment_->topology().cpus.size()),
                       .tasks = {},
                       .costs = costs_.get(),
                       .monitor = &deployment_->monitor(),
                       .timer = &timer_,
                       .components = {},
                       .fair_slice = nanoseconds(deployment_->config().fair_slice_ns())};
  for (std::size_t task = 0; task < tasks.function_of.size(); ++task) {
    const std::size_t function = tasks.function_of[task];
    parts.tasks.push_back(
        {threads[function][tasks.thread_of[task]], functions[function].config.yield_every()});
  }
  for (const auto& component : schedulers_) parts.components.push_back(component.get());
  function_of_ = tasks.function_of;
  control_ = std::make_unique<Control>(std::move(parts), settings);
  return absl::OkStatus();
}

absl::Status Run::MakeSchedulerComponents(const Topology::Tasks& tasks) {
  const std::size_t cores = deployment_->topology().cpus.size();
  const auto lcores = PlaceComponents(options_.service_lcores, cores).schedulers;
  const std::size_t count = std::min(lcores.size(), HeldLayout::kBeats);
  if (schedulers_.size() != count) {
    options_.held.Watch(0);
    schedulers_.clear();
  }
  std::vector<std::unique_ptr<Activity>> activities;
  for (std::size_t i = 0; i < count; ++i) {
    if (schedulers_.size() == i) {
      const std::string name = count == 1 ? "unis_scheduler" : fmt::format("unis_scheduler{}", i);
      auto made = std::make_unique<SchedulerComponent>(name, timer_, options_.held.beat(i),
                                                       i == 0 ? deployment_->heartbeat() : nullptr);
      if (auto status = RunFavoured(*made, lcores[i]); !status.ok()) return status;
      schedulers_.push_back(std::move(made));
    }
    std::vector<TraceRecorder::Watched> watched;
    for (TaskIndex task = 0; task < tasks.set.tasks.size(); ++task) {
      const CoreIndex core = tasks.set.tasks[task].core;
      if (core % count != i) continue;
      activities.push_back(ActivityOf(*deployment_, tasks.function_of[task]));
      watched.push_back({.activity = activities.back().get(), .task = task, .core = core});
    }
    auto trace = std::make_unique<TraceRecorder>(std::move(watched), static_cast<CoreIndex>(cores));
    schedulers_[i]->Do([&] { schedulers_[i]->set_trace(std::move(trace)); });
  }
  activities_ = std::move(activities);
  options_.held.Watch(count);
  return absl::OkStatus();
}

Control::Decision Run::DecisionFor(v1::Policy policy, v1::ControllerKind controller) const {
  const auto now = Decided();
  return {.policy = policy != v1::POLICY_UNSPECIFIED ? policy
                    : now                            ? now->policy
                                                     : v1::POLICY_UNIS,
          .controller = controller != v1::CONTROLLER_UNSPECIFIED ? controller
                        : now                                    ? now->controller
                                                                 : v1::CONTROLLER_PRIORITY};
}

std::optional<Control::Decision> Run::Decided() const {
  const std::lock_guard lock(state_);
  const auto decision = control_ ? control_->decision() : std::nullopt;
  return decision ? decision : wanted_;
}

absl::Status Run::Change(const Control::Decision& wanted) {
  const std::lock_guard lock(state_);
  return ChangeTo(wanted);
}

absl::Status Run::ChangeTo(const Control::Decision& wanted) {
  if (!control_) return absl::UnavailableError("nothing schedules: the last change failed");
  if (control_->decision() == wanted) return absl::OkStatus();
  if (deployment_->foreign() && wanted.controller == v1::CONTROLLER_CGROUP)
    return absl::InvalidArgumentError(
        "controller cgroup moves processes, and those that somebody else started stay in their "
        "control group: take priority or signal");
  const HeldFile::Changing changing(options_.held);
  auto status = control_->Change(wanted);
  if (status.ok()) wanted_ = wanted;
  return status;
}

absl::Status Run::SetPolicy(const v1::PolicyRequest& request) {
  const auto pass = turnstile_.Enter("changing the policy");
  if (!pass.ok()) return pass.status();
  if (auto status = RequireRunning(); !status.ok()) return status;
  return Change(DecisionFor(request.policy(), request.controller()));
}

// ------------------------------------------------------------------ the end

absl::StatusOr<v1::Account> Run::Stop(const v1::SettleRequest& request) {
  ending_.Raise();
  const auto pass = turnstile_.EnterLast();
  if (phase_ == v1::RUN_PHASE_RELEASED) return Ending();
  v1::Account account;
  const std::lock_guard arrangement(arrangement_);
  if (deployment_ && !deployment_->chains().empty()) {
    deployment_->Pause(true);
    bool exact = true;
    if (phase_ == v1::RUN_PHASE_RUNNING) {
      {
        const std::lock_guard lock(state_);
        RemoveEnded();
      }
      const auto kernel = Change(DecisionFor(v1::POLICY_OTHER, v1::CONTROLLER_UNSPECIFIED));
      Log(kernel);
      exact = (deployment_->foreign() || Drain(nanoseconds(request.timeout_ns()), released_)) &&
              kernel.ok();
    }
    account = TakeAccountAtRest(*deployment_, exact);
  }
  PutBack();
  if (options_.end) options_.end();
  return account;
}

void Run::Release() {
  ending_.Raise();
  released_.Raise();
  const auto pass = turnstile_.EnterLast();
  PutBack();
}

void Run::PutBack() {
  {
    const std::lock_guard lock(state_);
    const HeldFile::Changing changing(options_.held);
    if (deployment_) deployment_->Pause(true);
    if (control_) Log(control_->Release());
    if (threads_) Log(threads_->Release());
    phase_ = v1::RUN_PHASE_RELEASED;
  }
  ReleaseLeases();
}

// Not under state_: it may wait for others, and nobody who looks shall wait with it.
void Run::ReleaseLeases() {
  if (auto timeslice = std::exchange(timeslice_, std::nullopt))
    leases_.push_back(*std::move(timeslice));
  Log(Lease::Release(std::exchange(leases_, {})));
}

}  // namespace unis
