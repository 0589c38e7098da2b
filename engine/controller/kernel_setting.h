// A number in /proc/sys that is changed for the time of a run and then put back: the real-time
// throttle, which would take 5 % of every second from the NFs, and the SCHED_RR time slice.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <filesystem>
#include <optional>

namespace unis {

inline constexpr const char* kRtRuntime =
    "/proc/sys/kernel/sched_rt_runtime_us";  // −1: no throttle
inline constexpr const char* kRrTimeslice = "/proc/sys/kernel/sched_rr_timeslice_ms";

class KernelSetting {
 public:
  explicit KernelSetting(std::filesystem::path path) : path_(std::move(path)) {}
  ~KernelSetting() { (void)Restore(); }
  KernelSetting(const KernelSetting&) = delete;
  KernelSetting& operator=(const KernelSetting&) = delete;

  absl::StatusOr<long> Read() const;
  absl::Status Change(long value);  // remembers the value of before the first change
  absl::Status Restore();

 private:
  absl::Status Write(long value) const;

  std::filesystem::path path_;
  std::optional<long> before_;
};

}  // namespace unis
