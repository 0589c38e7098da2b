// The cgroup freezer, version 1 or 2, whichever is mounted: a cgroup for each task, frozen while it
// waits (section 4.5.4 tried cgroup shares; the freezer stops and starts exactly). For comparison,
// and for containers.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "engine/base/unique_fd.h"
#include "engine/controller/task_controller.h"

namespace unis {

class CgroupController final : public TaskController {
 public:
  // Fails where no freezer is mounted, and where two tasks are of one process. `run` and the names
  // of the functions become names of cgroups.
  static absl::StatusOr<std::unique_ptr<TaskController>> Create(std::vector<ControlledTask> tasks,
                                                                const std::string& run);
  ~CgroupController() override;

  absl::Status Acquire() override;
  absl::Status Release() override;
  bool Start(CoreIndex core, TaskIndex first) noexcept override;
  bool Switch(CoreIndex core, TaskIndex from, TaskIndex to) noexcept override;

 private:
  struct Freezer {
    std::filesystem::path mount;
    int version;  // of cgroups
  };
  static absl::StatusOr<Freezer> FindFreezer();
  CgroupController(std::vector<ControlledTask> tasks, Freezer freezer, const std::string& run);

  std::filesystem::path GroupOf(const ControlledTask& task) const;
  absl::Status MoveIn(const ControlledTask& task);
  bool Freeze(TaskIndex task, bool frozen) noexcept;

  std::vector<ControlledTask> tasks_;
  Freezer freezer_;
  std::filesystem::path root_;   // of this run's cgroups
  std::vector<UniqueFd> state_;  // per task that was acquired
  bool acquired_ = false;
};

}  // namespace unis
