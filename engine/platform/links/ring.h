// A link that is a ring of the engine's DPDK group: one direction, zero copy.
#pragma once

#include <absl/status/statusor.h>
#include <rte_ring.h>

#include <cstdint>
#include <memory>
#include <string>

#include "engine/monitor/link.h"

namespace unis {

class Ring {
 public:
  // Single producer, single consumer. Of `slots`, a power of two, DPDK can fill all but one.
  static absl::StatusOr<Ring> Create(const std::string& name, std::uint32_t slots);

  rte_ring* get() const noexcept { return ring_.get(); }
  const Link& link() const { return link_; }
  // Frees the packets that wait; nobody else takes from the ring. Before it goes while the packet
  // memory stays.
  void Empty() noexcept;

 private:
  struct Deleter {
    void operator()(rte_ring* ring) const noexcept { rte_ring_free(ring); }
  };
  explicit Ring(rte_ring* ring) : ring_(ring), link_(Link::OfRing(*ring)) {}

  std::unique_ptr<rte_ring, Deleter> ring_;
  Link link_;  // made while no function knows the ring: later it may say anything
};

}  // namespace unis
