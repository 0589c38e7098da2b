// The contract (proto/unis/v1/simulator.proto) and the simulator's plain data, one into the other.
// Everything that a user can get wrong in a scenario is found here.
#pragma once

#include <absl/status/statusor.h>

#include "models/simulator/scenario.h"
#include "unis/v1/simulator.pb.h"

namespace unis::sim {

// Holds the scenario against the limits of the contract and against itself. Fields that are 0 and
// that a scenario cannot do without take their defaults: those of MachineSpec. Without a scheduler
// it is as SchedulerSettings stands, lazy as in the engine; without `lead_ns` the lead is as long
// as a switch takes. The message of an error is one sentence: the field, what is wrong with it,
// what would be right.
absl::StatusOr<Scenario> ScenarioFromProto(const v1::Scenario& proto);

v1::SimResult ResultToProto(const Scenario& scenario, const Result& result);

}  // namespace unis::sim
