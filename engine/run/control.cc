#include "engine/run/control.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "engine/run/convert.h"

namespace unis {

Control::Control(Parts parts, SchedulerSettings settings)
    : parts_(std::move(parts)), settings_(settings) {
  retired_.cores.resize(parts_.cores);
  retired_.switched_in.resize(parts_.tasks.size());
}

absl::Status Control::Change(const Decision& wanted) {
  auto prepared = Prepare(wanted);
  if (!prepared.ok()) return prepared.status();
  const auto before = std::exchange(decision_, std::nullopt);
  auto status = Commit(*std::move(prepared));
  if (status.ok()) {
    decision_ = wanted;
    return status;
  }
  const auto back = GoBack(before);
  if (back.ok()) return status;
  return absl::Status(status.code(),
                      fmt::format("{}; nor could the policy before be put back, so "
                                  "the kernel decides now (other): {}",
                                  std::string(status.message()), std::string(back.message())));
}

// Everything that can be refused without touching a thread.
absl::StatusOr<Control::Prepared> Control::Prepare(const Decision& wanted) {
  const auto traits = TraitsOf(wanted.policy);
  if (!traits.ok()) return traits.status();
  for (const ScheduledTask& task : parts_.tasks) {
    if (!task.thread->alive())
      return absl::FailedPreconditionError(
          fmt::format("function {} has ended", task.thread->name()));
    if (traits->functions_yield && task.yield_every == 0)
      return absl::InvalidArgumentError(
          fmt::format("function {} does not co-operate: policy cooperative needs yield_every for "
                      "every function",
                      task.thread->name()));
  }
  const auto kind = FromProto(wanted.controller);
  if (!kind.ok()) return kind.status();
  Prepared prepared{.traits = *traits,
                    .yield_every = wanted.yield_every,
                    .forgets = wanted.settings.has_value(),
                    .controller = nullptr,
                    .schedulers = {}};
  if (!traits->engine_decides()) return prepared;
  std::vector<ControlledTask> tasks;
  for (std::size_t i = 0; i < parts_.tasks.size(); ++i)
    tasks.push_back({.thread = parts_.tasks[i].thread, .core = parts_.set.tasks[i].core});
  auto controller = MakeController(*kind, std::move(tasks), parts_.group);
  if (!controller.ok()) return controller.status();
  prepared.controller = *std::move(controller);
  const auto trace_of = [this](CoreIndex core) {
    return parts_.components[ComponentOf(core)]->trace();
  };
  prepared.schedulers.resize(parts_.components.size());
  for (auto& scheduler : MakeSchedulers(*traits, wanted.settings.value_or(settings_), parts_.set,
                                        parts_.cores, *parts_.costs, *parts_.monitor, *parts_.timer,
                                        *prepared.controller, trace_of)) {
    prepared.schedulers[ComponentOf(scheduler->core())].push_back(std::move(scheduler));
  }
  return prepared;
}

// On a service lcore, before which threads that answer calls have to wait: quick, and in one go.
absl::Status Control::Commit(Prepared prepared) {
  absl::Status status;
  RetireSchedulers();
  if (prepared.forgets) KeepCosts();
  parts_.components.front()->Do([&] {
    if (controller_) status.Update(controller_->Release());
    controller_.reset();
    if (status.ok()) status = SetClasses(prepared.traits, prepared.yield_every);
    if (!status.ok() || !prepared.controller) return;
    status = prepared.controller->Acquire();
    controller_ = std::move(prepared.controller);
  });
  for (std::size_t i = 0; status.ok() && i < prepared.schedulers.size(); ++i) {
    parts_.components[i]->Do([&] {
      auto cores = std::make_unique<CoreSet>(std::move(prepared.schedulers[i]), *parts_.timer);
      if (cores->Start()) {
        parts_.components[i]->set_cores(std::move(cores));
      } else {
        status = absl::UnavailableError("the kernel did not let the first function run");
      }
    });
  }
  return status;
}

absl::Status Control::SetClasses(const PolicyTraits& traits, std::uint32_t yield_every) {
  const auto [policy, priority] = KernelPolicyOf(traits.kernel);
  // Those of an engine that decides are a means of its controller's alone.
  const bool fair = !traits.engine_decides() && (policy == SCHED_OTHER || policy == SCHED_BATCH);
  const auto slice = fair ? parts_.fair_slice : std::chrono::nanoseconds();
  absl::Status status;
  for (const ScheduledTask& task : parts_.tasks) {
    if (task.yield_every > 0) {
      const std::uint32_t every = yield_every > 0 ? yield_every : task.yield_every;
      status.Update(task.thread->SetYielding(traits.functions_yield ? every : 0));
    }
    status.Update(task.thread->SetClass(policy, priority, slice));
  }
  return status;
}

// To what was before; where that fails, to the kernel's default for those that are still there.
absl::Status Control::GoBack(const std::optional<Decision>& before) {
  absl::Status status = absl::OkStatus();
  if (before) {
    auto prepared = Prepare(*before);
    status = prepared.ok() ? Commit(*std::move(prepared)) : prepared.status();
    if (status.ok()) {
      decision_ = before;
      return status;
    }
  }
  RetireSchedulers();
  parts_.components.front()->Do([&] {
    controller_.reset();  // releases
    (void)SetClasses(*TraitsOf(v1::POLICY_OTHER), 0);
  });
  if (before) decision_ = Decision{.policy = v1::POLICY_OTHER, .controller = before->controller};
  return status;
}

absl::Status Control::Release() {
  RetireSchedulers();
  absl::Status status;
  if (controller_) status = controller_->Release();
  controller_.reset();
  decision_.reset();
  return status;
}

void Control::RetireSchedulers() {
  for (SchedulerComponent* component : parts_.components) {
    component->Do([&] {
      Add(*component, retired_);
      component->set_cores(nullptr);
    });
  }
  for (CoreStatistics& core : retired_.cores) core.GoOnWith({});
  PutCostsBack();
}

void Control::KeepCosts() {
  for (FunctionIndex function = 0; function < parts_.costs->size(); ++function)
    costs_before_.emplace_back(parts_.costs->Ns(function), parts_.costs->Source(function));
}

void Control::PutCostsBack() {
  for (FunctionIndex function = 0; function < costs_before_.size(); ++function)
    parts_.costs->Set(function, costs_before_[function].first, costs_before_[function].second);
  costs_before_.clear();
}

void Control::Add(const SchedulerComponent& component, Counts& counts) const {
  if (component.cores() == nullptr) return;
  for (std::size_t i = 0; i < component.cores()->size(); ++i) {
    const CoreScheduler& scheduler = (*component.cores())[i];
    counts.cores[scheduler.core()].GoOnWith(scheduler.statistics());
    for (TaskIndex task = 0; task < parts_.set.tasks.size(); ++task)
      counts.switched_in[task] += scheduler.SwitchedIn(task);  // 0: of another core
  }
}

Control::Counts Control::counts() {
  Counts counts = retired_;
  for (SchedulerComponent* component : parts_.components)
    component->Do([&] { Add(*component, counts); });
  return counts;
}

}  // namespace unis
