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
  TakeCosts({});
  return absl::OkStatus();
}

// A function that was there before goes on with the cost that is known of it, till the deployment
// states another one.
void Run::TakeCosts(const std::map<std::string, double>& stated_before) {
  const Topology& topology = deployment_->topology();
  const bool follows = deployment_->config().scheduler().online_cost();
  std::erase_if(costs_, [&](const auto& cost) {
    if (topology.FindFunction(cost.first)) return false;
    work_.Forget(cost.first);
    return true;
  });
  for (const auto& function : topology.functions) {
    const double stated = function.config.cost_ns();
    auto& cost = costs_[function.config.name()];
    if (!cost) {
      cost = stated > 0 ? std::make_shared<FunctionCost>(stated, CostSource::kStated)
                        : std::make_shared<FunctionCost>(kAssumedCostNs, CostSource::kAssumed);
    } else if (stated == 0) {
      if (cost->Source() == CostSource::kStated) cost->Set(cost->Ns(), CostSource::kAssumed);
    } else if (!follows || stated != stated_before.at(function.config.name())) {
      cost->Set(stated, CostSource::kStated);
    }
  }
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
    for (std::size_t i = 0; i < deployment_->topology().functions.size(); ++i)
      deployment_->NotePositions(i);
    control_ = std::make_unique<Control>(timer_);
    status = TakeCores();
  }
  if (status.ok() && ending_.raised()) status = Ending();
  if (status.ok()) status = Change(DecisionFor(request.policy(), request.controller()));
  if (!status.ok()) {
    {
      const std::lock_guard lock(state_);
      options_.held.Watch(0);
      control_.reset();
      schedulers_.clear();
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

absl::Status Run::TakeCores() {
  if (auto status = MakeSchedulerComponents(); !status.ok()) return status;
  std::vector<SchedulerComponent*> components;
  for (const auto& component : schedulers_) components.push_back(component.get());
  control_->Take(PlanCores(), components);
  return absl::OkStatus();
}

std::vector<Control::Wanted> Run::PlanCores() {
  const Topology& topology = deployment_->topology();
  const SchedulerSettings settings = Settings(deployment_->config().scheduler());
  lead_ = settings.latency_compensation;
  std::vector<std::vector<HeldThread*>> threads;
  std::vector<std::size_t> counts;
  for (const auto& function : topology.functions) {
    const std::string& name = function.config.name();
    threads.push_back(Ready(name) ? threads_->Living(name) : std::vector<HeldThread*>());
    counts.push_back(threads.back().size());
  }
  std::vector<Control::Wanted> cores;
  for (CoreIndex core = 0; core < topology.cpus.size(); ++core) {
    const Topology::Tasks tasks = topology.TasksOf(core, counts);
    if (tasks.set.tasks.empty()) continue;
    Control::Wanted& wanted = cores.emplace_back();
    CorePlan& plan = wanted.plan;
    plan.cpu = topology.cpus[core];
    plan.set = tasks.set;
    plan.settings = settings;
    plan.fair_slice = nanoseconds(deployment_->config().fair_slice_ns());
    plan.group = options_.group;
    for (const LinkIndex link : tasks.links) plan.links.push_back(deployment_->occupancy(link));
    for (const std::size_t function : tasks.functions) {
      plan.functions.push_back(topology.functions[function].config.name());
      plan.costs.push_back(costs_.at(plan.functions.back()));
    }
    for (std::size_t task = 0; task < tasks.thread_of.size(); ++task) {
      const std::size_t function = tasks.functions[tasks.set.tasks[task].function];
      plan.tasks.push_back({threads[function][tasks.thread_of[task]],
                            topology.functions[function].config.yield_every()});
      wanted.activities.push_back(ActivityOf(*deployment_, function));
    }
  }
  return cores;
}

// As many as the cores need; those that are there stay.
absl::Status Run::MakeSchedulerComponents() {
  const std::size_t cores = deployment_->topology().cpus.size();
  const auto lcores = PlaceComponents(options_.service_lcores, cores).schedulers;
  const std::size_t count = std::min(lcores.size(), HeldLayout::kBeats);
  for (std::size_t i = schedulers_.size(); i < count; ++i) {
    const std::string name = i == 0 ? "unis_scheduler" : fmt::format("unis_scheduler{}", i + 1);
    auto made = std::make_unique<SchedulerComponent>(name, timer_, options_.held.beat(i),
                                                     i == 0 ? deployment_->heartbeat() : nullptr);
    if (auto status = RunFavoured(*made, lcores[i]); !status.ok()) return status;
    schedulers_.push_back(std::move(made));
  }
  options_.held.Watch(schedulers_.size());
  return absl::OkStatus();
}

Decision Run::DecisionFor(v1::Policy policy, v1::ControllerKind controller) const {
  const auto now = Decided();
  return {.policy = policy != v1::POLICY_UNSPECIFIED ? policy
                    : now                            ? now->policy
                                                     : v1::POLICY_UNIS,
          .controller = controller != v1::CONTROLLER_UNSPECIFIED ? controller
                        : now                                    ? now->controller
                                                                 : v1::CONTROLLER_PRIORITY};
}

std::optional<Decision> Run::Decided() const {
  const std::lock_guard lock(state_);
  const auto decision = control_ ? control_->decision() : std::nullopt;
  return decision ? decision : wanted_;
}

absl::Status Run::Change(const Decision& wanted) {
  const std::lock_guard lock(state_);
  return ChangeTo(wanted);
}

absl::Status Run::ChangeTo(const Decision& wanted) {
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
