#include "engine/controller/cgroup_controller.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <cerrno>
#include <fstream>
#include <optional>
#include <sstream>
#include <string_view>
#include <utility>

namespace unis {
namespace fs = std::filesystem;

namespace {

// The process' path in the hierarchy of the freezer, from lines "ID:CONTROLLERS:PATH".
fs::path CgroupOf(pid_t pid, int version) {
  std::ifstream file(fmt::format("/proc/{}/cgroup", pid));
  for (std::string line; std::getline(file, line);) {
    const auto first = line.find(':');
    const auto second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool ours = version == 2 ? controllers.empty() : controllers == "freezer";
    if (ours) return fs::path(line.substr(second + 1)).relative_path();
  }
  return {};
}

// Names come from files that people write: none may lead out of the hierarchy.
absl::Status RequireFileName(const std::string& name) {
  const fs::path path(name);
  if (!name.empty() && path == path.filename() && name != "." && name != "..")
    return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format("\"{}\" cannot be the name of a cgroup", name));
}

}  // namespace

absl::StatusOr<CgroupController::Freezer> CgroupController::FindFreezer() {
  std::ifstream mounts("/proc/mounts");
  std::optional<Freezer> unified;
  for (std::string line; std::getline(mounts, line);) {
    std::istringstream words(line);
    std::string device, mount, type, options;
    words >> device >> mount >> type >> options;
    if (type == "cgroup" && (options + ",").find(",freezer,") != std::string::npos) {
      return Freezer{mount, 1};
    }
    if (type == "cgroup2") unified = Freezer{mount, 2};
  }
  if (unified) return *unified;
  return absl::FailedPreconditionError(
      "controller cgroup needs a cgroup freezer, and none is mounted; use controller priority or "
      "signal");
}

absl::StatusOr<std::unique_ptr<TaskController>> CgroupController::Create(
    std::vector<ControlledTask> tasks, const std::string& run) {
  auto status = RequireFileName(run);
  for (const ControlledTask& task : tasks) status.Update(RequireFileName(task.thread->name()));
  status.Update(RequireOneTaskAProcess(tasks, "cgroup"));
  if (!status.ok()) return status;
  auto freezer = FindFreezer();
  if (!freezer.ok()) return freezer.status();
  return std::unique_ptr<TaskController>(
      new CgroupController(std::move(tasks), *std::move(freezer), run));
}

CgroupController::CgroupController(std::vector<ControlledTask> tasks, Freezer freezer,
                                   const std::string& run)
    : tasks_(std::move(tasks)), freezer_(std::move(freezer)), root_(freezer_.mount / run) {}

CgroupController::~CgroupController() { (void)Release(); }

fs::path CgroupController::GroupOf(const ControlledTask& task) const {
  return root_ / task.thread->name();
}

absl::Status CgroupController::MoveIn(const ControlledTask& task) {
  const fs::path group = GroupOf(task);
  std::error_code error;
  fs::create_directories(group, error);
  if (error) {
    return absl::InternalError(
        fmt::format("cannot make cgroup {}: {}", group.string(), error.message()));
  }
  const fs::path origin = freezer_.mount / CgroupOf(task.thread->pid(), freezer_.version);
  auto status = task.thread->Move(group / "cgroup.procs", origin / "cgroup.procs");
  if (!status.ok()) return status;
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
  if (!std::exchange(acquired_, false)) return absl::OkStatus();
  for (TaskIndex task = 0; task < state_.size(); ++task) (void)Freeze(task, false);
  state_.clear();
  absl::Status first;
  std::error_code error;
  for (const ControlledTask& task : tasks_) {
    first.Update(task.thread->MoveBack());
    fs::remove(GroupOf(task), error);
  }
  fs::remove(root_, error);
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
