// The kinds of links, each in a file of its own. To add one: a line here and one in kinds.cc.
#pragma once

#include "engine/platform/links/link.h"

namespace unis {

const LinkKind& RingKind();
const LinkKind& MemifKind();
const LinkKind& VethKind();
const LinkKind& BridgeKind();
const LinkKind& XdpKind();
const LinkKind& OvsKind();
const LinkKind& TapKind();
const LinkKind& VhostKind();
const LinkKind& SriovKind();

absl::Status WrongLink(const v1::LinkConfig& config, const std::string& what);
// Whether the engine's end can send to that address; empty: frames stay as they are.
absl::Status CheckNextMac(const v1::LinkConfig& config, const std::string& next);

}  // namespace unis
