// A link that is a ring of the DPDK group that the engine is of: one direction, zero copy.
#pragma once

#include <absl/status/statusor.h>
#include <rte_ring.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "engine/base/sanitizer.h"
#include "engine/monitor/occupancy.h"
#include "engine/platform/links/link.h"

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

 private:
  struct Deleter {
    bool ours = true;
    void operator()(rte_ring* ring) const noexcept {
      if (ours) rte_ring_free(ring);
    }
  };
  Ring(rte_ring* ring, Deleter deleter)
      : ring_(ring, deleter),
        occupancy_(Occupancy::Filled({.ahead = const_cast<std::uint32_t*>(&ring->prod.tail),
                                      .behind = const_cast<std::uint32_t*>(&ring->cons.tail)},
                                     rte_ring_get_capacity(ring))) {}

  std::unique_ptr<rte_ring, Deleter> ring_;
  Occupancy
      occupancy_;  // of our own ring made while no function knows it: later it may say anything
};

// The engine at a ring. The ring outlives its end.
class RingEnd final : public LinkEnd {
 public:
  explicit RingEnd(rte_ring* ring) : ring_(ring), capacity_(rte_ring_get_capacity(ring)) {}
  rte_ring* ring() const noexcept { return ring_; }

  std::uint16_t Send(rte_mbuf** packets, std::uint16_t count) noexcept override {
    Released(&kOtherProcesses);
    return static_cast<std::uint16_t>(
        rte_ring_sp_enqueue_burst(ring_, reinterpret_cast<void**>(packets), count, nullptr));
  }
  std::uint16_t Receive(rte_mbuf** packets, std::uint16_t count) noexcept override {
    const unsigned received =
        rte_ring_sc_dequeue_burst(ring_, reinterpret_cast<void**>(packets), count, nullptr);
    Acquired(&kOtherProcesses);
    return static_cast<std::uint16_t>(received);
  }
  std::uint32_t Room() noexcept override { return rte_ring_free_count(ring_); }
  std::uint32_t capacity() const noexcept override { return capacity_; }
  bool carries_mbufs() const noexcept override { return true; }

 private:
  rte_ring* ring_;
  std::uint32_t capacity_;
};

class RingLink final : public Link {
 public:
  RingLink(Ring ring, bool foreign) : ring_(std::move(ring)) {
    if (!foreign) end_.emplace(ring_.get());
  }
  rte_ring* ring() const noexcept { return ring_.get(); }

  LinkEnd* end() noexcept override { return end_ ? &*end_ : nullptr; }
  Occupancy occupancy(unsigned) const override { return ring_.occupancy(); }
  std::uint32_t Empty() noexcept override { return end_ ? ring_.Empty() : 0; }
  void ReclaimReceiver() noexcept override { ring()->cons.head = ring()->cons.tail; }
  void ReclaimSender() noexcept override { ring()->prod.head = ring()->prod.tail; }

 private:
  Ring ring_;
  std::optional<RingEnd> end_;
};

}  // namespace unis
