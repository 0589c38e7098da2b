// The contract (proto/unis/v1/engine.proto) and the simulator's plain data, one into the other.
// Everything that a user can get wrong in a scenario is found here.
#pragma once

#include <absl/status/statusor.h>

#include "unis/v1/engine.pb.h"
#include "engine/simulator/scenario.h"

namespace unis::sim {

// Fields that are 0 and that a scenario cannot do without take their defaults: those of MachineSpec
// and of SchedulerSettings. Without `lead_ns` the scheduler's lead is as long as a switch takes.
// The message of an error is one sentence: the field, what is wrong with it, what would be right.
absl::StatusOr<Scenario> ScenarioFromProto(const v1::Scenario& proto);

v1::SimResult ResultToProto(const Scenario& scenario, const Result& result);

}  // namespace unis::sim
