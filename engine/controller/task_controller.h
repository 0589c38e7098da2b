// Process Controller (sections 4.3.4 and 4.5.4): the mechanisms that let one task of a core run and
// the others wait. The scheduler sees only ProcessController; the engine also takes control of the
// tasks and gives it back.
//
// To add a mechanism: "To add a controller" in docs/architecture.md.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/controller/held_thread.h"
#include "engine/controller/parker.h"
#include "engine/scheduler/components.h"

namespace unis {

// Numbered as v1::ControllerKind is (asserted in engine/run/core_control.cc).
enum class ControllerKind : std::uint8_t { kPriority = 1, kSignal = 2, kHandover = 4 };

// Of the tasks of one core. The destructor releases.
class TaskController : public ProcessController {
 public:
  explicit TaskController(const std::vector<HeldThread*>& tasks) : parker_(tasks) {}
  // All tasks wait, until Start() lets the first run. An error: none is held. A
  // second time without Release() is an error and changes nothing.
  virtual absl::Status Acquire() = 0;
  // No task is held back any longer; scheduling classes are those of before Acquire().
  // Any number of times; what an error names is tried again.
  virtual absl::Status Release() = 0;

  // Before Acquire(): from now on it cannot be parked.
  void NeverPark(TaskIndex task) noexcept { parker_.Never(task); }
  bool CanPark(TaskIndex task) noexcept override { return parker_.CanPark(task); }
  void Park(TaskIndex task) noexcept override { parker_.Park(task); }
  void Unpark(TaskIndex task) noexcept override { parker_.Unpark(task); }

 protected:
  Parker parker_;  // all unparked by Release()
};

// `tasks` in the order of the TaskSet, so that a TaskIndex is a position in it; they outlive the
// controller. An error: there is
// no such mechanism, or it stops whole processes and two tasks are threads of the same process.
absl::StatusOr<std::unique_ptr<TaskController>> MakeController(ControllerKind kind,
                                                               std::vector<HeldThread*> tasks);

// For those who implement one.
absl::Status RequireOneTaskAProcess(const std::vector<HeldThread*>& tasks, const char* controller);
absl::Status AcquiredAlready();

}  // namespace unis
