#include "engine/controller/held_thread.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/resource.h>

#include <atomic>
#include <cerrno>
#include <memory>

#include "engine/controller/fair_slice.h"

namespace unis {
using std::chrono::nanoseconds;

namespace {

std::string Describe(const SchedulingClass& kernel_class) {
  const auto named = [&kernel_class]() -> const char* {
    switch (kernel_class.policy & ~SCHED_RESET_ON_FORK) {
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
  };
  if (kernel_class.priority == 0) return named();
  return fmt::format("{} {}", named(), kernel_class.priority);
}

bool IsRealTime(int policy) { return policy == SCHED_FIFO || policy == SCHED_RR; }

// A thread that is gone needs nothing back.
absl::Status UnlessGone(absl::Status status) {
  return absl::IsNotFound(status) ? absl::OkStatus() : status;
}

absl::Status ErrnoStatus(const std::string& what) {
  const int code = errno;
  if (code == ESRCH) return absl::NotFoundError(what + ": it has ended");
  return absl::ErrnoToStatus(code, what);
}

}  // namespace

absl::StatusOr<HeldThread> HeldThread::Take(std::string name, pid_t pid, pid_t tid) {
  const std::string what = fmt::format("thread {} of process {} (function {})", tid, pid, name);
  const auto none = [&what] {
    return absl::NotFoundError(fmt::format("there is no {}: it has ended, or never was", what));
  };
  UniqueFd task = OpenTask(pid, tid);
  if (!task.valid()) return none();
  auto process = Pidfd::OfProcess(pid);
  if (!process.ok()) return process.status();
  HeldThread held(std::move(name), pid, tid, *std::move(process), std::move(task));
  if (auto thread = Pidfd::OfThread(tid); thread.ok()) held.thread_ = *std::move(thread);
  auto status = held.ReadOriginal();
  held.own_tid_ = NumberInside(held.task_);
  // Still alive: so what was opened and read by number since was its own.
  const auto stat = StatOfTask(held.task_);
  if (!stat || !held.alive()) return none();
  if (!status.ok()) return status;
  if (held.own_tid_ <= 0)
    return absl::InternalError("cannot tell what number has, in its own PID namespace, " + what);
  held.start_time_ = stat->start_time;
  return held;
}

absl::Status HeldThread::ReadOriginal() {
  const auto kernel_class = Class();
  if (!kernel_class.ok()) return kernel_class.status();
  before_.kernel_class = *kernel_class;
  errno = 0;
  before_.nice = getpriority(PRIO_PROCESS, static_cast<id_t>(tid_));
  if (errno != 0 || sched_getaffinity(tid_, sizeof(before_.affinity), &before_.affinity) != 0)
    return ErrnoStatus(Cannot("read the nice value and CPUs of"));
  const nanoseconds slice = FairSliceOf(tid_);
  if (slice != BaseSlice() && slice <= kLongestFairSlice) before_.slice = slice;
  return absl::OkStatus();
}

HeldThread::~HeldThread() { (void)Restore(); }

HeldThread& HeldThread::operator=(HeldThread&& other) noexcept {
  if (this != &other) {
    std::destroy_at(this);
    std::construct_at(this, std::move(other));
  }
  return *this;
}

std::string HeldThread::Cannot(const std::string& what) const {
  return fmt::format("cannot {} function {} (thread {} of process {})", what, name_, tid_, pid_);
}

bool HeldThread::alive() const noexcept {
  const auto stat = StatOfTask(task_);
  const bool alive = stat && stat->state != 'Z' && stat->state != 'X';
  if (!alive) std::atomic_ref(found_dead_).store(true, std::memory_order_relaxed);
  return alive;
}

bool HeldThread::stopped() const {
  const auto stat = StatOfTask(task_);
  return stat && stat->state == 'T';
}

bool HeldThread::sleeps() const {
  const auto stat = StatOfTask(task_);
  return stat && (stat->state == 'S' || stat->state == 'D');  // D: for a disk, say
}

absl::StatusOr<SchedulingClass> HeldThread::Class() const {
  sched_param param{};
  const int policy = sched_getscheduler(tid_);
  const bool read = policy >= 0 && sched_getparam(tid_, &param) == 0;
  const int code = errno;
  // Asked afterwards: what was read by number was of the thread that is held.
  const bool ours = alive();
  if (read && ours) return SchedulingClass{.policy = policy, .priority = param.sched_priority};
  errno = ours ? code : ESRCH;
  return ErrnoStatus(Cannot("read the scheduling class of"));
}

std::string HeldThread::DescribeClass() const {
  const auto kernel_class = Class();
  if (!kernel_class.ok()) return "gone";
  std::string said = Describe(*kernel_class);
  if (IsRealTime(kernel_class->policy & ~SCHED_RESET_ON_FORK)) return said;
  const int nice = getpriority(PRIO_PROCESS, static_cast<id_t>(tid_));
  const std::chrono::duration<double, std::milli> slice = FairSliceOf(tid_);
  if (!alive()) return "gone";  // asked afterwards, as in Class()
  if (nice != 0) said += fmt::format(", nice {}", nice);
  if (slice_changed_) said += fmt::format(", slice {:g} ms", slice.count());
  return said;
}

absl::Status HeldThread::SetClass(int policy, int priority, const Fair& fair) {
  const bool own = fair.slice.count() > 0;
  absl::Status status;
  if (own || (slice_changed_ && !IsRealTime(policy)))
    status = PutSlice(own ? fair.slice : before_.slice);
  if (fair.nice || nice_changed_) status.Update(PutNice(fair.nice.value_or(before_.nice)));
  if (own || IsRealTime(policy)) policy |= SCHED_RESET_ON_FORK;
  status.Update(PutClass({.policy = policy, .priority = priority}));
  return status;
}

absl::Status HeldThread::RestoreClass(const SchedulingClass& before) {
  return UnlessGone(PutClass(before));
}

absl::Status HeldThread::PutClass(const SchedulingClass& wanted) {
  const sched_param param{.sched_priority = wanted.priority};
  errno = ESRCH;
  if (alive() && sched_setscheduler(tid_, wanted.policy, &param) == 0) {
    class_changed_ = true;
    return absl::OkStatus();
  }
  const int code = errno;
  std::string what =
      Cannot(fmt::format("put into scheduling class {} the thread of", Describe(wanted)));
  if (code == EPERM) {
    what +=
        "; run as root, and where the kernel has RT group scheduling give the cgroup of the "
        "functions a budget (cpu.rt_runtime_us): see `unis doctor`";
  }
  errno = code;
  return ErrnoStatus(what);
}

absl::Status HeldThread::PutNice(int nice) {
  errno = ESRCH;
  if (!alive() || setpriority(PRIO_PROCESS, static_cast<id_t>(tid_), nice) != 0)
    return ErrnoStatus(Cannot(fmt::format("set nice value {} for", nice)));
  class_changed_ = true;
  nice_changed_ = nice != before_.nice;
  return absl::OkStatus();
}

// Leaves the thread in SCHED_OTHER.
absl::Status HeldThread::PutSlice(nanoseconds slice) {
  const auto cannot = [&] {
    const double ms = std::chrono::duration<double, std::milli>(slice).count();
    return Cannot(fmt::format("set a time slice of {} ms for", ms));
  };
  errno = ESRCH;
  if (!alive() || !PutFairSlice(tid_, slice)) return ErrnoStatus(cannot());
  class_changed_ = true;
  slice_changed_ = slice != before_.slice;
  const nanoseconds given = FairSliceOf(tid_);
  if (slice.count() == 0 || given == slice || !alive()) return absl::OkStatus();
  if (const auto knows = KnowsFairSlices(given); !knows.ok())
    return absl::Status(knows.code(),
                        fmt::format("{}: {}", cannot(), std::string(knows.message())));
  return absl::OutOfRangeError(
      fmt::format("{}: the kernel made it {} ns; it has 0.1 to 100 ms", cannot(), given.count()));
}

bool HeldThread::SetPriority(int priority) noexcept {
  const std::atomic_ref found_dead(found_dead_);
  if (found_dead.load(std::memory_order_relaxed)) return false;
  const sched_param param{.sched_priority = priority};
  if (sched_setparam(tid_, &param) == 0) return true;
  if (errno == ESRCH) found_dead.store(true, std::memory_order_relaxed);
  return false;
}

absl::Status HeldThread::Pin(unsigned cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  errno = ESRCH;
  if (alive() && sched_setaffinity(tid_, sizeof(set), &set) == 0) {
    affinity_changed_ = true;
    return absl::OkStatus();
  }
  return ErrnoStatus(Cannot(fmt::format("pin to CPU {}", cpu)));
}

bool HeldThread::Signal(int signal) noexcept {
  const bool sent = process_.Signal(signal);
  if (sent && signal == SIGSTOP) stopped_by_us_ = true;
  if (signal == SIGCONT) stopped_by_us_ = false;
  return sent;
}

absl::Status HeldThread::SetYielding(std::uint32_t every) {
  errno = ESRCH;
  // To any thread of the process where the kernel knows none by descriptor: one handler serves all.
  const Pidfd& receiver = thread_ ? *thread_ : process_;
  if (alive() && receiver.Queue(SIGRTMIN, static_cast<int>(every))) return absl::OkStatus();
  return ErrnoStatus(Cannot("switch the yielding of"));
}

absl::Status HeldThread::PutScheduling() {
  if (!alive()) return absl::OkStatus();
  absl::Status first;
  if (class_changed_) {
    if (slice_changed_) first.Update(UnlessGone(PutSlice(before_.slice)));
    first.Update(UnlessGone(PutClass(before_.kernel_class)));
    if (alive() && setpriority(PRIO_PROCESS, static_cast<id_t>(tid_), before_.nice) != 0)
      first.Update(UnlessGone(ErrnoStatus(Cannot("restore the nice value of"))));
  }
  if (affinity_changed_ && alive() &&
      sched_setaffinity(tid_, sizeof(before_.affinity), &before_.affinity) != 0)
    first.Update(UnlessGone(ErrnoStatus(Cannot("restore the CPUs of"))));
  return first;
}

absl::Status HeldThread::Restore() {
  if (!task_.valid()) return absl::OkStatus();
  absl::Status first = PutScheduling();
  if (first.ok()) class_changed_ = affinity_changed_ = nice_changed_ = false;
  if (stopped_by_us_) (void)Signal(SIGCONT);
  return first;
}

}  // namespace unis
