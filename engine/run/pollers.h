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
  explicit PollerCensus(pid_t pid, bool waits = false) : pid_(pid), waits_(waits) {}

  // `known`: threads that are of no interest; they cost nothing.
  void Look(const std::vector<pid_t>& known = {});
  // Those that wanted the CPU at each of the last kLooks looks and did not sleep meanwhile, or woke
  // up before each, see above; by number. None before so many looks.
  std::vector<pid_t> Pollers() const;
  bool Wants(pid_t tid) const { return threads_.contains(tid); }  // at the last look
  // How much of a CPU it had from the first of those looks to the last. One that had none may have
  // a moment's work to do, and nobody lets it.
  std::chrono::nanoseconds Ran(pid_t tid) const;

  static constexpr int kLooks = 8;
  static constexpr std::chrono::milliseconds kEvery{25};

 private:
  struct Seen {
    int wanting = 0;  // looks in a row
    std::uint64_t first_sleeps = 0, sleeps = 0;
    std::uint64_t first_cpu_ns = 0, cpu_ns = 0;
  };

  pid_t pid_;
  bool waits_;
  std::map<pid_t, Seen> threads_;
};

// Waits for the first threads that poll. An error: the process ended, `timeout` passed, or
// `interrupt` was raised.
absl::StatusOr<std::vector<pid_t>> FindPollers(const std::string& function, pid_t pid, bool waits,
                                               std::chrono::nanoseconds timeout,
                                               Interrupt& interrupt);

}  // namespace unis
