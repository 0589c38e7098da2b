#include "engine/controller/nf_thread.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace unis {
namespace {

absl::Status ErrnoStatus(std::string what) {
  const int code = errno;
  return absl::ErrnoToStatus(code, std::move(what));
}

const char* PolicyName(int policy) {
  switch (policy & ~SCHED_RESET_ON_FORK) {
    case SCHED_OTHER:
      return "other";
    case SCHED_FIFO:
      return "fifo";
    case SCHED_RR:
      return "rr";
    case SCHED_BATCH:
      return "batch";
    case SCHED_IDLE:
      return "idle";
    default:
      return "unknown";
  }
}

}  // namespace

absl::StatusOr<SchedulingState> ReadScheduling(pid_t tid) {
  SchedulingState state;
  sched_param param{};
  state.policy = sched_getscheduler(tid);
  if (state.policy < 0 || sched_getparam(tid, &param) != 0 ||
      sched_getaffinity(tid, sizeof(state.affinity), &state.affinity) != 0) {
    return ErrnoStatus(fmt::format("cannot read the scheduling of thread {}", tid));
  }
  state.priority = param.sched_priority;
  errno = 0;
  state.nice = getpriority(PRIO_PROCESS, static_cast<id_t>(tid));
  if (errno != 0) return ErrnoStatus(fmt::format("cannot read the nice value of thread {}", tid));
  return state;
}

absl::Status RestoreScheduling(pid_t tid, const SchedulingState& state) {
  const sched_param param{.sched_priority = state.priority};
  if (sched_setscheduler(tid, state.policy, &param) != 0 ||
      setpriority(PRIO_PROCESS, static_cast<id_t>(tid), state.nice) != 0 ||
      sched_setaffinity(tid, sizeof(state.affinity), &state.affinity) != 0) {
    if (errno == ESRCH) return absl::OkStatus();  // a thread that is gone needs nothing back
    return ErrnoStatus(fmt::format("cannot restore the scheduling of thread {}", tid));
  }
  return absl::OkStatus();
}

absl::Status SetSchedulingClass(const NfThread& nf, int policy, int priority) {
  const sched_param param{.sched_priority = priority};
  if (sched_setscheduler(nf.tid, policy, &param) == 0) return absl::OkStatus();
  std::string what = fmt::format("cannot give function {} (thread {}) scheduling class {} {}",
                                 nf.name, nf.tid, PolicyName(policy), priority);
  if (errno == EPERM) {
    what +=
        "; run as root, and where the kernel has RT group scheduling give the cgroup of the "
        "functions a budget (cpu.rt_runtime_us): see `unis doctor`";
  }
  return ErrnoStatus(std::move(what));
}

absl::Status SetSchedulingClass(const std::vector<NfThread>& nfs, int policy, int priority) {
  for (const NfThread& nf : nfs) {
    if (auto status = SetSchedulingClass(nf, policy, priority); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status PinToCpu(const NfThread& nf, unsigned cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  if (sched_setaffinity(nf.tid, sizeof(set), &set) == 0) return absl::OkStatus();
  return ErrnoStatus(
      fmt::format("cannot pin function {} (thread {}) to CPU {}", nf.name, nf.tid, cpu));
}

std::string DescribeScheduling(pid_t tid) {
  sched_param param{};
  const int policy = sched_getscheduler(tid);
  if (policy < 0 || sched_getparam(tid, &param) != 0) return "gone";
  if (param.sched_priority == 0) return PolicyName(policy);
  return fmt::format("{} {}", PolicyName(policy), param.sched_priority);
}

absl::Status SetYielding(const std::vector<NfThread>& nfs, bool yielding) {
  siginfo_t info{};
  info.si_code = SI_QUEUE;
  info.si_value.sival_int = yielding ? 1 : 0;
  for (const NfThread& nf : nfs) {
    if (!nf.cooperates) continue;
    if (syscall(SYS_rt_tgsigqueueinfo, nf.pid, nf.tid, SIGRTMIN, &info) != 0) {
      return ErrnoStatus(fmt::format("cannot signal function {} (process {})", nf.name, nf.pid));
    }
  }
  return absl::OkStatus();
}

}  // namespace unis
