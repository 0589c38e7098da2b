// Interface Monitor (section 4.5.2) for links that are rings of our own DPDK group: occupancy is
// read from the ring's head and tail. Monitors for other links (memif, kernel queues) stand beside.
#pragma once

#include <rte_ring.h>

#include <vector>

#include "engine/scheduler/components.h"

namespace unis {

class RingMonitor final : public InterfaceMonitor {
 public:
  // A LinkIndex is a position in `rings`, which must outlive the monitor.
  explicit RingMonitor(std::vector<const rte_ring*> rings) : rings_(std::move(rings)) {}

  std::uint32_t NumPkts(LinkIndex link) const noexcept override {
    return rte_ring_count(rings_[link]);
  }
  std::uint32_t PktCap(LinkIndex link) const noexcept override {
    return rte_ring_get_capacity(rings_[link]);
  }

 private:
  std::vector<const rte_ring*> rings_;
};

}  // namespace unis
