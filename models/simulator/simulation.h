// A scenario on virtual time: the same scheduler object as on the machine, results equal from run
// to run.
#pragma once

#include "models/simulator/scenario.h"

namespace unis::sim {

// `scenario` must be sound (see ScenarioFromProto); throws std::logic_error if packets get lost.
Result Simulate(const Scenario& scenario);

}  // namespace unis::sim
