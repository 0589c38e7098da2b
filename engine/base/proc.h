// What /proc tells of an NF's thread.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

namespace unis {

bool ThreadExists(pid_t pid, pid_t tid);
bool ProcessRuns(pid_t pid);               // exists and is not a zombie
bool ThreadStopped(pid_t pid, pid_t tid);  // by a signal
std::uint64_t CpuTimeNs(pid_t pid, pid_t tid);

struct ContextSwitches {
  std::uint64_t voluntary = 0;
  std::uint64_t involuntary = 0;
};
ContextSwitches ContextSwitchesOf(pid_t pid, pid_t tid);

}  // namespace unis
