// The engine's own DPDK ports stay its own. DPDK has each secondary process of a group attach every
// virtual device of the primary when it starts; a function has no use for them, and a memif that
// two processes drive breaks.
#pragma once

#include <absl/status/status.h>

namespace unis {

// To be called once, by the primary process, before its first secondary starts.
absl::Status KeepPortsFromSecondaries();

}  // namespace unis
