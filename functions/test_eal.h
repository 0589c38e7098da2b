// Packet memory for tests and benchmarks that need DPDK's tables: EAL without hugepages, devices or
// files, started once a process.
#pragma once

namespace unis::functions {

// False: EAL did not start, and said why.
bool StartTestEal();

}  // namespace unis::functions
