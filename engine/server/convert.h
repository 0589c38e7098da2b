// Between the contract's messages and the plain data of the engine's parts.
#pragma once

#include <absl/status/statusor.h>

#include <string>
#include <vector>

#include "unis/v1/engine.pb.h"
#include "engine/controller/nf_controller.h"
#include "engine/platform/frames.h"
#include "engine/platform/traffic_source.h"
#include "engine/scheduler/scheduler.h"
#include "engine/contract/to_proto.h"

namespace unis {

SchedulerSettings FromProto(const v1::SchedulerSettings& settings);  // lead: 0 where absent
FlowMatch FromProto(const v1::FlowMatch& match);
std::vector<FlowMatch> FromProto(const google::protobuf::RepeatedPtrField<v1::FlowMatch>& matches);
SyntheticTraffic FromProto(const v1::SyntheticTraffic& traffic);
absl::StatusOr<ControllerKind> FromProto(v1::ControllerKind kind);

// One sentence on what is wrong with a deployment, or OK.
absl::Status Validate(const v1::DeployRequest& request);

}  // namespace unis
