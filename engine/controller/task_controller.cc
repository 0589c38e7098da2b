#include "engine/controller/task_controller.h"

#include <fmt/format.h>

#include "engine/controller/handover_controller.h"
#include "engine/controller/priority_controller.h"
#include "engine/controller/signal_controller.h"

namespace unis {

absl::StatusOr<std::unique_ptr<TaskController>> MakeController(ControllerKind kind,
                                                               std::vector<HeldThread*> tasks) {
  switch (kind) {
    case ControllerKind::kPriority:
      return std::make_unique<PriorityController>(std::move(tasks));
    case ControllerKind::kSignal:
      return SignalController::Create(std::move(tasks));
    case ControllerKind::kHandover:
      return HandoverController::Create(std::move(tasks));
  }
  return absl::InvalidArgumentError(
      "unknown process controller; choose handover, priority or signal");
}

absl::Status RequireOneTaskAProcess(const std::vector<HeldThread*>& tasks, const char* controller) {
  for (std::size_t one = 0; one < tasks.size(); ++one) {
    for (std::size_t other = 0; other < one; ++other) {
      if (tasks[one]->pid() != tasks[other]->pid()) continue;
      return absl::FailedPreconditionError(fmt::format(
          "controller {} stops whole processes, and threads {} (function {}) and {} (function {}) "
          "are both of process {}; use controller priority",
          controller, tasks[other]->tid(), tasks[other]->name(), tasks[one]->tid(),
          tasks[one]->name(), tasks[one]->pid()));
    }
  }
  return absl::OkStatus();
}

absl::Status AcquiredAlready() {
  return absl::FailedPreconditionError(
      "this process controller holds its functions already; release them first");
}

}  // namespace unis
