// Functions on cores of their own that share a last-level cache, with and without a partition of
// it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "models/cache/by_ways.h"
#include "models/cache/recording.h"

namespace unis::cache {

struct Neighbour {
  const Recording* recording;  // played again from behind its warm-up when it has ended
  double mpps;                 // packets per microsecond, above 0
  std::uint64_t mask;  // ways that it may fill; at least one, and none that the cache has not
  std::uint64_t warm_up = 0;  // packets that fill caches and its tables, fewer than it has
};

// As of ByWays, with the ways of the mask.
struct NeighbourCounts {
  std::uint64_t packets = 0;
  std::uint64_t instructions = 0;
  std::uint64_t llc_references = 0;
  std::uint64_t misses = 0;
  std::uint64_t driver_misses = 0;
  std::uint64_t written_back = 0;   // of its lines, whoever pushed them out, but for the device's:
  std::uint64_t device_spills = 0;  // those that it brought in, or wrote to memory at once
  std::uint64_t occupancy = 0;      // lines that its core brought in, at the end
};

// Plays them side by side, burst by burst at their rates, until each has passed its
// warm-up, and then until each has passed `packets` more; those are counted. The device writes into
// the `io_ways` highest ways, at most those that the cache has, which masks may have too.
std::vector<NeighbourCounts> PlayNeighbours(std::span<const Neighbour> neighbours,
                                            const Machine& machine, std::uint64_t packets);

}  // namespace unis::cache
