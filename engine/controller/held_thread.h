// A thread that UNiS schedules, held so that everything that is changed of it is put back when the
// holder goes. The polling thread is scheduled, not the process: control threads of a function stay
// with the kernel's own scheduler.
//
// The kernel sets scheduling classes by number, and a number may be used again. So the thread is
// held by descriptors (a pidfd, and its folder in /proc), and every call looks first whether the
// number still names the thread that was taken. SetPriority() alone, one call for the sake of the
// tick, only looks whether the thread was found dead before; a stranger under the number is safe
// there unless it is real-time itself, for to others the kernel refuses such a priority.
//
// For one thread at a time, except alive(), SetPriority() and what only reads.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <sched.h>
#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "engine/base/pidfd.h"
#include "engine/base/proc.h"
#include "engine/base/unique_fd.h"

namespace unis {

// As the kernel's scheduler has it: SCHED_FIFO 12, SCHED_OTHER 0.
struct SchedulingClass {
  int policy = SCHED_OTHER;
  int priority = 0;  // 1 to 99 for SCHED_FIFO and SCHED_RR, else 0
};

class HeldThread {
 public:
  struct Original {
    SchedulingClass kernel_class;
    int nice = 0;
    cpu_set_t affinity = {};
    // Of its own in the fair classes; 0: that of all, or it was real-time, and nobody can read it.
    std::chrono::nanoseconds slice{};
  };

  // Of SCHED_OTHER and SCHED_BATCH.
  struct Fair {
    // Its own, 0.1 to 100 ms, which nothing inherits; 0: as it was found.
    std::chrono::nanoseconds slice{};
    std::optional<int> nice = {};  // absent: as it was found
  };

  // `name` is the function's, for messages. Changes nothing yet.
  static absl::StatusOr<HeldThread> Take(std::string name, pid_t pid, pid_t tid);
  ~HeldThread();  // restores
  HeldThread(HeldThread&&) noexcept = default;
  HeldThread& operator=(HeldThread&& other) noexcept;

  const std::string& name() const { return name_; }
  pid_t pid() const { return pid_; }
  pid_t tid() const { return tid_; }
  pid_t own_tid() const { return own_tid_; }                // as it knows itself
  std::uint64_t start_time() const { return start_time_; }  // see ProcStat
  const Original& before() const { return before_; }        // when it was taken

  bool alive() const noexcept;                          // neither gone nor a zombie
  bool Dying() const { return unis::Dying(task_); }     // as proc.h has it
  bool stopped() const;                                 // by a signal
  bool sleeps() const;                                  // it waits, and not for a CPU
  ThreadTimes Times() const { return TimesOf(task_); }  // 0: gone
  ContextSwitches SwitchesByKernel() const { return ContextSwitchesOf(task_); }
  absl::StatusOr<SchedulingClass> Class() const;
  // "fifo 12", "rr 1", "batch", "gone", "other, nice -5, slice 3 ms": as the kernel has it, but a
  // slice only if it was set.
  std::string DescribeClass() const;

  // From a real-time class what the thread forks or clones starts in SCHED_OTHER. An error says
  // what to do where the kernel refuses such classes (no permission, or RT group scheduling without
  // a budget).
  // An error says what kernel a slice takes; the class is set all the same.
  absl::Status SetClass(int policy, int priority, const Fair& fair);
  absl::Status SetClass(int policy, int priority) { return SetClass(policy, priority, Fair()); }
  // Exactly, and the slice stays as it is; nothing for one that is gone.
  absl::Status RestoreClass(const SchedulingClass& before);
  // Within its real-time class. False: the thread is dead, or somebody took it out of that class.
  bool SetPriority(int priority) noexcept;
  absl::Status Pin(unsigned cpu);

  // To the whole process. False: it has ended. A process stopped so goes on when it is put back.
  // One system call, no allocation.
  bool Signal(int signal) noexcept;
  // Bursts after which the function yields by itself (its --yield-every): SIGRTMIN with that
  // number. 0: it does not.
  absl::Status SetYielding(std::uint32_t every);

  // As it was when taken. Any number of times; a thread that is gone needs nothing back.
  absl::Status Restore();

 private:
  HeldThread(std::string name, pid_t pid, pid_t tid, Pidfd process, UniqueFd task)
      : name_(std::move(name)),
        pid_(pid),
        tid_(tid),
        process_(std::move(process)),
        task_(std::move(task)) {}
  absl::Status ReadOriginal();
  // The start of a message: what UNiS wants of whom.
  std::string Cannot(const std::string& what) const;
  absl::Status PutClass(const SchedulingClass& wanted);
  absl::Status PutSlice(std::chrono::nanoseconds slice);
  absl::Status PutNice(int nice);
  absl::Status PutScheduling();

  std::string name_;
  pid_t pid_;
  pid_t tid_;
  pid_t own_tid_ = 0;
  std::uint64_t start_time_ = 0;
  Pidfd process_;
  std::optional<Pidfd> thread_;  // where the kernel has them
  UniqueFd task_;                // /proc/PID/task/TID; not valid: moved from
  Original before_;
  bool class_changed_ = false;
  bool slice_changed_ = false;
  bool nice_changed_ = false;
  bool affinity_changed_ = false;
  bool stopped_by_us_ = false;
  mutable bool found_dead_ = false;  // by std::atomic_ref
};

}  // namespace unis
