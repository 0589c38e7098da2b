// The settings of the scheduler. The defaults are the algorithm as printed.
#pragma once

#include <cstdint>
#include <optional>

#include "engine/scheduler/components.h"

namespace unis {

inline constexpr std::uint32_t kBatch = 64;       // packets a burst (section 4.5)
inline constexpr std::uint32_t kUsualBurst = 32;  // packets a burst of DPDK's examples

struct SchedulerSettings {
  double gamma = 0.75;                     // γ (section 4.5)
  std::uint32_t theta_min = kBatch - 8;    // θmin = batch − 8 packets (section 4.5)
  std::optional<std::uint32_t> theta_max;  // θmax packets; absent: γ · capacity of the egress
  Nanoseconds interval = 1'000;            // T (section 4.5.3)
  bool occupancy = true;                   // interface occupancy based optimisation (section 4.4.2)

  // What follows is not in the paper.

  // From the decision until the current task stops. The switch begins that much before the current
  // task runs out of work, room or time. `lead_us` in chain files.
  Nanoseconds latency_compensation = 0;
  // From the decision until the next task runs, when its slice begins; absent: as the compensation.
  // With `online_cost` the scheduler starts from this value and measures (switch_latency.h).
  std::optional<Nanoseconds> switch_latency;
  // A task with a packet in front that has neither run nor been seen without packets for so long
  // counts as having work. 0: as printed; 1 ms on cores that have a task with several links.
  Nanoseconds max_wait = 0;
  // After a look the scheduler waits for a quarter of the time that the current task's work takes.
  // False: it looks every T.
  bool lazy = false;
  // Packets that a task which yields by itself takes in a turn; 0: as handover.h says.
  std::uint32_t budget = 0;
  // The scheduler measures what packets cost while tasks run (cost.h); the given costs are where it
  // starts. With `occupancy` a slice goes on until the task has taken γ · capacity packets.
  bool online_cost = false;
  // Tasks without packets are parked after so long (parking.h). 0: never, they spin.
  Nanoseconds idle_after = 0;
  // The longest that a packet waits for tasks that sleep between packets (short_rests.h). 0: tasks
  // never sleep so.
  Nanoseconds max_delay = 0;
  // The platform's CPU may nap so long between two looks at tasks that yield by themselves. 0: it
  // may not while a task runs.
  Nanoseconds platform_nap = 0;
  // Threads that poll only rings inside their program have turns this long in the line. 0: they are
  // not in line; absent: as passes more packets (line_search.h).
  std::optional<Nanoseconds> ring_turn;
  // Tasks that yield by themselves are put back into the order of the chains where they have left
  // it (line_order.h).
  bool keep_order = false;
  // Slices are so many times as long as costs and γ say: what wrong costs do (section 5.7).
  double slice_factor = 1;

  bool operator==(const SchedulerSettings&) const = default;
};

}  // namespace unis
