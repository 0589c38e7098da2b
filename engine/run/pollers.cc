#include "engine/run/pollers.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "engine/base/proc.h"
#include "engine/run/services.h"

namespace unis {

void PollerCensus::Look(const std::vector<pid_t>& known) {
  std::map<pid_t, Seen> now;
  std::error_code error;
  for (std::filesystem::directory_iterator it(fmt::format("/proc/{}/task", pid_), error), end;
       !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename();
    pid_t tid = 0;
    std::from_chars(name.data(), name.data() + name.size(), tid);
    if (std::ranges::find(known, tid) != known.end()) continue;
    const UniqueFd task = OpenTask(pid_, tid);
    if (!task.valid()) continue;
    const auto stat = StatOfTask(task);
    if (!stat || (stat->state != 'R' && !waits_)) continue;
    const std::uint64_t sleeps = ContextSwitchesOf(task).voluntary;
    const auto before = threads_.find(tid);
    const bool computes = !starts_ || before == threads_.end() ||
                          stat->system_ticks - before->second.system_ticks <=
                              stat->user_ticks - before->second.user_ticks;
    const bool same = before != threads_.end() && before->second.sleeps == sleeps && computes;
    if (stat->state != 'R' && same) continue;
    Seen& seen = now[tid];
    seen.sleeps = sleeps;
    const bool awake = waits_ ? before != threads_.end() : same;
    seen.wanting = awake ? before->second.wanting + 1 : 1;
    seen.user_ticks = stat->user_ticks;
    seen.system_ticks = stat->system_ticks;
    seen.cpu_ns = TimesOf(task).ran_ns;
    seen.first_cpu_ns = awake ? before->second.first_cpu_ns : seen.cpu_ns;
    seen.first_sleeps = awake ? before->second.first_sleeps : seen.sleeps;
  }
  threads_ = std::move(now);
}

std::vector<pid_t> PollerCensus::Pollers() const {
  const auto slept = [](const Seen& seen) { return seen.sleeps - seen.first_sleeps; };
  const int looks = starts_ ? kLooksAtStart : kLooks;
  std::uint64_t most = 0;
  for (const auto& [tid, seen] : threads_) most = std::max(most, slept(seen));
  std::vector<pid_t> pollers;
  for (const auto& [tid, seen] : threads_) {
    // One that has so much to do that it never waits.
    const bool polls = slept(seen) == 0;
    if (seen.wanting >= looks && (polls || 2 * slept(seen) > most)) pollers.push_back(tid);
  }
  return pollers;
}

std::chrono::nanoseconds PollerCensus::Ran(pid_t tid) const {
  const auto seen = threads_.find(tid);
  if (seen == threads_.end()) return {};
  return std::chrono::nanoseconds(seen->second.cpu_ns - seen->second.first_cpu_ns);
}

absl::StatusOr<std::vector<pid_t>> FindPollers(const std::string& function, pid_t pid, bool waits,
                                               bool starts, std::chrono::nanoseconds timeout,
                                               Interrupt& interrupt) {
  const auto begin = std::chrono::steady_clock::now(), deadline = begin + timeout;
  PollerCensus census(pid, waits), strict(pid, waits, true);
  for (;;) {
    census.Look();
    if (starts) strict.Look();
    const bool may_start = starts && std::chrono::steady_clock::now() - begin < timeout / 2;
    if (auto pollers = (may_start ? strict : census).Pollers(); !pollers.empty()) return pollers;
    if (!ProcessRuns(pid))
      return absl::FailedPreconditionError(
          fmt::format("function {} ended before it polled", function));
    if (std::chrono::steady_clock::now() > deadline)
      return absl::DeadlineExceededError(
          waits
              ? fmt::format("no thread of function {} waits for packets: none wakes up {} times "
                            "a second",
                            function, std::chrono::seconds(1) / PollerCensus::kEvery)
              : fmt::format("no thread of function {} polls: each sleeps now and then", function));
    if (!interrupt.SleepFor(PollerCensus::kEvery)) return Ending();
  }
}

}  // namespace unis
