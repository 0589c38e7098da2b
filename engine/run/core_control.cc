#include "engine/run/core_control.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace unis {

static_assert(static_cast<int>(ControllerKind::kPriority) == v1::CONTROLLER_PRIORITY);
static_assert(static_cast<int>(ControllerKind::kSignal) == v1::CONTROLLER_SIGNAL);
static_assert(static_cast<int>(ControllerKind::kHandover) == v1::CONTROLLER_HANDOVER);

CoreControl::CoreControl(CorePlan plan, std::vector<std::unique_ptr<Activity>> activities,
                         SchedulerComponent& component, const TscTimer& timer)
    : plan_(std::move(plan)),
      costs_(plan_.costs),
      monitor_(plan_.links),
      trace_(std::move(activities)),
      component_(component),
      timer_(timer) {}

absl::StatusOr<CoreControl::Prepared> CoreControl::Prepare(const Decision& wanted) {
  const auto traits = TraitsOf(wanted.policy);
  if (!traits.ok()) return traits.status();
  std::vector<HeldThread*> tasks;
  for (const CorePlan::Task& task : plan_.tasks) {
    if (!task.thread->alive())
      return absl::FailedPreconditionError(
          fmt::format("function {} has ended", task.thread->name()));
    if (traits->functions_yield && task.yield_every == 0)
      return absl::InvalidArgumentError(
          fmt::format("function {} does not co-operate: policy cooperative needs yield_every for "
                      "every function",
                      task.thread->name()));
    tasks.push_back(task.thread);
  }
  Prepared prepared{.decision = wanted, .traits = *traits};
  if (!traits->engine_decides()) return prepared;
  v1::ControllerKind& kind = prepared.controller_kind;
  kind = wanted.controller;
  if (kind == v1::CONTROLLER_HANDOVER && !traits->hands_over()) kind = v1::CONTROLLER_PRIORITY;
  auto controller = MakeController(static_cast<ControllerKind>(kind), tasks);
  if (!controller.ok() && kind == v1::CONTROLLER_HANDOVER) {
    prepared.no_handover = controller.status();
    kind = v1::CONTROLLER_PRIORITY;
    controller = MakeController(ControllerKind::kPriority, std::move(tasks));
  }
  if (!controller.ok()) return controller.status();
  prepared.controller = *std::move(controller);
  for (TaskIndex task = 0; task < plan_.tasks.size(); ++task)
    if (plan_.tasks[task].stays_awake) prepared.controller->NeverPark(task);
  prepared.scheduler = traits->MakeScheduler({.settings = wanted.settings.value_or(plan_.settings),
                                              .tasks = plan_.set,
                                              .core = 0,
                                              .costs = costs_,
                                              .monitor = monitor_,
                                              .timer = timer_,
                                              .controller = *prepared.controller,
                                              .observer = &trace_});
  return prepared;
}

// On a service lcore, before which threads that answer calls have to wait: quick, and in one go.
absl::Status CoreControl::Commit(Prepared prepared) {
  absl::Status status;
  decision_.reset();
  RetireScheduler();
  if (prepared.decision.settings) KeepCosts();
  component_.Do([&] {
    if (controller_) status.Update(controller_->Release());
    controller_.reset();
    if (status.ok()) status = SetClasses(prepared.traits, prepared.decision);
    if (!status.ok() || !prepared.controller) return;
    status = prepared.controller->Acquire();
    controller_ = std::move(prepared.controller);
    if (!status.ok()) return;
    if (!prepared.scheduler->Start()) {
      status = absl::UnavailableError("the kernel did not let the first function run");
      return;
    }
    scheduler_ = prepared.scheduler.get();
    controller_kind_ = prepared.controller_kind;
    component_.cores().Add(std::move(prepared.scheduler));
  });
  component_.Do([&] { component_.Favour(); });
  no_handover_ = std::move(prepared.no_handover);
  if (status.ok()) decision_ = std::move(prepared.decision);
  return status;
}

absl::Status CoreControl::SetClasses(const PolicyTraits& traits, const Decision& decision) {
  // Classes are a means of the controller's alone where the engine decides, and those of functions
  // that yield order them.
  const bool kernel_decides = !traits.engine_decides() && !traits.functions_yield;
  absl::Status status;
  for (const CorePlan::Task& task : plan_.tasks) {
    if (task.yield_every > 0) {
      const std::uint32_t every =
          decision.yield_every > 0 ? decision.yield_every : task.yield_every;
      status.Update(task.thread->SetYielding(traits.functions_yield ? every : 0));
    }
    const KernelWish wish = kernel_decides && !decision.plain ? task.kernel : KernelWish();
    const auto [policy, least] = KernelPolicyOf(wish.kernel.value_or(traits.kernel));
    HeldThread::Fair fair;
    if (kernel_decides && (policy == SCHED_OTHER || policy == SCHED_BATCH))
      fair = {.slice = wish.slice.count() > 0 ? wish.slice : plan_.fair_slice, .nice = wish.nice};
    status.Update(
        task.thread->SetClass(policy, least > 0 ? std::max(least, wish.priority) : 0, fair));
  }
  return status;
}

void CoreControl::LeaveToKernel(std::optional<v1::ControllerKind> controller) {
  decision_.reset();
  if (controller) decision_ = AllFair(*controller);
  RetireScheduler();
  component_.Do([&] {
    controller_.reset();  // releases
    (void)SetClasses(*TraitsOf(v1::POLICY_OTHER), AllFair(v1::CONTROLLER_UNSPECIFIED));
    component_.Favour();
  });
}

absl::Status CoreControl::Release() {
  RetireScheduler();
  component_.Do([&] { component_.Favour(); });
  absl::Status status;
  if (controller_) status = controller_->Release();
  controller_.reset();
  decision_.reset();
  return status;
}

void CoreControl::RetireScheduler() {
  component_.Do([&] {
    component_.Unwatch(trace_);
    if (scheduler_ == nullptr) return;
    Count(retired_);
    component_.cores().Remove(*std::exchange(scheduler_, nullptr));
  });
  retired_.Retire();
  PutCostsBack();
}

void CoreControl::KeepCosts() {
  for (const auto& cost : plan_.costs) costs_before_.emplace_back(cost->Ns(), cost->Source());
}

void CoreControl::PutCostsBack() {
  for (std::size_t i = 0; i < costs_before_.size(); ++i)
    plan_.costs[i]->Set(costs_before_[i].first, costs_before_[i].second);
  costs_before_.clear();
}

void CoreControl::Count(ScheduleCounts& counts) const {
  if (scheduler_ == nullptr) return;
  ScheduleCounts now;
  ScheduleCounts::Core& core = now.cores[plan_.cpu];
  core.controller = controller_kind_;
  core.statistics = scheduler_->statistics();
  if (const auto task = core.statistics.current) core.current = plan_.FunctionOf(*task);
  if (const auto task = core.statistics.cannot_park) core.cannot_park = plan_.FunctionOf(*task);
  if (const auto task = core.statistics.sends_by_timer)
    core.sends_by_timer = plan_.FunctionOf(*task);
  for (TaskIndex task = 0; task < plan_.tasks.size(); ++task) {
    const std::string& function = plan_.FunctionOf(task);
    now.switched_in[function] += scheduler_->SwitchedIn(task);
    now.waited_for_room[function] += static_cast<std::uint64_t>(scheduler_->WaitedForRoom(task));
  }
  counts.GoOnWith(now);
}

void CoreControl::AddTo(ScheduleCounts& counts) {
  counts.GoOnWith(retired_);
  component_.Do([&] { Count(counts); });
}

void CoreControl::BeginTrace(Trace& trace) {
  component_.Do([&] {
    trace_.Begin(trace);
    component_.Watch(trace_);
  });
}

void CoreControl::EndTrace() {
  component_.Do([&] {
    trace_.End();
    component_.Unwatch(trace_);
  });
}

}  // namespace unis
