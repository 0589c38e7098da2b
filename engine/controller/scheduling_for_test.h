// What the kernel's scheduler knows of a thread, read and set apart from HeldThread.
#pragma once

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <string>

namespace unis {

// The words of sched_getattr(): the one at 24 bytes is a fair thread's time slice, ns; 0 where it
// is in no such class or the kernel is older than 6.12.
inline std::uint64_t SliceOf(pid_t tid) {
  std::array<std::uint64_t, 6> words{};
  EXPECT_EQ(syscall(SYS_sched_getattr, tid, words.data(), sizeof(words), 0), 0);
  return words[3];
}

// With SCHED_OTHER and the thread's nice value; 0: that of all.
inline void SetSlice(pid_t tid, std::uint64_t ns) {
  const auto nice = static_cast<std::uint32_t>(getpriority(PRIO_PROCESS, static_cast<id_t>(tid)));
  std::array<std::uint64_t, 6> words{sizeof(words), 0, nice, ns};
  EXPECT_EQ(syscall(SYS_sched_setattr, tid, words.data(), 0), 0);
}

// All that UNiS may change of a thread, comparable and legible.
inline std::string SchedulingOf(pid_t tid) {
  sched_param param{};
  cpu_set_t affinity;
  CPU_ZERO(&affinity);
  const int policy = sched_getscheduler(tid);
  if (policy < 0 || sched_getparam(tid, &param) != 0 ||
      sched_getaffinity(tid, sizeof(affinity), &affinity) != 0)
    return "gone";
  std::string text = "policy " + std::to_string(policy) + " priority " +
                     std::to_string(param.sched_priority) + " nice " +
                     std::to_string(getpriority(PRIO_PROCESS, static_cast<id_t>(tid))) + " slice " +
                     std::to_string(SliceOf(tid)) + " CPUs";
  for (unsigned cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &affinity)) text += " " + std::to_string(cpu);
  return text;
}

inline void SetScheduling(pid_t tid, int policy, int priority, int nice) {
  const sched_param param{.sched_priority = priority};
  EXPECT_EQ(sched_setscheduler(tid, policy, &param), 0);
  EXPECT_EQ(setpriority(PRIO_PROCESS, static_cast<id_t>(tid), nice), 0);
}

}  // namespace unis
