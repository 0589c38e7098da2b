#include "engine/run/run_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "engine/base/favour.h"
#include "engine/contract/from_proto.h"
#include "engine/run/account.h"
#include "engine/run/convert.h"
#include "engine/run/placement.h"
#include "engine/run/services.h"
#include "engine/run/stats.h"

namespace unis {
namespace {

using std::chrono::nanoseconds;

// Until the scheduler has seen the function at work: a light function's cost, so that a heavy one's
// first turns are short.
constexpr double kAssumedCostNs = 100;

}  // namespace

absl::Status RunState::RequireEmpty() const {
  if (released()) return Ending();
  if (!deployment_) return absl::OkStatus();
  return absl::FailedPreconditionError("chains are deployed already; one engine, one run");
}

absl::Status RunState::RequireDeployed() const {
  if (released()) return Ending();
  if (deployment_) return absl::OkStatus();
  return absl::FailedPreconditionError("nothing is deployed yet");
}

absl::Status RunState::RequireNotRunning() const {
  if (auto status = RequireDeployed(); !status.ok()) return status;
  if (!running()) return absl::OkStatus();
  return absl::FailedPreconditionError("the chains run already");
}

absl::Status RunState::RequireRunning() const {
  if (released()) return Ending();
  if (running()) return absl::OkStatus();
  return absl::FailedPreconditionError("the chains are not running");
}

absl::Status RunState::MayStart() const {
  if (auto status = RequireNotRunning(); !status.ok()) return status;
  if (deployment_->chains().empty()) return absl::FailedPreconditionError("no chain is deployed");
  if (auto status = threads_->AllPoll(); !status.ok()) return status;
  if (!estimated_) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "costs were measured in this run, and functions may still hold packets of the measurement: "
      "end this run and start the chains in the next");
}

void RunState::TakeDeployment(std::unique_ptr<Deployment> deployment) {
  deployment_ = std::move(deployment);
  threads_ = std::make_unique<ThreadRegistry>(*deployment_, options_.held);
  phase_ = v1::RUN_PHASE_DEPLOYED;
  TakeCosts({});
}

absl::Status RunState::Start(const v1::PolicyRequest& request, const SwitchCost& cost) {
  switch_cost_ = cost;
  for (std::size_t i = 0; i < deployment_->topology().functions.size(); ++i)
    deployment_->NotePositions(i);
  control_ = std::make_unique<Control>(timer_);
  auto status = TakeCores();
  if (status.ok()) status = ChangeTo(DecisionFor(request.policy(), request.controller()));
  if (!status.ok()) {
    options_.held.Watch(0);
    control_.reset();
    schedulers_.clear();
    if (Heartbeat* const heartbeat = deployment_->heartbeat()) heartbeat->Reset();
    return status;
  }
  RaiseChains();
  deployment_->Pause(false);
  phase_ = v1::RUN_PHASE_RUNNING;
  return status;
}

void RunState::PutBack() {
  const HeldFile::Changing changing(options_.held);
  if (deployment_) deployment_->Pause(true);
  if (control_) Warn(control_->Release());
  if (threads_) Warn(threads_->Release());
  phase_ = v1::RUN_PHASE_RELEASED;
}

// A function that was there before keeps its cost, until the deployment states another one.
void RunState::TakeCosts(const std::map<std::string, double>& stated_before) {
  const Topology& topology = deployment_->topology();
  const bool follows = deployment_->config().scheduler().online_cost();
  std::erase_if(costs_, [&](const auto& cost) {
    if (topology.FindFunction(cost.first)) return false;
    times_.Forget(cost.first);
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

SchedulerSettings RunState::Settings(const v1::SchedulerSettings& wanted) const {
  SchedulerSettings settings = FromProto(wanted);
  settings.lazy = true;
  CompensateBy({.until_stopped = switch_cost_->until_preempted_ns,
                .until_running = switch_cost_->until_running_ns},
               wanted, settings);
  return settings;
}

absl::Status RunState::TakeCores() {
  auto status = MakeSchedulerComponents();
  if (schedulers_.empty()) return status;
  std::vector<SchedulerComponent*> components;
  for (const auto& component : schedulers_) components.push_back(component.get());
  control_->Take(PlanCores(), components);
  deployment_->DropReplaced();
  return status;
}

std::vector<Control::Wanted> RunState::PlanCores() {
  const Topology& topology = deployment_->topology();
  const SchedulerSettings settings = Settings(deployment_->config().scheduler());
  lead_ = settings.latency_compensation;
  std::vector<std::vector<HeldThread*>> threads;
  std::vector<std::size_t> counts;
  for (const auto& function : topology.functions) {
    threads.push_back(threads_->Living(function.config.name()));
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
    for (const LinkIndex link : tasks.links) plan.links.push_back(deployment_->occupancy(link));
    for (const std::size_t function : tasks.functions) {
      plan.functions.push_back(topology.functions[function].config.name());
      plan.costs.push_back(costs_.at(plan.functions.back()));
    }
    for (std::size_t task = 0; task < tasks.thread_of.size(); ++task) {
      const std::size_t function = tasks.functions[tasks.set.tasks[task].function];
      const v1::FunctionConfig& config = topology.functions[function].config;
      plan.tasks.push_back({.thread = threads[function][tasks.thread_of[task]],
                            .yield_every = config.yield_every(),
                            .stays_awake = config.stays_awake(),
                            .kernel = FromProto(config.kernel())});
      wanted.activities.push_back(ActivityOf(*deployment_, function));
    }
  }
  return cores;
}

// Adds what the cores need; none is removed.
absl::Status RunState::MakeSchedulerComponents() {
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

Decision RunState::DecisionFor(v1::Policy policy, v1::ControllerKind controller) const {
  const auto now = decided();
  return {.policy = policy != v1::POLICY_UNSPECIFIED ? policy
                    : now                            ? now->policy
                                                     : v1::POLICY_UNIS,
          .controller = controller != v1::CONTROLLER_UNSPECIFIED ? controller
                        : now                                    ? now->controller
                                                                 : v1::CONTROLLER_PRIORITY};
}

absl::Status RunState::ChangeTo(const Decision& wanted) {
  const HeldFile::Changing changing(options_.held);
  const Hurry hurry;
  auto status = control_->Change(wanted, wanted == wanted_);
  if (status.ok()) wanted_ = wanted;
  return status;
}

absl::Status RunState::ReturnTo(const Decision& before) {
  wanted_ = before;
  RemoveEnded();
  return ChangeTo(before);
}

ScheduleCounts RunState::Counts() const {
  ScheduleCounts counts = control_ ? control_->counts() : ScheduleCounts();
  for (const unsigned cpu : deployment_->topology().cpus) (void)counts.cores[cpu];
  return counts;
}

// A thread that comes and goes between two looks is not seen.
void RunState::LookAtTimes(const ScheduleCounts& counts) {
  const Nanoseconds now = timer_.Now();
  times_at_ = now;
  const Topology& topology = deployment_->topology();
  for (std::size_t i = 0; i < topology.functions.size(); ++i) {
    const std::string& name = topology.functions[i].config.name();
    const unsigned cpu = topology.functions[i].config.cpu();
    const bool by_signals = counts.StopsBySignals(cpu);
    const CoreStatistics& core = counts.cores.at(cpu).statistics;
    std::vector<FunctionTimes::Thread> threads;
    for (const HeldThread* thread : threads_->Living(name)) {
      const bool sleeps = thread->sleeps();
      threads.push_back({.tid = thread->tid(),
                         .start_time = thread->start_time(),
                         .times = thread->Times(),
                         .sleeps_begun = thread->SwitchesByKernel().voluntary,
                         .sleeps = sleeps,
                         // While others run, a thread that sleeps is in a call of its own.
                         .by_signals = by_signals && (!sleeps || core.parked),
                         .parked = core.all_parked,
                         .stopped = thread->stopped()});
    }
    const auto room = counts.waited_for_room.find(name);
    times_.Look(name,
                {.packets = TakenByFunction(*deployment_, i),
                 .cost_ns = costs_.at(name)->Ns(),
                 .waited_for_room_ns = room == counts.waited_for_room.end() ? 0 : room->second},
                threads, now);
  }
}

v1::Stats RunState::Stats(bool latency) {
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
  ScheduleCounts counts = Counts();  // once: each time the schedulers are interrupted
  LookAtTimes(counts);
  stats.set_time_ns(static_cast<std::uint64_t>(times_at_));  // the schedulers may take long
  FillStats({.deployment = *deployment_,
             .threads = *threads_,
             .decision = decided(),
             .counts = std::move(counts),
             .times = times_,
             .costs = costs_,
             .schedulers = schedulers_,
             .timer = timer_},
            latency, stats);
  return stats;
}

Snapshot RunState::TakeSnapshot() const {
  return unis::TakeSnapshot(*deployment_, *threads_, Counts(), timer_);
}

v1::Account RunState::AccountAtRest(bool drained) {
  if (drained && std::exchange(deaths_, false)) deployment_->WriteOff();
  return TakeAccountAtRest(*deployment_, drained);
}

void RunState::BeginTrace(std::vector<CoreTrace>& traces) {
  traced_ = arranged_;
  auto trace = traces.begin();
  for (CoreControl* const core : control_->cores()) {
    const CorePlan& plan = core->plan();
    trace->cpu = plan.cpu;
    for (TaskIndex task = 0; task < plan.tasks.size(); ++task)
      trace->functions.push_back(plan.FunctionOf(task));
    core->BeginTrace((trace++)->trace);
  }
}

absl::Status RunState::EndTrace() {
  for (CoreControl* const core : control_->cores()) core->EndTrace();
  if (traced_ == arranged_) return absl::OkStatus();
  return absl::AbortedError("a function came or went while the trace was taken: take another");
}

}  // namespace unis
