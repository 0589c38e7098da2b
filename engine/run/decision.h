// Who decides which task runs.
#pragma once

#include <cstdint>
#include <optional>

#include "engine/scheduler/settings.h"
#include "unis/v1/engine.pb.h"

namespace unis {

struct Decision {
  v1::Policy policy;
  v1::ControllerKind controller;  // where the engine decides
  std::uint32_t yield_every = 0;  // bursts, for every function; 0: each has its own
  // Absent: those of the run. With settings of its own what is learned of costs goes with it, when
  // the next decision comes.
  std::optional<SchedulerSettings> settings = {};
  bool operator==(const Decision&) const = default;
};

}  // namespace unis
