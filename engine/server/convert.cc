#include "engine/server/convert.h"

#include <fmt/format.h>
#include <rte_config.h>

#include <bit>
#include <set>

namespace unis {

SchedulerSettings FromProto(const v1::SchedulerSettings& settings) {
  SchedulerSettings result;
  result.gamma = settings.gamma();
  result.batch = settings.batch();
  result.theta_min = settings.theta_min();
  if (settings.has_theta_max()) result.theta_max = settings.theta_max();
  result.interval = static_cast<Nanoseconds>(settings.interval_ns());
  result.occupancy = settings.occupancy();
  result.lead = static_cast<Nanoseconds>(settings.lead_ns());
  result.max_wait = static_cast<Nanoseconds>(settings.max_wait_ns());
  return result;
}

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

SyntheticTraffic FromProto(const v1::SyntheticTraffic& traffic) {
  SyntheticTraffic result;
  result.size = traffic.size();
  if (traffic.mix() == v1::SIZE_MIX_IMIX) result.mix = SizeMix::kImix;
  if (traffic.mix() == v1::SIZE_MIX_DATACENTER) result.mix = SizeMix::kDatacenter;
  if (traffic.flows() != 0) result.flows = traffic.flows();
  return result;
}

absl::StatusOr<ControllerKind> FromProto(v1::ControllerKind kind) {
  switch (kind) {
    case v1::CONTROLLER_PRIORITY:
      return ControllerKind::kPriority;
    case v1::CONTROLLER_SIGNAL:
      return ControllerKind::kSignal;
    case v1::CONTROLLER_CGROUP:
      return ControllerKind::kCgroup;
    default:
      return absl::InvalidArgumentError(
          "unknown process controller; choose priority, signal or cgroup");
  }
}

namespace {

// What FromProto() would cut off.
absl::Status Validate(const v1::FlowMatch& match, const std::string& chain) {
  const auto wrong = [&chain](const char* what, std::uint32_t value, std::uint32_t most) {
    return absl::InvalidArgumentError(
        fmt::format("{} {} in a match of chain {} is above {}", what, value, chain, most));
  };
  for (const std::uint32_t length : {match.src().length(), match.dst().length()})
    if (length > 32) return wrong("prefix length", length, 32);
  for (const std::uint32_t port : {match.src_port(), match.dst_port()})
    if (port > 65535) return wrong("port", port, 65535);
  if (match.protocol() > 255) return wrong("protocol", match.protocol(), 255);
  return absl::OkStatus();
}

absl::Status Validate(const v1::ChainConfig& chain) {
  for (const v1::FlowMatch& match : chain.match())
    if (auto status = Validate(match, chain.name()); !status.ok()) return status;
  if (chain.nfs().empty()) {
    return absl::InvalidArgumentError(fmt::format("chain {} has no function", chain.name()));
  }
  if (!std::has_single_bit(chain.ring_size()) || chain.ring_size() < 2) {
    return absl::InvalidArgumentError(fmt::format("ring size {} of chain {} is not a power of two",
                                                  chain.ring_size(), chain.name()));
  }
  return absl::OkStatus();
}

absl::Status Validate(const v1::TrafficConfig& traffic) {
  if (traffic.source_case() == v1::TrafficConfig::SOURCE_NOT_SET) {
    return absl::InvalidArgumentError("the deployment names no traffic source");
  }
  if (!(traffic.pps() >= 0) || !(traffic.bps() >= 0) || (traffic.pps() > 0 && traffic.bps() > 0)) {
    return absl::InvalidArgumentError("give a rate above zero, in pps or in bps, not both");
  }
  const bool fixed = traffic.has_synthetic() && traffic.synthetic().mix() == v1::SIZE_MIX_FIXED;
  if (fixed && (traffic.synthetic().size() < kMinFrame || traffic.synthetic().size() > kMaxFrame)) {
    return absl::InvalidArgumentError(fmt::format("frame size {} is not within {} to {} bytes",
                                                  traffic.synthetic().size(), kMinFrame,
                                                  kMaxFrame));
  }
  return absl::OkStatus();
}

absl::Status Validate(const v1::SchedulerSettings& settings) {
  if (!(settings.gamma() > 0 && settings.gamma() <= 1)) {
    return absl::InvalidArgumentError("gamma must be above 0 and at most 1");
  }
  if (settings.interval_ns() < 1000)
    return absl::InvalidArgumentError("interval T must be 1 µs or more");
  return absl::OkStatus();
}

}  // namespace

absl::Status Validate(const v1::DeployRequest& request) {
  if (request.chains().empty()) return absl::InvalidArgumentError("the deployment has no chain");
  std::set<std::string> names;
  int nfs = 0;
  for (const auto& chain : request.chains()) {
    if (auto status = Validate(chain); !status.ok()) return status;
    for (const auto& nf : chain.nfs()) {
      ++nfs;
      if (!names.insert(nf.name()).second) {
        return absl::InvalidArgumentError(fmt::format("two functions are called {}", nf.name()));
      }
    }
  }
  if (nfs >= RTE_MAX_ETHPORTS) {
    return absl::InvalidArgumentError(
        fmt::format("{} functions are too many: this DPDK allows {} ports in a group", nfs,
                    RTE_MAX_ETHPORTS - 1));
  }
  if (auto status = Validate(request.traffic()); !status.ok()) return status;
  return Validate(request.scheduler());
}

}  // namespace unis
