#include "engine/platform/links/kinds.h"

#include "engine/platform/links/next_hop.h"

namespace unis {

absl::Status WrongLink(const v1::LinkConfig& config, const std::string& what) {
  return absl::InvalidArgumentError("link " + config.name() + " " + what);
}

absl::Status CheckNextMac(const v1::LinkConfig& config, const std::string& next) {
  if (next.empty()) return absl::OkStatus();
  if (!FindLinkKind(config.kind())->engine_has_end(config))
    return WrongLink(config, "says where the engine sends to, which has no end of it");
  if (NextHop::IsOne(next)) return absl::OkStatus();
  return WrongLink(config, "has a next_mac that is no address of one port: six bytes, not all 0");
}

const LinkKind* FindLinkKind(v1::LinkKind kind) {
  switch (kind) {
    case v1::LINK_RING:
      return &RingKind();
    case v1::LINK_MEMIF:
      return &MemifKind();
    case v1::LINK_VETH:
      return &VethKind();
    case v1::LINK_BRIDGE:
      return &BridgeKind();
    case v1::LINK_XDP:
      return &XdpKind();
    case v1::LINK_OVS:
      return &OvsKind();
    case v1::LINK_TAP:
      return &TapKind();
    case v1::LINK_VHOST:
      return &VhostKind();
    case v1::LINK_SRIOV:
      return &SriovKind();
    default:
      return nullptr;
  }
}

}  // namespace unis
