// Which service lcore runs which part of the engine.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace unis {

struct Placement {
  unsigned source;
  unsigned sink;  // and the bridges
  unsigned sampler;
  std::vector<unsigned> schedulers;  // each for some of the cores
};

// With one lcore all take turns. With more the source has the first for itself, and the sink the
// second, which it shares with the scheduler only where there is no third; those beyond are
// schedulers too, but no more than there are cores of functions.
inline Placement PlaceComponents(const std::vector<unsigned>& lcores, std::size_t cores) {
  constexpr std::size_t kPackets = 2;  // lcores that source and sink have for themselves
  Placement placement{.source = lcores.front(),
                      .sink = lcores[lcores.size() > 1 ? 1 : 0],
                      .sampler = lcores.back(),
                      .schedulers = {}};
  const std::size_t spare = lcores.size() > kPackets ? lcores.size() - kPackets : 1;
  for (std::size_t i = 0; i < std::clamp<std::size_t>(cores, 1, spare); ++i)
    placement.schedulers.push_back(lcores[lcores.size() - 1 - i]);
  return placement;
}

}  // namespace unis
