#include "engine/run/convert.h"

#include <fmt/format.h>
#include <sched.h>

#include "engine/platform/packet_memory.h"

namespace unis {

static_assert(kBatch == kBurst, "the scheduler counts in the bursts that the platform carries");

FlowMatch FromProto(const v1::FlowMatch& match) {
  FlowMatch result;
  if (match.has_src()) result.src = Prefix{match.src().address(), match.src().length()};
  if (match.has_dst()) result.dst = Prefix{match.dst().address(), match.dst().length()};
  if (match.has_src_port()) result.src_port = static_cast<std::uint16_t>(match.src_port());
  if (match.has_dst_port()) result.dst_port = static_cast<std::uint16_t>(match.dst_port());
  if (match.has_protocol()) result.protocol = static_cast<std::uint8_t>(match.protocol());
  return result;
}

std::vector<FlowMatch> FromProto(const google::protobuf::RepeatedPtrField<v1::FlowMatch>& matches) {
  std::vector<FlowMatch> result;
  for (const auto& match : matches) result.push_back(FromProto(match));
  return result;
}

Rate RateOf(const v1::TrafficConfig& traffic) {
  const bool poisson = traffic.arrivals() == v1::ARRIVALS_POISSON;
  return {.pps = traffic.pps(),
          .bps = traffic.bps(),
          .arrivals = poisson ? Arrivals::kPoisson : Arrivals::kConstant};
}

std::vector<PlatformPort> PortsOf(const v1::TrafficConfig& traffic) {
  constexpr PortQueues kUnused{.rx = PortQueues::kLeast, .tx = PortQueues::kLeast};
  std::vector<PlatformPort> ports;
  if (traffic.has_port()) {
    PlatformPort& port = ports.emplace_back(traffic.port().device(), kUnused);
    port.is_source = true;
    port.queues.rx = traffic.port().has_descriptors()
                         ? static_cast<std::uint16_t>(traffic.port().descriptors())
                         : PortQueues::kDefault;
  }
  if (traffic.sink_device().empty()) return ports;
  if (ports.empty() || ports.front().device != traffic.sink_device())
    ports.emplace_back(traffic.sink_device(), kUnused);
  PlatformPort& port = ports.back();
  port.is_sink = true;
  port.queues.tx = traffic.has_sink_descriptors()
                       ? static_cast<std::uint16_t>(traffic.sink_descriptors())
                       : PortQueues::kDefault;
  return ports;
}

SyntheticTraffic FromProto(const v1::SyntheticTraffic& traffic) {
  SyntheticTraffic result;
  result.size = traffic.size();
  if (traffic.mix() == v1::SIZE_MIX_IMIX) result.mix = SizeMix::kImix;
  if (traffic.mix() == v1::SIZE_MIX_DATACENTER) result.mix = SizeMix::kDatacenter;
  if (traffic.flows() != 0) result.flows = traffic.flows();
  return result;
}

absl::StatusOr<PolicyTraits> TraitsOf(v1::Policy policy) {
  const PolicyTraits* traits = TraitsOf(static_cast<Policy>(policy));
  if (traits != nullptr) return *traits;
  return absl::InvalidArgumentError("unknown policy");
}

KernelPolicy KernelPolicyOf(KernelClass kernel) {
  switch (kernel) {
    case KernelClass::kBatch:
      return {SCHED_BATCH, 0};
    case KernelClass::kIdle:
      return {SCHED_IDLE, 0};
    case KernelClass::kFifo:
      return {SCHED_FIFO, 1};
    case KernelClass::kRoundRobin:
      return {SCHED_RR, 1};
    case KernelClass::kFair:
      break;
  }
  return {SCHED_OTHER, 0};
}

KernelWish FromProto(const v1::KernelScheduling& wish) {
  KernelWish result;
  if (const auto traits = TraitsOf(wish.policy()); traits.ok()) result.kernel = traits->kernel;
  result.priority = static_cast<int>(wish.priority());
  if (wish.has_nice()) result.nice = wish.nice();
  result.slice = std::chrono::nanoseconds(wish.slice_ns());
  return result;
}

bool NeedsFairSlices(const v1::DeployRequest& config) {
  return config.has_fair_slice_ns() ||
         std::ranges::any_of(config.functions(), [](const v1::FunctionConfig& function) {
           return function.kernel().has_slice_ns();
         });
}

absl::Status Validate(const v1::KernelScheduling& wish) {
  if (wish.policy() == v1::POLICY_UNSPECIFIED) return absl::OkStatus();
  const auto traits = TraitsOf(wish.policy());
  if (!traits.ok()) return traits.status();
  if (traits->engine_decides() || traits->functions_yield)
    return absl::InvalidArgumentError(
        "the kernel has no such policy; it has rr, fifo, other, batch and idle");
  return absl::OkStatus();
}

absl::Status Validate(const v1::TrafficConfig& traffic) {
  if (traffic.source_case() == v1::TrafficConfig::SOURCE_NOT_SET) {
    return absl::InvalidArgumentError("the deployment names no traffic source");
  }
  const bool stated = traffic.pps() > 0 || traffic.bps() > 0 || !traffic.sink_device().empty() ||
                      traffic.arrivals() != v1::ARRIVALS_UNSPECIFIED;
  if (traffic.has_wire() && stated)
    return absl::InvalidArgumentError(
        "what comes over a wire comes and goes by itself; give no rate, arrivals or sink");
  if (traffic.pps() > 0 && traffic.bps() > 0)
    return absl::InvalidArgumentError("give a rate in pps or in bps, not both");
  if (traffic.has_port() && (traffic.pps() > 0 || traffic.bps() > 0))
    return absl::InvalidArgumentError("the packets of a port come at their own rate; give none");
  if (traffic.has_port() && traffic.arrivals() != v1::ARRIVALS_UNSPECIFIED)
    return absl::InvalidArgumentError(
        "the packets of a port come when they come; give no arrivals");
  if (traffic.has_sink_descriptors() && traffic.sink_device().empty())
    return absl::InvalidArgumentError("a sink that is no port has no descriptors; leave them out");
  if (traffic.arrivals() == v1::ARRIVALS_POISSON && traffic.pps() <= 0 && traffic.bps() <= 0)
    return absl::InvalidArgumentError(
        "without a rate packets are sent whenever there is room: give one with arrivals poisson");
  const bool fixed = traffic.has_synthetic() && traffic.synthetic().mix() == v1::SIZE_MIX_FIXED;
  if (fixed && (traffic.synthetic().size() < kMinFrame || traffic.synthetic().size() > kMaxFrame)) {
    return absl::InvalidArgumentError(fmt::format("frame size {} is not within {} to {} bytes",
                                                  traffic.synthetic().size(), kMinFrame,
                                                  kMaxFrame));
  }
  return absl::OkStatus();
}

}  // namespace unis
