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
absl::Status WrongLink(const v1::LinkConfig& config, const std::string& what);

}  // namespace unis
