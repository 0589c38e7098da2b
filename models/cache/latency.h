// What a load takes that waits for the one before: a chase of pointers in random order.
#pragma once

#include <cstdint>

namespace unis::cache {

// Nanoseconds of one load in so many bytes, the least of `rounds`: others only ever add. In huge
// pages where the kernel gives some, so that it is the cache's latency and not the address
// translation's.
double LoadLatencyNs(std::uint64_t bytes, int rounds = 5);

}  // namespace unis::cache
