// The paper's mechanism: tasks are in a real-time class, and the one with the highest priority
// runs.
//
// A switch is one system call: the next task is raised one above the current. Nothing has to be
// lowered, for whoever ran before stays below; only at the top of the ladder all are put back to
// its foot, once in kTop − kFoot switches. Priorities stay below 50, where the kernel's interrupt
// threads are, and below 49, where a switch runs through which functions send to each other
// (unis/plan, links of kind ovs).
#pragma once

#include <vector>

#include "engine/controller/taken_classes.h"
#include "engine/controller/task_controller.h"

namespace unis {

class PriorityController final : public TaskController {
 public:
  static constexpr int kWaiting = 1;  // priority of a task that has not run since the last descent
  static constexpr int kFoot = 2;
  static constexpr int kTop = 48;

  explicit PriorityController(std::vector<HeldThread*> tasks);
  ~PriorityController() override;

  absl::Status Acquire() override;
  absl::Status Release() override;
  bool Start(CoreIndex core, TaskIndex first) noexcept override;
  bool Switch(CoreIndex core, TaskIndex from, TaskIndex to) noexcept override;

 private:
  bool SetPriority(TaskIndex task, int priority) noexcept;
  void Descend(TaskIndex current) noexcept;

  std::vector<HeldThread*> tasks_;
  TakenClasses taken_;
  std::vector<int> priority_;  // per task
};

}  // namespace unis
