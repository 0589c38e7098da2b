// SIGSTOP and SIGCONT (section 4.5.4: explored by the paper, too slow for short slices). For
// comparison, and for machines that refuse real-time classes. Stops the whole process.
#pragma once

#include <vector>

#include "engine/controller/task_controller.h"

namespace unis {

class SignalController final : public TaskController {
 public:
  // Fails where two tasks are of one process: they would stop and run together.
  static absl::StatusOr<std::unique_ptr<TaskController>> Create(std::vector<HeldThread*> tasks);
  ~SignalController() override;

  absl::Status Acquire() override;
  absl::Status Release() override;
  bool Start(CoreIndex core, TaskIndex first) noexcept override;
  bool Switch(CoreIndex core, TaskIndex from, TaskIndex to) noexcept override;

 private:
  explicit SignalController(std::vector<HeldThread*> tasks)
      : TaskController(tasks), tasks_(std::move(tasks)) {}

  std::vector<HeldThread*> tasks_;
  bool acquired_ = false;
};

}  // namespace unis
