#include "engine/controller/priority_controller.h"

#include <utility>

namespace unis {

PriorityController::PriorityController(std::vector<HeldThread*> tasks)
    : TaskController(tasks),
      tasks_(std::move(tasks)),
      taken_(tasks_),
      priority_(tasks_.size(), kWaiting) {}

PriorityController::~PriorityController() { (void)Release(); }

absl::Status PriorityController::Acquire() {
  if (taken_.any()) return AcquiredAlready();
  priority_.assign(tasks_.size(), kWaiting);
  auto status = taken_.Take(SCHED_RR, kWaiting);
  if (!status.ok()) status.Update(Release());
  return status;
}

absl::Status PriorityController::Release() {
  parker_.UnparkAll();
  return taken_.Restore();
}

bool PriorityController::Start(CoreIndex, TaskIndex first) noexcept {
  Descend(first);
  return SetPriority(first, kFoot);
}

bool PriorityController::Switch(CoreIndex, TaskIndex from, TaskIndex to) noexcept {
  if (priority_[from] >= kTop) Descend(from);
  return SetPriority(to, priority_[from] + 1);
}

// The current task goes last: until then it stays above all others.
void PriorityController::Descend(TaskIndex current) noexcept {
  for (TaskIndex task = 0; task < tasks_.size(); ++task) {
    if (task != current && priority_[task] != kWaiting) (void)SetPriority(task, kWaiting);
  }
  (void)SetPriority(current, kFoot);
  priority_[current] = kFoot;  // also of one that is dead, and that the next goes above
}

bool PriorityController::SetPriority(TaskIndex task, int priority) noexcept {
  if (!tasks_[task]->SetPriority(priority)) return false;
  priority_[task] = priority;
  return true;
}

}  // namespace unis
