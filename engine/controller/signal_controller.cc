#include "engine/controller/signal_controller.h"

#include <fmt/format.h>
#include <signal.h>

#include <utility>

namespace unis {

absl::StatusOr<std::unique_ptr<TaskController>> SignalController::Create(
    std::vector<ControlledTask> tasks) {
  if (auto status = RequireOneTaskAProcess(tasks, "signal"); !status.ok()) return status;
  return std::unique_ptr<TaskController>(new SignalController(std::move(tasks)));
}

SignalController::~SignalController() { (void)Release(); }

absl::Status SignalController::Acquire() {
  if (acquired_) return AcquiredAlready();
  acquired_ = true;
  for (const ControlledTask& task : tasks_) {
    if (task.thread->alive() && task.thread->Signal(SIGSTOP)) continue;
    (void)Release();
    return absl::NotFoundError(fmt::format("cannot stop function {} (process {}): it has ended",
                                           task.thread->name(), task.thread->pid()));
  }
  return absl::OkStatus();
}

absl::Status SignalController::Release() {
  parker_.UnparkAll();
  if (!std::exchange(acquired_, false)) return absl::OkStatus();
  for (const ControlledTask& task : tasks_) (void)task.thread->Signal(SIGCONT);
  return absl::OkStatus();
}

bool SignalController::Start(CoreIndex core, TaskIndex first) noexcept {
  for (TaskIndex task = 0; task < tasks_.size(); ++task)
    if (task != first && tasks_[task].core == core) (void)tasks_[task].thread->Signal(SIGSTOP);
  return tasks_[first].thread->alive() && tasks_[first].thread->Signal(SIGCONT);
}

bool SignalController::Switch(CoreIndex, TaskIndex from, TaskIndex to) noexcept {
  // A zombie takes signals, and would leave the CPU idle.
  if (!tasks_[to].thread->alive()) return false;
  (void)tasks_[from].thread->Signal(SIGSTOP);
  if (tasks_[to].thread->Signal(SIGCONT)) return true;
  (void)tasks_[from].thread->Signal(SIGCONT);
  return false;
}

}  // namespace unis
