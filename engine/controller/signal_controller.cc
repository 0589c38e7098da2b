#include "engine/controller/signal_controller.h"

#include <fmt/format.h>
#include <signal.h>

#include <utility>

namespace unis {

absl::StatusOr<std::unique_ptr<TaskController>> SignalController::Create(
    std::vector<HeldThread*> tasks) {
  if (auto status = RequireOneTaskAProcess(tasks, "signal"); !status.ok()) return status;
  return std::unique_ptr<TaskController>(new SignalController(std::move(tasks)));
}

SignalController::~SignalController() { (void)Release(); }

absl::Status SignalController::Acquire() {
  if (acquired_) return AcquiredAlready();
  acquired_ = true;
  for (HeldThread* task : tasks_) {
    if (task->alive() && task->Signal(SIGSTOP)) continue;
    (void)Release();
    return absl::NotFoundError(fmt::format("cannot stop function {} (process {}): it has ended",
                                           task->name(), task->pid()));
  }
  return absl::OkStatus();
}

absl::Status SignalController::Release() {
  parker_.UnparkAll();
  if (!std::exchange(acquired_, false)) return absl::OkStatus();
  for (HeldThread* task : tasks_) (void)task->Signal(SIGCONT);
  return absl::OkStatus();
}

bool SignalController::Start(CoreIndex, TaskIndex first) noexcept {
  for (TaskIndex task = 0; task < tasks_.size(); ++task)
    if (task != first) (void)tasks_[task]->Signal(SIGSTOP);
  return tasks_[first]->alive() && tasks_[first]->Signal(SIGCONT);
}

bool SignalController::Switch(CoreIndex, TaskIndex from, TaskIndex to) noexcept {
  // A zombie takes signals, and would leave the CPU idle.
  if (!tasks_[to]->alive()) return false;
  (void)tasks_[from]->Signal(SIGSTOP);
  if (tasks_[to]->Signal(SIGCONT)) return true;
  (void)tasks_[from]->Signal(SIGCONT);
  return false;
}

}  // namespace unis
