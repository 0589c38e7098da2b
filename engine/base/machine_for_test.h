// What tests need of the machine: a CPU that they may keep busy with real-time threads, and root.
// What is missing fails a test in continuous integration (CI=true); elsewhere it skips the test.
#pragma once

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>

// In a test or SetUp().
#define UNIS_NEED(condition, sentence)    \
  do {                                    \
    if (condition) break;                 \
    if (unis::InCi()) FAIL() << sentence; \
    GTEST_SKIP() << sentence;             \
  } while (false)

#define UNIS_NEED_ROOT() UNIS_NEED(geteuid() == 0, "this test needs root and CAP_SYS_NICE")
#define UNIS_NEED_TWO_CPUS()     \
  UNIS_NEED(unis::LastCpu() > 0, \
            "this test needs two CPUs: one for itself and one for the threads that it controls")

namespace unis {

inline bool InCi() {
  const char* ci = std::getenv("CI");
  return ci != nullptr && std::string_view(ci) == "true";
}

// The last CPU that the test was started on, also after LeaveLastCpu(). 0: there is only CPU 0,
// which no real-time thread may take.
inline unsigned LastCpu() {
  static const unsigned last = [] {
    cpu_set_t allowed;
    CPU_ZERO(&allowed);
    sched_getaffinity(0, sizeof(allowed), &allowed);
    unsigned cpu = CPU_SETSIZE - 1;
    while (cpu > 0 && !CPU_ISSET(cpu, &allowed)) --cpu;
    return cpu;
  }();
  return last;
}

// Leaves the last CPU to the threads under control.
inline void LeaveLastCpu() {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (unsigned cpu = 0; cpu < LastCpu(); ++cpu) CPU_SET(cpu, &set);
  if (LastCpu() > 0) sched_setaffinity(0, sizeof(set), &set);
}

}  // namespace unis
