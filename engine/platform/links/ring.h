// A link that is a ring of the DPDK group that the engine is of: one direction, zero copy.
#pragma once

#include <absl/status/statusor.h>
#include <rte_ring.h>

#include <cstdint>
#include <memory>
#include <string>

#include "engine/monitor/occupancy.h"

namespace unis {

class Ring {
 public:
  // Single producer, single consumer. Of `slots`, a power of two, DPDK can fill all but one.
  static absl::StatusOr<Ring> Create(const std::string& name, std::uint32_t slots);
  // One that another process of the group has made, and that stays when this goes.
  static absl::StatusOr<Ring> Lookup(const std::string& name);

  rte_ring* get() const noexcept { return ring_.get(); }
  const Occupancy& occupancy() const { return occupancy_; }
  // Frees the packets that wait, and says how many; nobody else takes from the ring. Before it goes
  // while the packet memory stays.
  std::uint32_t Empty() noexcept;
  // A process that dies in the middle of a burst leaves the ring half-way. Once nobody takes, or
  // nobody puts: what had not wholly been taken waits as before, what had not wholly been put is
  // not there.
  void ForgetConsumer() noexcept { ring_->cons.head = ring_->cons.tail; }
  void ForgetProducer() noexcept { ring_->prod.head = ring_->prod.tail; }
  // Packets that were taken and put so far, modulo 2^32.
  std::uint32_t taken() const noexcept { return Load(ring_->cons.tail); }
  std::uint32_t put() const noexcept { return Load(ring_->prod.tail); }

 private:
  struct Deleter {
    bool ours = true;
    void operator()(rte_ring* ring) const noexcept {
      if (ours) rte_ring_free(ring);
    }
  };
  static std::uint32_t Load(const volatile std::uint32_t& position) noexcept {
    return __atomic_load_n(&position, __ATOMIC_ACQUIRE);
  }
  Ring(rte_ring* ring, Deleter deleter)
      : ring_(ring, deleter),
        occupancy_(Occupancy::Filled({.ahead = const_cast<std::uint32_t*>(&ring->prod.tail),
                                      .behind = const_cast<std::uint32_t*>(&ring->cons.tail)},
                                     rte_ring_get_capacity(ring))) {}

  std::unique_ptr<rte_ring, Deleter> ring_;
  Occupancy
      occupancy_;  // of our own ring made while no function knows it: later it may say anything
};

}  // namespace unis
