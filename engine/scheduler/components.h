// What the scheduler is given: the paper's components (section 4.3) as interfaces. The real ones
// live in monitor/, timer/ and controller/, the simulator's in models/simulator/, the tests' in
// tests. Nothing here or in this folder knows the OS, DPDK or a clock.
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
  // Packets ever put into the link, and ever taken out of it, modulo 2^16. 0 where the monitor
  // cannot tell.
  virtual std::uint16_t Sent(LinkIndex) const noexcept { return 0; }
  virtual std::uint16_t Received(LinkIndex) const noexcept { return 0; }
  // Sent() grows some time after a packet was sent: something else passes it on.
  virtual bool CountsLate(LinkIndex) const noexcept { return false; }
  // No more than one packet comes in a microsecond.
  virtual bool FillsSlowly(LinkIndex) const noexcept { return false; }
  // False: its occupancy cannot be read, and NumPkts() says 0. Constant.
  virtual bool HasOccupancy(LinkIndex) const noexcept { return true; }
};

// Timer Subsystem (section 4.3.3): monotonic time. Intervals and slices are counted on it.
class TimerSubsystem {
 public:
  virtual ~TimerSubsystem() = default;
  virtual Nanoseconds Now() const noexcept = 0;
};

// What tasks tell, and are told, that yield the CPU by themselves to the next in line.
class YieldingTasks {
 public:
  struct Turn {
    TaskIndex task;
    bool begun;  // since the last call; else it goes on
  };

  virtual ~YieldingTasks() = default;
  // Whether `task` yields when it has no work or has taken its budget. The others run only when
  // they are switched to, before all that yield, and until another is switched to.
  virtual bool SupportsYield(TaskIndex task) const noexcept = 0;
  // Whose turn it is, as far as can be seen. None: as before.
  virtual std::optional<Turn> CurrentTurn(CoreIndex core) noexcept = 0;
  // Whether any task has begun a turn that it has not ended. False: all sleep, or the CPU is just
  // passing from one to the next.
  virtual bool AnyInTurn(CoreIndex) noexcept { return true; }
  // Whether `task` has begun a turn that it has not ended.
  virtual bool InTurn(TaskIndex) const noexcept { return false; }
  // Whether `task` polls only rings inside a program whose other threads may yield.
  virtual bool PollsRings(TaskIndex) const noexcept { return false; }
  // All threads of programs in which some poll only rings join the line, or leave it. Then the line
  // is in the order of the tasks, and begins behind `current`, the task that runs. Joining twice
  // makes the line anew.
  virtual void LetRingsJoin(bool, TaskIndex) noexcept {}
  // When `task` began its last two turns, on a clock of the core's tasks. `last` 0: not known.
  struct TurnTimes {
    std::uint64_t last = 0, before = 0;
  };
  virtual TurnTimes LastTurns(TaskIndex) const noexcept { return {}; }
  // Now, on that clock.
  virtual std::uint64_t TurnClock() const noexcept { return 0; }
  // Puts the line into the order of the tasks; it begins with `first`, which has its turn. Where
  // that turn ends meanwhile, one task may come to another place. False: it could not.
  virtual bool PutInOrder(TaskIndex /*first*/) noexcept { return false; }
  // Packets that `task` has taken in turns that are over, from whatever link; wraps.
  virtual std::uint32_t TakenInTurns(TaskIndex) const noexcept { return 0; }
  // Turns that `task` has begun, as CurrentTurn() has seen them.
  virtual std::uint64_t TurnsOf(TaskIndex task) const noexcept = 0;
  // `task` yields when it polls next. No system call.
  virtual void RequestYield(TaskIndex task) noexcept = 0;
  // Until the next call `task` may take this many packets in all its turns. No system call.
  virtual void Grant(TaskIndex task, std::uint32_t packets) noexcept = 0;
  // Packets of a turn after which `task` yields. Also before Start(). No system call.
  virtual void SetBudget(TaskIndex task, std::uint32_t packets) noexcept = 0;
};

// Process Controller (section 4.3.4): which task of a core is running. Calls for different cores
// may come from different threads, those for one core come from one.
class ProcessController {
 public:
  virtual ~ProcessController() = default;
  // Lets `to` run on its core and, on return or soon after, `from` no more (lines 15 and 16 of
  // Algorithm 1 in one call, because one critical system call is enough for both). False: it could
  // not; `from` still runs. Where yielding() is not null and both are in line, `from` goes to the
  // end of the line and the next in line runs, whichever `to` is.
  virtual bool Switch(CoreIndex core, TaskIndex from, TaskIndex to) noexcept = 0;
  // Lets `first` run, and no other task of the core. False: it could not; none of them runs.
  virtual bool Start(CoreIndex core, TaskIndex first) noexcept = 0;

  // Whether Park() can put `task` to sleep. No system call.
  virtual bool CanPark(TaskIndex) noexcept { return false; }
  // `task` sleeps where it polls next, and the CPU is free. A second call within kParkHolds renews
  // that. Only where CanPark() says so. No system call.
  virtual void Park(TaskIndex) noexcept {}
  static constexpr Nanoseconds kParkHolds = 4'000'000;
  static constexpr Nanoseconds kRenewParkEvery = kParkHolds / 5;  // looks come late
  // `task` polls again.
  virtual void Unpark(TaskIndex) noexcept {}

  // Null: no task yields by itself.
  virtual YieldingTasks* yielding() noexcept { return nullptr; }
};

enum class SwitchReason : std::uint8_t {
  kStart,
  kSliceExpired,
  kIngressLow,
  kEgressHigh,
  kSelf,     // the task yielded by itself
  kStill,    // one of several threads of its function, it has moved no packet for a while
  kBetween,  // one that does not yield runs between the turns of others
};
constexpr std::size_t kSwitchReasons = static_cast<std::size_t>(SwitchReason::kBetween) + 1;

struct SwitchRecord {
  Nanoseconds time;
  CoreIndex core;
  TaskIndex from;  // equal to `to` for kStart
  TaskIndex to;
  SwitchReason reason;
  // Packets, when decided; of several links, the sum.
  std::uint32_t from_ingress, from_egress, to_ingress, to_egress;
  Nanoseconds slice;

  bool operator==(const SwitchRecord&) const = default;
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
