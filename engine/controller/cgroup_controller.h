// The cgroup freezer, version 1 or 2, whichever is mounted: a cgroup for each task, frozen while it
// waits (section 4.5.4 tried cgroup shares; the freezer stops and starts exactly). For comparison,
// and for containers.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "engine/base/unique_fd.h"
#include "engine/controller/freezer.h"
#include "engine/controller/task_controller.h"

namespace unis {

class CgroupController final : public TaskController {
 public:
  // Fails where no freezer is mounted, and where two tasks are of one process. The cgroup `group`
  // is made right below the freezer's mount, and in it one for each function, of its name.
  static absl::StatusOr<std::unique_ptr<TaskController>> Create(std::vector<ControlledTask> tasks,
                                                                const std::string& group);
  ~CgroupController() override;

  absl::Status Acquire() override;
  absl::Status Release() override;
  bool Start(CoreIndex core, TaskIndex first) noexcept override;
  bool Switch(CoreIndex core, TaskIndex from, TaskIndex to) noexcept override;

 private:
  CgroupController(std::vector<ControlledTask> tasks, Freezer freezer, const std::string& group);

  std::filesystem::path GroupOf(const ControlledTask& task) const;
  absl::Status MoveIn(const ControlledTask& task);
  bool Freeze(TaskIndex task, bool frozen) noexcept;

  std::vector<ControlledTask> tasks_;
  Freezer freezer_;
  std::filesystem::path root_;                  // of this run's cgroups
  std::vector<UniqueFd> state_;                 // per task that was acquired
  std::vector<std::filesystem::path> origins_;  // file cgroup.procs, per task that was moved
  bool acquired_ = false;
};

}  // namespace unis
