#include "engine/controller/cgroup_controller.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <optional>
#include <sstream>
#include <utility>

namespace unis {
namespace fs = std::filesystem;

namespace {

absl::Status WriteLine(const fs::path& path, const std::string& text) {
  const ControlFile file(path);
  if (file.open() && file.Write(text.c_str())) return absl::OkStatus();
  return absl::ErrnoToStatus(errno, fmt::format("cannot write {} to {}", text, path.string()));
}

// The NF's path in the hierarchy of the freezer, from lines "ID:CONTROLLERS:PATH".
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

}  // namespace

ControlFile::ControlFile(const fs::path& path) : fd_(::open(path.c_str(), O_WRONLY | O_CLOEXEC)) {}
ControlFile::~ControlFile() {
  if (fd_ >= 0) ::close(fd_);
}
ControlFile::ControlFile(ControlFile&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
bool ControlFile::Write(const char* text) const noexcept {
  const auto size = static_cast<ssize_t>(std::strlen(text));
  return pwrite(fd_, text, static_cast<std::size_t>(size), 0) == size;
}

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

absl::StatusOr<std::unique_ptr<NfController>> CgroupController::Create(std::vector<NfThread> nfs,
                                                                       const std::string& run) {
  auto freezer = FindFreezer();
  if (!freezer.ok()) return freezer.status();
  return std::unique_ptr<NfController>(new CgroupController(std::move(nfs), *freezer, run));
}

CgroupController::CgroupController(std::vector<NfThread> nfs, Freezer freezer,
                                   const std::string& run)
    : nfs_(std::move(nfs)), freezer_(std::move(freezer)), root_(freezer_.mount / run) {}

CgroupController::~CgroupController() { (void)Release(); }

absl::Status CgroupController::MoveIn(const NfThread& nf) {
  const fs::path group = root_ / nf.name;
  std::error_code error;
  fs::create_directories(group, error);
  if (error) {
    return absl::InternalError(
        fmt::format("cannot make cgroup {}: {}", group.string(), error.message()));
  }
  const fs::path origin = CgroupOf(nf.pid, freezer_.version);
  auto status = WriteLine(group / "cgroup.procs", std::to_string(nf.pid));
  if (!status.ok()) return status;
  origin_.push_back(freezer_.mount / origin);
  state_.emplace_back(group / (freezer_.version == 2 ? "cgroup.freeze" : "freezer.state"));
  if (state_.back().open()) return absl::OkStatus();
  return absl::ErrnoToStatus(errno, fmt::format("cgroup {} has no freezer", group.string()));
}

absl::Status CgroupController::Acquire() {
  for (const NfThread& nf : nfs_) {
    if (auto status = MoveIn(nf); !status.ok()) return status;
  }
  for (NfIndex nf = 0; nf < nfs_.size(); ++nf) Freeze(nf, true);
  return absl::OkStatus();
}

absl::Status CgroupController::Release() {
  absl::Status first;
  std::error_code error;
  for (NfIndex nf = 0; nf < state_.size(); ++nf) Freeze(nf, false);
  for (NfIndex nf = 0; nf < origin_.size(); ++nf) {
    // A process that is gone cannot be moved, and need not be.
    if (fs::exists(fmt::format("/proc/{}", nfs_[nf].pid), error)) {
      first.Update(WriteLine(origin_[nf] / "cgroup.procs", std::to_string(nfs_[nf].pid)));
    }
  }
  // Also those that Acquire() made and could not use.
  for (const NfThread& nf : nfs_) fs::remove(root_ / nf.name, error);
  fs::remove(root_, error);
  state_.clear();
  origin_.clear();
  return first;
}

void CgroupController::Start(CoreIndex, NfIndex first) noexcept { Freeze(first, false); }

void CgroupController::Switch(CoreIndex, NfIndex from, NfIndex to) noexcept {
  Freeze(from, true);
  Freeze(to, false);
}

void CgroupController::Freeze(NfIndex nf, bool frozen) noexcept {
  if (freezer_.version == 2) {
    (void)state_[nf].Write(frozen ? "1" : "0");
  } else {
    (void)state_[nf].Write(frozen ? "FROZEN" : "THAWED");
  }
}

}  // namespace unis
