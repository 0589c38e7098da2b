// The engine's threads that spin for the functions come before its others, which answer calls, and
// before the command line. Not in a real-time class: nothing else would ever run on their CPU. Only
// a Hurry is, for a moment.
#pragma once

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>

namespace unis {

// Two thirds of a contended CPU are enough to schedule by, and leave the command line usable on
// two cores.
constexpr int kFavouredNice = -3;

// Where the CPU that they leave is for others, they come first whenever they wake up.
constexpr int kFirstNice = -19;

inline void FavourThread(int nice = kFavouredNice) { (void)setpriority(PRIO_PROCESS, 0, nice); }

// Where the kernel shares the CPU among sessions first (autogroup), the nice value of a thread
// counts only within its own. Only for a session that this process began, and that goes with it:
// that of whoever started it by hand would keep the value.
inline void FavourSession(int nice = kFavouredNice) {
  if (getsid(0) != getpid()) return;
  std::ofstream autogroup("/proc/self/autogroup");
  if (autogroup) autogroup << nice;
}

// While it lives, the calling thread comes before all that has no real-time class. For changes
// during which the kernel schedules the functions: packets are lost if they take a millisecond.
// Nothing in it may take a lock that another process can hold, as those in DPDK's shared memory:
// the other would never run again.
class Hurry {
 public:
  Hurry() {
    if (sched_getparam(0, &before_) != 0) return;
    policy_ = sched_getscheduler(0);
    const sched_param first{.sched_priority = 1};
    hurries_ = policy_ >= 0 && sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &first) == 0;
  }
  ~Hurry() {
    if (hurries_) (void)sched_setscheduler(0, policy_, &before_);
  }
  Hurry(const Hurry&) = delete;
  Hurry& operator=(const Hurry&) = delete;

 private:
  sched_param before_{};
  int policy_ = SCHED_OTHER;
  bool hurries_ = false;
};

}  // namespace unis
