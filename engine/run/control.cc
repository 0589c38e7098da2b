#include "engine/run/control.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "engine/run/services.h"

namespace unis {

void Control::LetGo(const std::set<unsigned>& cpus) {
  for (const unsigned cpu : cpus) Retire(cpu);
}

void Control::Retire(unsigned cpu) {
  const auto found = cores_.find(cpu);
  if (found == cores_.end()) return;
  Warn(found->second->Release());
  found->second->AddTo(retired_);
  cores_.erase(found);
}

void Control::Take(std::vector<Wanted> wanted, const std::vector<SchedulerComponent*>& components) {
  const auto stays = [&](const CoreControl& core) {
    return std::ranges::any_of(wanted,
                               [&](const Wanted& each) { return each.plan == core.plan(); });
  };
  for (auto core = cores_.begin(); core != cores_.end();) {
    const auto& [cpu, control] = *core++;
    if (!stays(*control)) Retire(cpu);
  }
  for (Wanted& each : wanted) {
    const unsigned cpu = each.plan.cpu;
    if (cores_.contains(cpu)) continue;
    cores_[cpu] = std::make_unique<CoreControl>(std::move(each.plan), std::move(each.activities),
                                                LeastUsed(components), timer_);
  }
}

SchedulerComponent& Control::LeastUsed(const std::vector<SchedulerComponent*>& components) const {
  return **std::ranges::min_element(components, {}, [this](const SchedulerComponent* component) {
    return std::ranges::count_if(
        cores_, [&](const auto& core) { return &core.second->component() == component; });
  });
}

// For cores that have another decision. Under hand-over, cores on which no function passes the CPU
// on are switched by priority, as long as there are others.
absl::StatusOr<Control::Prepared> Control::Prepare(const Decision& wanted, bool again) {
  Prepared prepared;
  std::vector<HeldThread*> stopped;  // by signals, which stop a process on all its cores
  absl::Status nowhere;
  bool anywhere = cores_.empty();
  const auto judge = [&](const absl::Status& no_handover) {
    nowhere.Update(no_handover);
    anywhere = anywhere || no_handover.ok();
  };
  for (const auto& [cpu, core] : cores_) {
    for (const CorePlan::Task& task : core->plan().tasks) stopped.push_back(task.thread);
    if (core->decision() == wanted) {
      judge(core->no_handover());
      continue;
    }
    auto one = core->Prepare(wanted);
    if (!one.ok()) return one.status();
    judge(one->no_handover);
    prepared.emplace_back(core.get(), *std::move(one));
  }
  if (wanted.controller == v1::CONTROLLER_SIGNAL && !prepared.empty() &&
      prepared.front().second.controller != nullptr)
    if (auto status = RequireOneTaskAProcess(stopped, "signal"); !status.ok()) return status;
  if (anywhere) return prepared;
  if (!again) return nowhere;
  spdlog::warn("{}: all are switched by priority", std::string(nowhere.message()));
  return prepared;
}

absl::Status Control::Change(const Decision& wanted, bool again) {
  auto prepared = Prepare(wanted, again);
  if (!prepared.ok()) return prepared.status();
  Before before;
  absl::Status status;
  for (auto& [core, to] : *prepared) {
    before.emplace_back(core, core->decision());
    status = core->Commit(std::move(to));
    if (!status.ok()) break;
  }
  if (status.ok()) {
    decision_ = wanted;
    return status;
  }
  const auto back = GoBack(before);
  if (back.ok()) return status;
  LeaveToKernel(wanted.controller);
  return absl::Status(status.code(),
                      fmt::format("{}; nor could the policy before be put back, so "
                                  "the kernel decides now (other): {}",
                                  std::string(status.message()), std::string(back.message())));
}

absl::Status Control::GoBack(const Before& before) {
  absl::Status status;
  for (const auto& [core, was] : before) {
    if (!was) {
      core->LeaveToKernel(std::nullopt);
      continue;
    }
    auto prepared = core->Prepare(*was);
    status.Update(prepared.ok() ? core->Commit(*std::move(prepared)) : prepared.status());
  }
  return status;
}

absl::Status Control::Repeat() {
  if (!decision_) return absl::OkStatus();
  const Decision again = *decision_;
  for (const auto& [cpu, core] : cores_) (void)core->Release();
  const auto changed = Change(again, true);
  if (!changed.ok()) LeaveToKernel(again.controller);
  return changed;
}

void Control::LeaveToKernel(v1::ControllerKind controller) {
  for (const auto& [cpu, core] : cores_) core->LeaveToKernel(controller);
  decision_ = AllFair(controller);
}

absl::Status Control::Release() {
  absl::Status status;
  for (const auto& [cpu, core] : cores_) status.Update(core->Release());
  decision_.reset();
  return status;
}

ScheduleCounts Control::counts() const {
  ScheduleCounts counts = retired_;
  for (const auto& [cpu, core] : cores_) core->AddTo(counts);
  return counts;
}

std::vector<CoreControl*> Control::cores() const {
  std::vector<CoreControl*> cores;
  for (const auto& [cpu, core] : cores_) cores.push_back(core.get());
  return cores;
}

}  // namespace unis
