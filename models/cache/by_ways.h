// One function with the first 1, 2, … ways of the last-level cache to itself.
#pragma once

#include <cstdint>
#include <vector>

#include "models/cache/private_cache.h"
#include "models/cache/recording.h"

namespace unis::cache {

struct Machine {
  Geometry l1, l2, llc;
  // Ways into which devices write packets (Intel's DDIO), besides those of functions. 0: devices
  // write to memory.
  std::uint32_t io_ways = 2;
};

// Of a part of a recording. What the function's port did, which writes an mbuf's first line for
// each packet, is told apart.
struct ByWays {
  std::uint64_t packets = 0;
  std::uint64_t instructions = 0;
  std::uint64_t references = 0;  // loads and stores
  std::uint64_t l1_hits = 0;     // of them
  std::uint64_t l2_hits = 0;
  std::uint64_t llc_references = 0;  // the rest: they hit I/O ways, or own ways, or miss
  std::uint64_t io_hits = 0;
  std::uint64_t first_touches = 0;    // misses of lines that were never used before
  std::vector<std::uint64_t> misses;  // with 1, 2, … ways
  std::vector<std::uint64_t> driver_misses;
  std::vector<std::uint64_t> written_back;  // lines, to memory; those of the driver among them
  std::vector<std::uint64_t> occupancy;     // lines, at the end
  std::uint64_t device_lines = 0;           // lines that the device wrote
  std::uint64_t device_spills = 0;          // of those, to memory: what its ways lost; without, all
};

// Misses of `recording` after its first `warm_up` packets, which fill the caches.
ByWays ProfileByWays(const Recording& recording, const Machine& machine, std::uint64_t warm_up);

}  // namespace unis::cache
