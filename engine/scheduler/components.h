// What the scheduler is given: the paper's components (section 4.3) as interfaces. The real ones
// live in monitor/, timer/ and controller/, the simulator's in simulator/, the tests' in tests.
// Nothing here or in this folder knows the OS, DPDK or a clock.
#pragma once

#include <cstddef>
#include <cstdint>

namespace unis {

using Nanoseconds = std::int64_t;
using TaskIndex = std::uint32_t;  // position in the TaskSet
using CoreIndex = std::uint32_t;  // position in the list of cores, not the CPU number
using LinkIndex = std::uint32_t;  // position in the monitor's list of links

// Interface Monitor (section 4.3.2): how full are the links between NFs?
// Both calls are made from the scheduling tick: no lock, no allocation, no system call.
class InterfaceMonitor {
 public:
  virtual ~InterfaceMonitor() = default;
  virtual std::uint32_t NumPkts(LinkIndex link) const noexcept = 0;  // outstanding packets
  virtual std::uint32_t PktCap(LinkIndex link) const noexcept = 0;   // packets that fit, at most
};

// Timer Subsystem (section 4.3.3): monotonic time. Intervals and slices are counted on it.
class TimerSubsystem {
 public:
  virtual ~TimerSubsystem() = default;
  virtual Nanoseconds Now() const noexcept = 0;
};

// Process Controller (section 4.3.4): which NF of a core is running.
class ProcessController {
 public:
  virtual ~ProcessController() = default;
  // Lets `to` run on its core and, on return or soon after, `from` no more (lines 15 and 16 of
  // Algorithm 1 in one call, because one critical system call is enough for both).
  // False: it could not, `from` still runs.
  virtual bool Switch(CoreIndex core, TaskIndex from, TaskIndex to) noexcept = 0;
  // Lets `first` run, and no other task of the core. False: it could not.
  virtual bool Start(CoreIndex core, TaskIndex first) noexcept = 0;
};

enum class SwitchReason : std::uint8_t { kStart, kSliceExpired, kIngressLow, kEgressHigh };

struct SwitchRecord {
  Nanoseconds time;
  CoreIndex core;
  TaskIndex from;  // equal to `to` for kStart
  TaskIndex to;
  SwitchReason reason;
  std::uint32_t from_ingress, from_egress, to_ingress, to_egress;  // packets, when decided
  Nanoseconds slice;
};

// Told of every switch, in the tick that makes it: no lock, no allocation, no system call.
class SwitchObserver {
 public:
  virtual ~SwitchObserver() = default;
  virtual void OnSwitch(const SwitchRecord& record) noexcept = 0;
};

}  // namespace unis
