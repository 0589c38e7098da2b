// Which threads of a program poll, found by what they do: a thread that polls wants the CPU
// whenever one looks, and never sleeps in between. Nothing of ours is in the program.
#pragma once

#include <absl/status/statusor.h>
#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "engine/base/interrupt.h"

namespace unis {

// The threads of one process, looked at again and again. A thread that waits for a CPU counts as
// much as one that has it: what others take of the CPU changes nothing.
class PollerCensus {
 public:
  // `waits`: it waits for packets, for less than kEvery at a time. Then threads that woke up
  // between two looks count too, but not those that woke up half as often as another one or less:
  // they do something else now and then.
  // `starts`: nothing tells whether the program has started, and its ports need no kernel. While
  // EAL starts it does not sleep either, but most of that time is the kernel's, which maps memory
  // and devices. So a thread counts after kLooksAtStart looks, and a look at which it has had more
  // of the kernel's time since the one before than of its own is the first again.
  explicit PollerCensus(pid_t pid, bool waits = false, bool starts = false)
      : pid_(pid), waits_(waits), starts_(starts) {}

  // `known`: threads that are of no interest; they cost nothing.
  void Look(const std::vector<pid_t>& known = {});
  // Those that wanted the CPU at each of the last kLooks looks, or kLooksAtStart, and did not sleep
  // meanwhile, or woke up before each, see above; by number. None before so many looks.
  std::vector<pid_t> Pollers() const;
  bool Wants(pid_t tid) const { return threads_.contains(tid); }  // at the last look
  // How much of a CPU it had from the first of those looks to the last. One that had none may have
  // a moment's work to do, and nobody lets it.
  std::chrono::nanoseconds Ran(pid_t tid) const;

  static constexpr int kLooks = 8, kLooksAtStart = 40;
  static constexpr std::chrono::milliseconds kEvery{25};

 private:
  struct Seen {
    int wanting = 0;  // looks in a row
    std::uint64_t first_sleeps = 0, sleeps = 0;
    std::uint64_t first_cpu_ns = 0, cpu_ns = 0;
    std::uint64_t user_ticks = 0, system_ticks = 0;
  };

  pid_t pid_;
  bool waits_, starts_;
  std::map<pid_t, Seen> threads_;
};

// Waits for the first threads that poll. An error: the process ended, `timeout` passed, or
// `interrupt` was raised. `starts`: as above, for half of the timeout; then as of any other.
absl::StatusOr<std::vector<pid_t>> FindPollers(const std::string& function, pid_t pid, bool waits,
                                               bool starts, std::chrono::nanoseconds timeout,
                                               Interrupt& interrupt);

}  // namespace unis
