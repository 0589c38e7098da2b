// Where and how a thread runs while something is measured.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <sched.h>

#include <functional>
#include <vector>

namespace unis {

struct SchedulingClass {
  const char* name;
  int policy;
  bool real_time() const { return policy == SCHED_FIFO || policy == SCHED_RR; }
};

constexpr SchedulingClass kOther{"other", SCHED_OTHER}, kBatch{"batch", SCHED_BATCH},
    kRr{"rr", SCHED_RR}, kFifo{"fifo", SCHED_FIFO};

// The calling thread is on one CPU while this lives, if it may be there.
class PinnedTo {
 public:
  explicit PinnedTo(unsigned cpu);
  ~PinnedTo();
  PinnedTo(const PinnedTo&) = delete;
  PinnedTo& operator=(const PinnedTo&) = delete;

  bool there() const { return there_; }

 private:
  cpu_set_t before_{};
  bool there_ = false;
};

// For good; an error where the kernel refuses. A real-time class is refused on CPU 0, on which the
// rest of the machine relies, and the kernel ends a process that keeps a CPU in one for 0.5 s.
absl::Status RunOn(unsigned cpu, const SchedulingClass& in);

using Samples = absl::StatusOr<std::vector<double>>;

// What `work` returns, in a child process: its CPU, class and timer slack are its own, and it ends
// with this process, or after `seconds`.
Samples InChild(unsigned seconds, const std::function<Samples()>& work);

// After real-time work: others had to wait for so long.
void Rest(const SchedulingClass& after);

}  // namespace unis
