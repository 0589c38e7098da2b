// What the engine and the simulator read alike from the contract's messages, whose limits were
// checked.
#pragma once

#include <cmath>

#include "engine/scheduler/settings.h"
#include "unis/v1/common.pb.h"

namespace unis {

// A latency compensation (`lead_ns`) that is absent is 0, until CompensateBy.
inline SchedulerSettings FromProto(const v1::SchedulerSettings& proto) {
  SchedulerSettings settings;
  settings.gamma = proto.gamma();
  settings.theta_min = proto.theta_min();
  if (proto.has_theta_max()) settings.theta_max = proto.theta_max();
  settings.interval = static_cast<Nanoseconds>(proto.interval_ns());
  settings.occupancy = proto.occupancy();
  settings.latency_compensation = static_cast<Nanoseconds>(proto.lead_ns());
  settings.max_wait = static_cast<Nanoseconds>(proto.max_wait_ns());
  settings.online_cost = proto.online_cost();
  settings.idle_after = static_cast<Nanoseconds>(proto.idle_ns());
  settings.max_delay = static_cast<Nanoseconds>(proto.max_delay_ns());
  settings.platform_nap = static_cast<Nanoseconds>(proto.platform_nap_ns());
  settings.budget = proto.quota();
  if (proto.has_ring_turn_ns()) settings.ring_turn = static_cast<Nanoseconds>(proto.ring_turn_ns());
  settings.keep_order = proto.keep_order();
  if (proto.has_slice_factor()) settings.slice_factor = proto.slice_factor();
  return settings;
}

// What a switch was measured to take, from the decision, ns.
struct SwitchCosts {
  double until_stopped = 0;  // of the current task
  double until_running = 0;  // of the next one
};

// Where the compensation is absent, a switch begins as early as it must: the current task stops
// when its work is done.
inline void CompensateBy(const SwitchCosts& costs, const v1::SchedulerSettings& proto,
                         SchedulerSettings& settings) {
  if (proto.has_lead_ns()) return;
  settings.latency_compensation = std::llround(costs.until_stopped);
  settings.switch_latency = std::llround(costs.until_running);
}

}  // namespace unis
