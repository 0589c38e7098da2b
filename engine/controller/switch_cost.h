// What passing the CPU costs on this machine: how early a switch must start
// (SchedulerSettings::lead) and an input of the simulator. Measured with two spinning real-time
// threads of this process on the CPU of the functions, while those wait.
#pragma once

#include <absl/status/statusor.h>

#include <functional>
#include <vector>

namespace unis {

struct SwitchCost {
  double call_ns;             // the system call that raises a thread on another CPU; median
  double until_preempted_ns;  // from before that call until the current thread stops; median
  double until_running_ns;    // from before that call until the raised thread runs; median
  double yield_ns;            // sched_yield from one SCHED_FIFO thread to the other; median
};

// Refuses a `cpu` that is not one of `allowed`, those of the functions: real-time threads that spin
// elsewhere would outrank whoever has to end them. The caller leaves that CPU for the time.
//
// Takes about 0.1 ms a round and 2 s at most, after which the spinning threads end by themselves.
// Between two switches `meanwhile` is called over and over: what the caller's CPU will do between
// switches in operation, for a system call takes longer when the caches hold other things. Once
// `go_on` is false it is broken off: kCancelled.
absl::StatusOr<SwitchCost> MeasureSwitchCost(
    unsigned cpu, const std::vector<unsigned>& allowed, unsigned rounds,
    const std::function<void()>& meanwhile = [] {},
    const std::function<bool()>& go_on = [] { return true; });

}  // namespace unis
