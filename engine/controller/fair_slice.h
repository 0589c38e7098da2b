// The time slice of a thread in the kernel's fair classes, SCHED_OTHER and SCHED_BATCH: one of its
// own, from Linux 6.12 on, or that of all (EEVDF's base slice). The kernel keeps one of its own
// through every other class and every sched_setscheduler(), and what the thread forks or clones has
// it too, unless SCHED_RESET_ON_FORK is set.
#pragma once

#include <absl/status/status.h>
#include <sys/types.h>

#include <chrono>

namespace unis {

inline constexpr std::chrono::nanoseconds kLongestFairSlice{100'000'000};  // of one of its own

// 0: it is real-time or gone, or the kernel knows no slices of threads.
std::chrono::nanoseconds FairSliceOf(pid_t tid) noexcept;

// Puts the thread into SCHED_OTHER, for only with a fair class the kernel takes a slice: `slice`,
// or, 0, that of all. False: errno says why. A kernel that knows none says nothing: read it back.
bool PutFairSlice(pid_t tid, std::chrono::nanoseconds slice) noexcept;

// That of all; 0: the kernel knows no slices of threads. A thread is started to see it: it changes
// with the number of CPUs that are online, and by root's hand in debugfs.
std::chrono::nanoseconds BaseSlice();

// OK, or what kernel it takes. `slice`: any that was read of a thread in a fair class.
absl::Status KnowsFairSlices(std::chrono::nanoseconds slice = BaseSlice());

}  // namespace unis
