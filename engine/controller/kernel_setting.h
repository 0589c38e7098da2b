// Numbers of the machine that a run needs otherwise: the real-time throttle, which would take 5 %
// of every second from the functions, the SCHED_RR time slice, and since Linux 6.12 the fair
// server, which lends starved ordinary tasks up to 50 ms a second of each CPU.
//
// Several runs may need them at once, so each change is a lease in a ledger: the first lease writes
// the number, the last one that ends puts back the number of before. The ledger is the folder
// /run/unis/machine, wherever a run keeps its own state: the settings are the machine's. Tests have
// UNIS_MACHINE_DIR instead. Whoever reads or writes in the folder holds flock() on it (LOCK_EX;
// open it O_RDONLY | O_DIRECTORY). Each setting that is changed has a file there, named as
// `KernelSetting::name`, of lines of words:
//
//   path /proc/sys/kernel/sched_rt_runtime_us
//   before 950000
//   value -1
//   holder 4711 1234567
//
// `holder` stands once a lease: process and its start time (field 22 of /proc/PID/stat). A holder
// that has ended does not count; when none is left, `before` belongs into `path`, and the file is
// deleted. It is written (beside, then renamed) before the setting is. Where `path` holds another
// number than `value` by then, somebody has set it since, and it stays.
//
// Nobody waits for the lock longer than 2 s: a lease that cannot be given up stays on record, and
// once its process has ended the next command puts the setting back.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <filesystem>
#include <string>
#include <vector>

namespace unis {

struct KernelSetting {
  std::string name;            // in the ledger; a file name
  std::filesystem::path path;  // holds one number

  absl::StatusOr<long> Read() const;
};

KernelSetting RtRuntime();    // µs of each second; −1: no throttle
KernelSetting RrTimeslice();  // ms

// A setting has a value for as long as this lives.
class Lease {
 public:
  // Refused while another lease holds the setting at another value. On an error nothing is changed.
  static absl::StatusOr<Lease> Take(const KernelSetting& setting, long value);
  ~Lease() { (void)Release(); }
  Lease(Lease&& other) noexcept;
  Lease& operator=(Lease&& other) noexcept;

  // Any number of times: a lease that could not be given up is tried again.
  absl::Status Release();
  // Several at once, under one lock, and once.
  static absl::Status Release(std::vector<Lease> leases);

 private:
  explicit Lease(std::string name) : name_(std::move(name)) {}

  std::string name_;  // empty: released
};

// No fair server on a CPU of functions. An error: this kernel has none there, or does not let us.
// `folder` has a cpuN/runtime each: ns of each second, 0: off.
absl::StatusOr<Lease> SuspendFairServer(
    unsigned cpu, const std::filesystem::path& folder = "/sys/kernel/debug/sched/fair_server");

}  // namespace unis
