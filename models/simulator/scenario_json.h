// Scenario in, SimResult out, as protobuf JSON: what unis-sim does, as a function.
#pragma once

#include <absl/status/statusor.h>

#include <string>

#include "models/simulator/scenario_proto.h"

namespace unis::sim {

absl::StatusOr<Scenario> ScenarioFromJson(const std::string& json);

std::string ResultToJson(const Scenario& scenario, const Result& result);

}  // namespace unis::sim
