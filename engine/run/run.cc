#include "engine/run/run.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "engine/contract/check_limits.h"
#include "engine/run/account.h"
#include "engine/run/convert.h"
#include "engine/run/placement.h"
#include "engine/run/services.h"

namespace unis {

using std::chrono::nanoseconds;

namespace {

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
  auto deployment = Deployment::Create(request, {options_.function_cpus, options_.service_lcores});
  if (!deployment.ok()) return deployment.status();
  if (ending_.raised()) return Ending();
  const std::lock_guard lock(state_);
  deployment_ = *std::move(deployment);
  members_ = std::make_unique<Members>(*deployment_, options_.held);
  phase_ = v1::RUN_PHASE_DEPLOYED;
  MakeCounters();
  return absl::OkStatus();
}

void Run::MakeCounters() {
  const auto& functions = deployment_->topology().functions;
  auto costs = std::make_unique<Costs>(functions.size());
  for (std::size_t i = 0; i < functions.size(); ++i)
    costs->Set(static_cast<FunctionIndex>(i), functions[i].config.cost_ns());
  costs_ = std::move(costs);
  work_ = std::make_unique<WorkCounter>(functions.size());
}

absl::Status Run::Add(const v1::AddRequest& request) {
  const auto pass = turnstile_.Enter("adding to the deployment");
  if (!pass.ok()) return pass.status();
  if (auto status = RequireNotRunning(); !status.ok()) return status;
  for (const auto& link : request.links()) {
    if (members_->empty() || link.memif().engine_end() == v1::MEMIF_END_NONE) continue;
    return absl::FailedPreconditionError(
        fmt::format("link {} needs a port of the engine's, which DPDK opens only before the first "
                    "function runs",
                    link.name()));
  }
  v1::DeployRequest config = deployment_->config();
  config.mutable_links()->MergeFrom(request.links());
  config.mutable_functions()->MergeFrom(request.functions());
  config.mutable_chains()->MergeFrom(request.chains());
  return Reconfigure(config);
}

absl::Status Run::Remove(const v1::RemoveRequest& request) {
  const auto pass = turnstile_.Enter("removing from the deployment");
  if (!pass.ok()) return pass.status();
  if (auto status = RequireNotRunning(); !status.ok()) return status;
  v1::DeployRequest config = deployment_->config();
  const auto remove = [](auto& items, const auto& names, const char* what) -> absl::Status {
    for (const std::string& name : names) {
      const auto named = [&name](const auto& item) { return item.name() == name; };
      const auto at = std::find_if(items.begin(), items.end(), named);
      if (at == items.end())
        return absl::NotFoundError(fmt::format("there is no {} {}", what, name));
      items.erase(at);
    }
    return absl::OkStatus();
  };
  for (const std::string& name : request.functions()) {
    const HeldThread* thread = members_->thread(name);
    if (thread != nullptr && thread->alive())
      return absl::FailedPreconditionError(fmt::format(
          "function {} runs and polls its links: end process {} first", name, thread->pid()));
    // Also where it is not attached, or no more: its memory must not go under it.
    if (const pid_t tid = deployment_->PolledBy(name); tid != 0)
      return absl::FailedPreconditionError(fmt::format(
          "thread {} still polls the ports of function {}: end its process first", tid, name));
  }
  auto status = remove(*config.mutable_chains(), request.chains(), "chain");
  if (status.ok()) status = remove(*config.mutable_functions(), request.functions(), "function");
  if (status.ok()) status = remove(*config.mutable_links(), request.links(), "link");
  if (status.ok()) status = Reconfigure(config);
  if (!status.ok()) return status;
  for (const std::string& name : request.functions()) members_->Detach(name, state_);
  return absl::OkStatus();
}

absl::Status Run::Reconfigure(const v1::DeployRequest& config) {
  const std::lock_guard lock(state_);
  std::map<std::string, double> known;  // also those that were estimated
  for (std::size_t i = 0; i < deployment_->topology().functions.size(); ++i) {
    known[deployment_->topology().functions[i].config.name()] =
        costs_->Ns(static_cast<FunctionIndex>(i));
  }
  if (auto status = CheckLimits(config); !status.ok()) return status;
  const auto status = deployment_->Apply(config);
  MakeCounters();
  for (const auto& [name, cost] : known) {
    if (const auto function = deployment_->topology().FindFunction(name); function)
      costs_->Set(static_cast<FunctionIndex>(*function), cost);
  }
  return status;
}

absl::StatusOr<v1::AttachReply> Run::Attach(const v1::AttachRequest& request) {
  const auto pass = turnstile_.Enter("attaching a function");
  if (!pass.ok()) return pass.status();
  if (auto status = RequireNotRunning(); !status.ok()) return status;
  const auto tid = members_->Attach(request, ending_, state_);
  if (!tid.ok()) return tid.status();
  v1::AttachReply reply;
  reply.set_tid(*tid);
  return reply;
}

// ------------------------------------------------------------------ policies

absl::Status Run::Start(const v1::PolicyRequest& request) {
  const auto pass = turnstile_.Enter("starting");
  if (!pass.ok()) return pass.status();
  if (auto status = RequireNotRunning(); !status.ok()) return status;
  if (deployment_->chains().empty()) return absl::FailedPreconditionError("no chain is deployed");
  if (const auto threads = members_->All(); !threads.ok()) return threads.status();
  if (!deployment_->spoilt().empty())
    return absl::FailedPreconditionError(
        fmt::format("{}; packets that nobody offered would be delivered: end this run, and state "
                    "cost_ns in the "
                    "next",
                    deployment_->spoilt()));
  for (std::size_t i = 0; i < costs_->size(); ++i) {
    if (costs_->Ns(static_cast<FunctionIndex>(i)) > 0) continue;
    return absl::FailedPreconditionError(
        fmt::format("the cost of function {} is neither given nor estimated",
                    deployment_->topology().functions[i].config.name()));
  }
  auto status = members_->Recount(ending_, state_);
  if (status.ok()) status = TakeLeases();
  if (status.ok()) status = MakeControl();
  if (status.ok() && ending_.raised()) status = Ending();
  if (status.ok()) status = Change(DecisionFor(request.policy(), request.controller()));
  if (!status.ok()) {
    {
      const std::lock_guard lock(state_);
      options_.held.Watch(0);
      control_.reset();
      schedulers_.clear();
      activities_.clear();
    }
    ReleaseLeases();
    return status;
  }
  deployment_->source().SetPaused(false);
  const std::lock_guard lock(state_);
  phase_ = v1::RUN_PHASE_RUNNING;
  return absl::OkStatus();
}

// The machine's settings, for as long as the chains run.
absl::Status Run::TakeLeases() {
  std::vector<Lease> leases;
  auto throttle = Lease::Take(RtRuntime(), -1);
  if (!throttle.ok()) return throttle.status();
  leases.push_back(*std::move(throttle));
  if (const auto slice = deployment_->config().rr_timeslice_ms(); slice > 0) {
    auto timeslice = Lease::Take(RrTimeslice(), slice);
    if (!timeslice.ok()) return timeslice.status();
    leases.push_back(*std::move(timeslice));
  }
  for (Lease& lease : SuspendFairServers(deployment_->topology().cpus))
    leases.push_back(std::move(lease));
  leases_ = std::move(leases);
  return absl::OkStatus();
}

absl::Status Run::MakeControl() {
  SchedulerSettings settings = FromProto(deployment_->config().scheduler());
  settings.lazy = true;
  if (auto status = ChooseLead(settings); !status.ok()) return status;
  const auto& functions = deployment_->topology().functions;
  std::vector<std::size_t> threads;
  for (const auto& function : functions)
    threads.push_back(members_->threads(function.config.name()).size());
  const Topology::Tasks tasks = deployment_->topology().TasksOf(threads);
  if (auto status = MakeSchedulerComponents(tasks); !status.ok()) return status;
  Control::Parts parts{.group = options_.group,
                       .set = tasks.set,
                       .cores = static_cast<CoreIndex>(deployment_->topology().cpus.size()),
                       .tasks = {},
                       .costs = costs_.get(),
                       .monitor = &deployment_->monitor(),
                       .timer = &timer_,
                       .components = {}};
  for (std::size_t task = 0; task < tasks.function_of.size(); ++task) {
    const auto& config = functions[tasks.function_of[task]].config;
    parts.tasks.push_back(
        {members_->threads(config.name())[tasks.thread_of[task]], config.cooperates()});
  }
  for (const auto& component : schedulers_) parts.components.push_back(component.get());
  const std::lock_guard lock(state_);
  function_of_ = tasks.function_of;
  control_ = std::make_unique<Control>(std::move(parts), settings);
  return absl::OkStatus();
}

absl::Status Run::MakeSchedulerComponents(const Topology::Tasks& tasks) {
  const std::size_t cores = deployment_->topology().cpus.size();
  const auto lcores = PlaceComponents(options_.service_lcores, cores).schedulers;
  const std::size_t count = std::min(lcores.size(), HeldLayout::kBeats);
  std::vector<std::unique_ptr<SchedulerComponent>> components;
  std::vector<std::unique_ptr<Activity>> activities;
  for (std::size_t i = 0; i < count; ++i) {
    const std::string name = count == 1 ? "unis_scheduler" : fmt::format("unis_scheduler{}", i);
    components.push_back(std::make_unique<SchedulerComponent>(name, timer_, options_.held.beat(i)));
    std::vector<TraceRecorder::Watched> watched;
    for (TaskIndex task = 0; task < tasks.set.tasks.size(); ++task) {
      const CoreIndex core = tasks.set.tasks[task].core;
      if (core % count != i) continue;
      activities.push_back(ActivityOf(*deployment_, tasks.function_of[task]));
      watched.push_back({.activity = activities.back().get(), .task = task, .core = core});
    }
    components.back()->set_trace(
        std::make_unique<TraceRecorder>(std::move(watched), static_cast<CoreIndex>(cores)));
    if (auto status = RunFavoured(*components.back(), lcores[i]); !status.ok()) return status;
  }
  const std::lock_guard lock(state_);
  schedulers_ = std::move(components);
  activities_ = std::move(activities);
  options_.held.Watch(count);
  return absl::OkStatus();
}

absl::Status Run::ChooseLead(SchedulerSettings& settings) {
  const auto cost = SwitchCostOn(deployment_->topology().cpus.front(), 0);
  if (!cost.ok()) return cost.status();
  if (!deployment_->config().scheduler().has_lead_ns()) {
    settings.lead = static_cast<Nanoseconds>(cost->until_preempted_ns);
    settings.switch_time = static_cast<Nanoseconds>(cost->until_running_ns);
  }
  spdlog::info(
      "a switch: {:.1f} µs of system call, {:.1f} µs until the function stops, {:.1f} µs until the "
      "next one runs; yield {:.1f} µs",
      cost->call_ns / 1e3, cost->until_preempted_ns / 1e3, cost->until_running_ns / 1e3,
      cost->yield_ns / 1e3);
  const std::lock_guard lock(state_);
  switch_cost_ = *cost;
  lead_ = settings.lead;
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
  return control_ ? control_->decision() : std::nullopt;
}

absl::Status Run::Change(const Control::Decision& wanted) {
  const std::lock_guard lock(state_);
  if (control_->decision() == wanted) return absl::OkStatus();
  const HeldFile::Changing changing(options_.held);
  return control_->Change(wanted);
}

// Whoever is inside the turnstile, measuring say, wants the same decision; so this passes none.
void Run::TakeBack() {
  if (!options_.held.TakeReturned()) return;
  const std::lock_guard lock(state_);
  const auto decision = control_ ? control_->decision() : std::nullopt;
  if (!decision) return;
  const HeldFile::Changing changing(options_.held);
  const auto status = control_->Change(*decision);
  if (status.ok()) {
    spdlog::warn(
        "the scheduler stood still, and the guard had put every function back into its old "
        "scheduling class: took them again");
  } else {
    spdlog::error("cannot take the functions again that the guard has put back: {}",
                  std::string(status.message()));
  }
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
  if (deployment_ && !deployment_->chains().empty()) {
    deployment_->source().SetPaused(true);
    bool exact = true;
    if (phase_ == v1::RUN_PHASE_RUNNING) {
      const auto kernel = Change({v1::POLICY_OTHER, Decided()->controller});
      Log(kernel);
      exact = Drain(nanoseconds(request.timeout_ns()), released_) && kernel.ok();
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
    if (deployment_ && !deployment_->chains().empty()) deployment_->source().SetPaused(true);
    if (control_) Log(control_->Release());
    if (members_) Log(members_->Release());
    phase_ = v1::RUN_PHASE_RELEASED;
  }
  ReleaseLeases();
}

// Not under state_: it may wait for others, and nobody who looks shall wait with it.
void Run::ReleaseLeases() { Log(Lease::Release(std::exchange(leases_, {}))); }

}  // namespace unis
