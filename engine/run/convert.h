// From the contract's messages, whose limits were checked, to the plain data of the engine's parts.
#pragma once

#include <absl/status/statusor.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "engine/contract/from_proto.h"
#include "engine/platform/arrival_schedule.h"
#include "engine/platform/eth_port.h"
#include "engine/platform/frames.h"
#include "engine/scheduler/policy.h"
#include "engine/scheduler/settings.h"
#include "unis/v1/engine.pb.h"

namespace unis {

FlowMatch FromProto(const v1::FlowMatch& match);
std::vector<FlowMatch> FromProto(const google::protobuf::RepeatedPtrField<v1::FlowMatch>& matches);
SyntheticTraffic FromProto(const v1::SyntheticTraffic& traffic);
Rate RateOf(const v1::TrafficConfig& traffic);

// A port that the platform opens as source, as sink or as both.
struct PlatformPort {
  std::string device;
  PortQueues queues;  // of a way that is not used, as short as can be
  bool is_source = false, is_sink = false;
};
std::vector<PlatformPort> PortsOf(const v1::TrafficConfig& traffic);

absl::StatusOr<PolicyTraits> TraitsOf(v1::Policy policy);

// The kernel's own words for a class: SCHED_FIFO and a priority of 1, say.
struct KernelPolicy {
  int policy;
  int priority;  // 0 where the class has none
};
KernelPolicy KernelPolicyOf(KernelClass kernel);

// How the kernel runs a task where the kernel decides. Absent: as policy and run say.
struct KernelWish {
  std::optional<KernelClass> kernel = {};
  int priority = 0;  // of a real-time class; 0: the lowest
  std::optional<int> nice = {};
  std::chrono::nanoseconds slice{};  // of a fair class; 0: absent
  bool operator==(const KernelWish&) const = default;
};
KernelWish FromProto(const v1::KernelScheduling& wish);
// Whether the kernel must know time slices of threads.
bool NeedsFairSlices(const v1::DeployRequest& config);

// What limits of single fields do not say: one sentence, or OK.
absl::Status Validate(const v1::TrafficConfig& traffic);
absl::Status Validate(const v1::KernelScheduling& wish);

}  // namespace unis
