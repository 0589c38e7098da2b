#include "engine/run/polling_thread.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>

#include "engine/base/proc.h"
#include "engine/run/services.h"

namespace unis {
namespace {

constexpr std::chrono::milliseconds kWindow{50};
constexpr std::uint64_t kLeastNs = 2'000'000;  // of a window: others may share the CPU
constexpr std::uint64_t kTimesMore = 4;        // than any other thread

using CpuTimes = std::map<pid_t, std::uint64_t>;  // ns, by thread

CpuTimes TimesOf(pid_t pid) {
  CpuTimes times;
  std::error_code error;
  for (std::filesystem::directory_iterator it(fmt::format("/proc/{}/task", pid), error), end;
       !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename();
    pid_t tid = 0;
    std::from_chars(name.data(), name.data() + name.size(), tid);
    if (const UniqueFd task = OpenTask(pid, tid); task.valid()) times[tid] = CpuTimeNs(task);
  }
  return times;
}

// 0: none stands out.
pid_t Busiest(const CpuTimes& before, const CpuTimes& after) {
  std::uint64_t first = 0, second = 0;
  pid_t busiest = 0;
  for (const auto& [tid, time] : after) {
    const auto at = before.find(tid);
    const std::uint64_t spent = at == before.end() ? 0 : time - std::min(time, at->second);
    if (spent > first) {
      second = first;
      first = spent;
      busiest = tid;
    } else {
      second = std::max(second, spent);
    }
  }
  return first >= kLeastNs && first >= kTimesMore * second ? busiest : 0;
}

}  // namespace

absl::StatusOr<pid_t> FindPollingThread(const std::string& function, pid_t pid,
                                        std::chrono::nanoseconds timeout, Interrupt& interrupt) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  CpuTimes before = TimesOf(pid);
  pid_t last = 0;
  for (;;) {
    if (!interrupt.SleepFor(kWindow)) return Ending();
    if (!ProcessRuns(pid))
      return absl::FailedPreconditionError(
          fmt::format("function {} ended before it polled", function));
    CpuTimes after = TimesOf(pid);
    const pid_t busiest = Busiest(before, after);
    if (busiest != 0 && busiest == last) return busiest;
    last = busiest;
    before = std::move(after);
    if (std::chrono::steady_clock::now() > deadline)
      return absl::DeadlineExceededError(
          fmt::format("no thread of function {} polls, or more than one does", function));
  }
}

}  // namespace unis
