#include "engine/platform/links/kinds.h"

namespace unis {

absl::Status WrongLink(const v1::LinkConfig& config, const std::string& what) {
  return absl::InvalidArgumentError("link " + config.name() + " " + what);
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
    default:
      return nullptr;
  }
}

}  // namespace unis
