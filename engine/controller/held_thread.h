// The thread of an NF that polls, and what the kernel's scheduler knows of it. The polling thread
// is scheduled, not the process: control threads of the NF stay with the kernel's own scheduler.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <sched.h>
#include <sys/types.h>

#include <string>
#include <vector>

#include "engine/scheduler/components.h"

namespace unis {

struct NfThread {
  std::string name;
  pid_t pid = 0;
  pid_t tid = 0;
  CoreIndex core = 0;       // of the scheduler
  bool cooperates = false;  // started with --yield-every: takes SIGRTMIN
};

// Policy, priority, nice value and affinity: what UNiS changes and puts back.
struct SchedulingState {
  int policy = SCHED_OTHER;
  int priority = 0;  // 1 to 99 for SCHED_FIFO and SCHED_RR, else 0
  int nice = 0;
  cpu_set_t affinity = {};
};

absl::StatusOr<SchedulingState> ReadScheduling(pid_t tid);
absl::Status RestoreScheduling(pid_t tid, const SchedulingState& state);

// Puts a thread into a class of the kernel. An error says what to do where the kernel refuses
// real-time classes (no permission, or RT group scheduling without a budget).
absl::Status SetSchedulingClass(const NfThread& nf, int policy, int priority);
absl::Status SetSchedulingClass(const std::vector<NfThread>& nfs, int policy, int priority);

absl::Status PinToCpu(const NfThread& nf, unsigned cpu);

// "fifo 12", "rr 1", "other", "batch", "gone".
std::string DescribeScheduling(pid_t tid);

// Switches the NF's own yielding (SIGRTMIN with the value 0 or 1); nothing for NFs that do not
// co-operate.
absl::Status SetYielding(const std::vector<NfThread>& nfs, bool yielding);

}  // namespace unis
