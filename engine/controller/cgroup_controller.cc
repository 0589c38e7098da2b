#include "engine/controller/cgroup_controller.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <cerrno>
#include <fstream>
#include <string_view>
#include <utility>

namespace unis {
namespace fs = std::filesystem;

namespace {

constexpr const char* kProcs = "cgroup.procs";

// Names come from files that people write: none may lead out of the hierarchy.
absl::Status RequireFileName(const std::string& name) {
  const fs::path path(name);
  if (!name.empty() && path == path.filename() && name != "." && name != "..")
    return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format("\"{}\" cannot be the name of a cgroup", name));
}

// What a function has started since it was moved into its group.
void MoveRest(const fs::path& group, const fs::path& origin) {
  std::ifstream rest(group / kProcs);
  // 0: of another namespace; who writes it moves itself.
  for (long pid = 0; rest >> pid;)
    if (pid > 0) std::ofstream(origin) << pid << std::flush;
}

absl::Status Remove(const fs::path& group, bool may_be_in_use = false) {
  std::error_code error;
  if (!fs::is_directory(group, error)) return absl::OkStatus();
  fs::remove(group, error);
  if (!error || (may_be_in_use && error == std::errc::device_or_resource_busy))
    return absl::OkStatus();
  return absl::UnavailableError(
      fmt::format("cannot remove cgroup {}: {}", group.string(), error.message()));
}

}  // namespace

absl::StatusOr<std::unique_ptr<TaskController>> CgroupController::Create(
    std::vector<ControlledTask> tasks, const std::string& group) {
  auto status = RequireFileName(group);
  for (const ControlledTask& task : tasks) status.Update(RequireFileName(task.thread->name()));
  status.Update(RequireOneTaskAProcess(tasks, "cgroup"));
  if (!status.ok()) return status;
  auto freezer = FreezerOfMachine();
  if (!freezer.ok()) return freezer.status();
  return std::unique_ptr<TaskController>(
      new CgroupController(std::move(tasks), *std::move(freezer), group));
}

CgroupController::CgroupController(std::vector<ControlledTask> tasks, Freezer freezer,
                                   const std::string& group)
    : TaskController(tasks),
      tasks_(std::move(tasks)),
      freezer_(std::move(freezer)),
      root_(freezer_.mount / group) {}

CgroupController::~CgroupController() { (void)Release(); }

fs::path CgroupController::GroupOf(const ControlledTask& task) const {
  return root_ / task.thread->name();
}

absl::Status CgroupController::MoveIn(const ControlledTask& task) {
  const auto place = CgroupOf(task.thread->pid(), freezer_);
  if (!place.ok()) return place.status();
  const fs::path group = GroupOf(task);
  std::error_code error;
  fs::create_directories(group, error);
  if (error) {
    return absl::InternalError(
        fmt::format("cannot make cgroup {}: {}", group.string(), error.message()));
  }
  const fs::path origin = freezer_.mount / *place / kProcs;
  auto status = task.thread->Move(group / kProcs, origin);
  if (!status.ok()) return status;
  origins_.push_back(origin);
  const char* const file = freezer_.version == 2 ? "cgroup.freeze" : "freezer.state";
  state_.emplace_back(open((group / file).c_str(), O_WRONLY | O_CLOEXEC));
  if (state_.back().valid()) return absl::OkStatus();
  return absl::ErrnoToStatus(errno, fmt::format("cgroup {} has no freezer", group.string()));
}

absl::Status CgroupController::Acquire() {
  if (acquired_) return AcquiredAlready();
  acquired_ = true;
  absl::Status status;
  for (auto task = tasks_.begin(); task != tasks_.end() && status.ok(); ++task)
    status = MoveIn(*task);
  for (TaskIndex task = 0; task < tasks_.size() && status.ok(); ++task) {
    if (!Freeze(task, true))
      status = absl::ErrnoToStatus(
          errno, fmt::format("cannot freeze cgroup {}", GroupOf(tasks_[task]).string()));
  }
  if (!status.ok()) (void)Release();
  return status;
}

absl::Status CgroupController::Release() {
  parker_.UnparkAll();
  if (!acquired_) return absl::OkStatus();
  for (TaskIndex task = 0; task < state_.size(); ++task) (void)Freeze(task, false);
  state_.clear();
  absl::Status first;
  for (TaskIndex task = 0; task < tasks_.size(); ++task) {
    first.Update(tasks_[task].thread->MoveBack());
    if (task < origins_.size()) MoveRest(GroupOf(tasks_[task]), origins_[task]);
    first.Update(Remove(GroupOf(tasks_[task])));
  }
  if (!first.ok()) return first;
  first.Update(Remove(root_, true));  // controllers of other cores may have groups there
  if (!first.ok()) return first;
  origins_.clear();
  acquired_ = false;
  return first;
}

bool CgroupController::Start(CoreIndex core, TaskIndex first) noexcept {
  for (TaskIndex task = 0; task < tasks_.size(); ++task)
    if (task != first && tasks_[task].core == core) (void)Freeze(task, true);
  return tasks_[first].thread->alive() && Freeze(first, false);
}

bool CgroupController::Switch(CoreIndex, TaskIndex from, TaskIndex to) noexcept {
  if (!tasks_[to].thread->alive()) return false;
  (void)Freeze(from, true);
  if (Freeze(to, false)) return true;
  (void)Freeze(from, false);
  return false;
}

bool CgroupController::Freeze(TaskIndex task, bool frozen) noexcept {
  const bool unified = freezer_.version == 2;
  const std::string_view word = frozen ? (unified ? "1" : "FROZEN") : (unified ? "0" : "THAWED");
  return pwrite(state_[task].get(), word.data(), word.size(), 0) ==
         static_cast<ssize_t>(word.size());
}

}  // namespace unis
