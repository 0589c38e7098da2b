// What /proc tells of processes and threads.
//
// A thread is read through a descriptor of its folder /proc/PID/task/TID: once the thread is gone
// every read through it fails, also when another thread has got its number. 0 or nothing then.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>

#include "engine/base/unique_fd.h"

namespace unis {

struct ProcStat {
  char state = 0;                                  // 'R', 'S', 'T' (stopped by a signal), 'Z', …
  std::uint64_t flags = 0;                         // of the kernel's, PF_
  std::uint64_t user_ticks = 0, system_ticks = 0;  // that it had a CPU; clock ticks
  std::uint64_t start_time =
      0;  // clock ticks since boot; with its number it names a process for ever
};
std::optional<ProcStat> StatOfProcess(pid_t pid);
bool ProcessRuns(pid_t pid);                            // exists and is not a zombie
bool ProcessRuns(pid_t pid, std::uint64_t start_time);  // and is the one that started then
bool ThreadExists(pid_t pid, pid_t tid);

UniqueFd OpenTask(pid_t pid, pid_t tid);  // not valid: there is no such thread, see errno
std::optional<ProcStat> StatOfTask(const UniqueFd& task) noexcept;
// The thread's number as it knows itself: in a container it is another one. 0: it is gone.
pid_t NumberInside(const UniqueFd& task) noexcept;
// It does not come back: it is on its way out, or a signal that ends it waits for it to run
// (SIGKILL, which others become where they are fatal).
bool Dying(const UniqueFd& task) noexcept;
// Those threads of a process that are dying run before all that UNiS schedules, and so end: behind
// such, which spin, they would wait for that for ever.
void BoostExitingThreads(pid_t pid);

// Of all threads of this process.
std::uint64_t OwnCpuTimeNs() noexcept;

// As the kernel's scheduler counts. What goes on is counted when it ends, or at a tick.
struct ThreadTimes {
  std::uint64_t ran_ns = 0;
  std::uint64_t waited_ns = 0;  // for a CPU, while it could have run
};
ThreadTimes TimesOf(const UniqueFd& task) noexcept;

struct ContextSwitches {
  std::uint64_t voluntary = 0;
  std::uint64_t involuntary = 0;
};
ContextSwitches ContextSwitchesOf(const UniqueFd& task) noexcept;

}  // namespace unis
