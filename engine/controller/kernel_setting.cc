#include "engine/controller/kernel_setting.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <thread>
#include <utility>

#include "engine/base/proc.h"
#include "engine/base/unique_fd.h"

namespace unis {
namespace fs = std::filesystem;

namespace {

constexpr const char* kNew = ".new";                    // a file that is being written
constexpr auto kLockTimeout = std::chrono::seconds(2);  // what others do under it takes ms

absl::Status WriteNumber(const fs::path& path, long value) {
  const std::string text = std::to_string(value);
  const UniqueFd file(open(path.c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC));  // none is made
  if (file.valid() &&
      write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()))
    return absl::OkStatus();
  return absl::PermissionDeniedError(
      fmt::format("the kernel refuses {} for {}; run as root", value, path.string()));
}

absl::StatusOr<long> ReadNumber(const fs::path& path) {
  std::ifstream file(path);
  long value = 0;
  if (file >> value) return value;
  return absl::NotFoundError(fmt::format("cannot read a number from {}", path.string()));
}

struct Holder {
  pid_t pid = 0;
  std::uint64_t start_time = 0;

  bool operator==(const Holder&) const = default;
};

Holder Self() {
  const auto stat = StatOfProcess(getpid());
  return {.pid = getpid(), .start_time = stat ? stat->start_time : 0};
}

// A setting that is changed, as its file tells.
struct Entry {
  fs::path path;
  long before = 0;
  long value = 0;
  std::vector<Holder> holders;  // that have not ended

  // What somebody else has set meanwhile stays.
  absl::Status PutBack() const {
    if (before == value) return absl::OkStatus();
    const auto now = ReadNumber(path);
    if (!now.ok() || *now == value) return WriteNumber(path, before);
    if (*now != before)
      spdlog::info(
          "{} was set to {} while a run held it at {}: so it stays, and is not put back to {}",
          path.string(), *now, value, before);
    return absl::OkStatus();
  }
};

// True: locked. False: another one holds on to it, or errno tells why not.
bool LockInTime(int folder) {
  const auto end = std::chrono::steady_clock::now() + kLockTimeout;
  while (flock(folder, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK || std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

// The folder of changed settings, locked.
class Ledger {
 public:
  static fs::path Folder() {
    const char* const folder = std::getenv("UNIS_MACHINE_DIR");
    return folder != nullptr && *folder != '\0' ? folder : "/run/unis/machine";
  }

  static absl::StatusOr<Ledger> Open() {
    std::error_code error;
    fs::create_directories(Folder(), error);
    fs::permissions(Folder(), fs::perms::owner_all, error);  // or anybody may hold its lock
    UniqueFd lock(open(Folder().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (lock.valid() && LockInTime(lock.get())) return Ledger(std::move(lock));
    if (lock.valid() && errno == EWOULDBLOCK) {
      return absl::UnavailableError(
          fmt::format("another process has held {} for {} s: see which with `fuser {}`",
                      Folder().string(), kLockTimeout.count(), Folder().string()));
    }
    return absl::ErrnoToStatus(errno, fmt::format("cannot lock {}", Folder().string()));
  }

  std::optional<Entry> Read(const std::string& name) const {
    std::ifstream file(Folder() / name);
    Entry entry;
    for (std::string key; file >> key;) {
      Holder holder;
      if (key == "path") file >> entry.path;
      if (key == "before") file >> entry.before;
      if (key == "value") file >> entry.value;
      if (key == "holder" && file >> holder.pid >> holder.start_time &&
          ProcessRuns(holder.pid, holder.start_time))
        entry.holders.push_back(holder);
    }
    if (entry.path.empty()) return std::nullopt;
    return entry;
  }

  absl::Status Write(const std::string& name, const Entry& entry) const {
    const fs::path beside = Folder() / (name + kNew);
    std::ofstream file(beside);
    file << "path " << entry.path.string() << "\nbefore " << entry.before << "\nvalue "
         << entry.value << '\n';
    for (const Holder& holder : entry.holders)
      file << "holder " << holder.pid << ' ' << holder.start_time << '\n';
    file.close();
    std::error_code error;
    if (file) fs::rename(beside, Folder() / name, error);
    if (file && !error) return absl::OkStatus();
    return absl::UnavailableError(
        fmt::format("cannot write {}; is there room on its file system?", beside.string()));
  }

  // Without holders: back to what was before. What the kernel refuses stays on record.
  absl::Status Settle(const std::string& name, const Entry& entry) const {
    auto status = Write(name, entry);
    if (!entry.holders.empty()) return status;
    if (auto put_back = entry.PutBack(); !put_back.ok()) return put_back;
    std::error_code error;
    fs::remove(Folder() / name, error);
    return absl::OkStatus();
  }

  // One lease of this process ends.
  absl::Status GiveUp(const std::string& name) const {
    auto entry = Read(name);
    if (!entry) return absl::OkStatus();
    const auto own = std::find(entry->holders.begin(), entry->holders.end(), Self());
    if (own == entry->holders.end()) return absl::OkStatus();
    entry->holders.erase(own);
    return Settle(name, *entry);
  }

 private:
  explicit Ledger(UniqueFd lock) : lock_(std::move(lock)) {}

  UniqueFd lock_;
};

}  // namespace

absl::StatusOr<long> KernelSetting::Read() const { return ReadNumber(path); }

KernelSetting RtRuntime() {
  return {.name = "sched_rt_runtime_us", .path = "/proc/sys/kernel/sched_rt_runtime_us"};
}

KernelSetting RrTimeslice() {
  return {.name = "sched_rr_timeslice_ms", .path = "/proc/sys/kernel/sched_rr_timeslice_ms"};
}

absl::StatusOr<Lease> Lease::Take(const KernelSetting& setting, long value) {
  const auto ledger = Ledger::Open();
  if (!ledger.ok()) return ledger.status();
  auto entry = ledger->Read(setting.name);
  // What a run left that was killed is put back first.
  if (entry && entry->holders.empty()) {
    if (auto status = ledger->Settle(setting.name, *entry); !status.ok()) return status;
    entry.reset();
  }
  const auto now = setting.Read();  // under the lock: another run may be putting it back
  if (!now.ok()) return now.status();
  if (!entry) entry = Entry{.path = setting.path, .before = *now, .value = value, .holders = {}};
  if (entry->value != value) {
    return absl::FailedPreconditionError(fmt::format(
        "another run (process {}) needs {} for {}, this one {}; end that one first, or ask for the "
        "same",
        entry->holders.front().pid, entry->value, setting.path.string(), value));
  }
  // Set by somebody else while another run held it: that is what is wanted when both have ended.
  if (!entry->holders.empty() && *now != value) entry->before = *now;
  entry->holders.push_back(Self());
  auto status = ledger->Write(setting.name, *entry);
  if (!status.ok()) return status;
  Lease lease(setting.name);
  if (*now != value) status = WriteNumber(setting.path, value);
  if (status.ok()) return lease;
  lease.name_.clear();
  entry->holders.pop_back();
  (void)ledger->Settle(setting.name, *entry);
  return status;
}

Lease::Lease(Lease&& other) noexcept : name_(std::exchange(other.name_, {})) {}

Lease& Lease::operator=(Lease&& other) noexcept {
  std::swap(name_, other.name_);
  return *this;
}

absl::Status Lease::Release() {
  if (name_.empty()) return absl::OkStatus();
  const auto ledger = Ledger::Open();
  return ledger.ok() ? ledger->GiveUp(std::exchange(name_, {})) : ledger.status();
}

absl::Status Lease::Release(std::vector<Lease> leases) {
  std::vector<std::string> names;
  for (Lease& lease : leases)
    if (!lease.name_.empty()) names.push_back(std::exchange(lease.name_, {}));
  if (names.empty()) return absl::OkStatus();
  const auto ledger = Ledger::Open();
  if (!ledger.ok()) {
    return absl::Status(
        ledger.status().code(),
        fmt::format("{}; {} stays as it is till a `unis` command puts it back",
                    std::string(ledger.status().message()), fmt::join(names, ", ")));
  }
  absl::Status first;
  for (const std::string& name : names) first.Update(ledger->GiveUp(name));
  return first;
}

absl::StatusOr<Lease> SuspendFairServer(unsigned cpu, const fs::path& folder) {
  return Lease::Take({.name = fmt::format("fair_server_cpu{}", cpu),
                      .path = folder / fmt::format("cpu{}", cpu) / "runtime"},
                     0);
}

}  // namespace unis
