// What the scheduler is given: the paper's components (section 4.3) as interfaces. The real ones
// live in monitor/, timer/ and controller/, the simulator's in simulator/, the tests' in tests.
// Nothing here or in this folder knows the OS, DPDK or a clock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

namespace unis {

using Nanoseconds = std::int64_t;
using TaskIndex = std::uint32_t;      // position in the list of tasks given to the scheduler
using FunctionIndex = std::uint32_t;  // position in the list of functions, which have costs
using CoreIndex = std::uint32_t;      // position in the list of cores, not the CPU number
using LinkIndex = std::uint32_t;      // position in the monitor's list of links

// Interface Monitor (section 4.3.2): how full are the links between functions?
// All calls are made from the scheduling tick: no lock, no allocation, no system call.
class InterfaceMonitor {
 public:
  virtual ~InterfaceMonitor() = default;
  virtual std::uint32_t NumPkts(LinkIndex link) const noexcept = 0;  // outstanding packets
  virtual std::uint32_t PktCap(LinkIndex link) const noexcept = 0;   // packets that fit; constant
  // Packets ever put into the link, and ever taken out of it, modulo 2^16: what shows which of a
  // function's threads does what. A monitor that cannot tell says 0.
  virtual std::uint16_t Sent(LinkIndex) const noexcept { return 0; }
  virtual std::uint16_t Received(LinkIndex) const noexcept { return 0; }
  // False: nobody can tell how full it is, and NumPkts() says 0.
  virtual bool Knows(LinkIndex) const noexcept { return true; }
};

// Timer Subsystem (section 4.3.3): monotonic time. Intervals and slices are counted on it.
class TimerSubsystem {
 public:
  virtual ~TimerSubsystem() = default;
  virtual Nanoseconds Now() const noexcept = 0;
};

// Process Controller (section 4.3.4): which task of a core is running. Calls for different cores
// may come from different threads, those for one core come from one.
class ProcessController {
 public:
  virtual ~ProcessController() = default;
  // Lets `to` run on its core and, on return or soon after, `from` no more (lines 15 and 16 of
  // Algorithm 1 in one call, because one critical system call is enough for both). False: it could
  // not; `from` still runs.
  virtual bool Switch(CoreIndex core, TaskIndex from, TaskIndex to) noexcept = 0;
  // Lets `first` run, and no other task of the core. False: it could not; none of them runs.
  virtual bool Start(CoreIndex core, TaskIndex first) noexcept = 0;

  // The tasks of the core sleep from now on, where each polls next, and the CPU is anybody's; to be
  // renewed by another call within kRestHolds. False: it cannot be; none of them does.
  virtual bool Rest(CoreIndex) noexcept { return false; }
  static constexpr Nanoseconds kRestHolds = 4'000'000;
  // None sleeps any longer, `first` before the others. It is the one that was switched to last.
  virtual void Wake(CoreIndex, TaskIndex /*first*/) noexcept {}

  // From here on for tasks that pass the CPU on to the next in line by themselves
  // (SchedulerSettings::handover).
  struct Turn {
    TaskIndex task;
    bool begun;  // since the last call; else it goes on
  };
  // Who has its turn, as far as can be seen. None: as it was.
  virtual std::optional<Turn> TurnOn(CoreIndex) noexcept { return std::nullopt; }
  // Whether `task` passes the CPU on when it has no work or has done its share. The others run only
  // when they are switched to, before all of these, and until another is.
  virtual bool PassesOn(TaskIndex) const noexcept { return false; }
  // Turns that `task` has begun so far; as TurnOn() has seen it.
  virtual std::uint64_t TurnsOf(TaskIndex) const noexcept { return 0; }
  // `task` alone sleeps from now on, where it polls next; to be renewed as Rest() is, and ended by
  // that or by WakeOne(). False: it cannot.
  virtual bool RestOne(TaskIndex) noexcept { return false; }
  virtual void WakeOne(TaskIndex) noexcept {}
  // Asks `task` to do so when it polls next. No system call.
  virtual void AskToPassOn(TaskIndex) noexcept {}
  // Packets of a turn after which `task` does so. Also before Start(). No system call.
  virtual void SetQuota(TaskIndex /*task*/, std::uint32_t /*packets*/) noexcept {}
};

enum class SwitchReason : std::uint8_t {
  kStart,
  kSliceExpired,
  kIngressLow,
  kEgressHigh,
  kSelf,     // the task passed the CPU on by itself
  kStill,    // one of several threads of its function, it has moved no packet for a while
  kBetween,  // one that does not pass the CPU on runs between the turns of others
};

struct SwitchRecord {
  Nanoseconds time;
  CoreIndex core;
  TaskIndex from;  // equal to `to` for kStart
  TaskIndex to;
  SwitchReason reason;
  // Packets, when decided; of several paths, the sum.
  std::uint32_t from_ingress, from_egress, to_ingress, to_egress;
  Nanoseconds slice;
};

// Told of every switch, in the tick that makes it: no lock, no allocation, no system call.
class SwitchObserver {
 public:
  virtual ~SwitchObserver() = default;
  // False: no record is built. Asked at every switch.
  virtual bool wants() const noexcept { return true; }
  virtual void OnSwitch(const SwitchRecord& record) noexcept = 0;
};

}  // namespace unis
