// A link between functions as a value: what it is, how much fits, and how its occupancy is read.
//
// Positions and packets lie in memory that functions can write. The capacity is therefore kept from
// when the link was made and bounds every reading: whatever stands there, a reading is a number
// from 0 to the capacity.
#pragma once

#include <rte_ring.h>

#include <algorithm>
#include <cstdint>

#include "engine/scheduler/components.h"

namespace unis {

enum class LinkKind : std::uint8_t { kRing, kMemif };

// The occupancy of a link that has no positions in memory, as last sampled by somebody. Called from
// the scheduling tick: no lock, no allocation, no system call.
class SampledOccupancy {
 public:
  virtual ~SampledOccupancy() = default;
  virtual std::uint32_t Packets() const noexcept = 0;
};

// What is counted in a memif's ring, whose positions have 16 bits. The sender moves the one, the
// receiver the other; a receiver that is the client moves it by giving back free slots.
struct MemifPositions {
  const std::uint16_t* head;
  const std::uint16_t* tail;
};

class Link {
 public:
  // Nobody can tell how full it is: Packets() is 0, readable() false.
  static Link Unreadable(LinkKind kind, std::uint32_t capacity) { return {kind, capacity}; }
  static Link OfRing(const rte_ring& ring) {
    Link link(LinkKind::kRing, rte_ring_get_capacity(&ring));
    link.reading_ = Reading::kRing;
    link.ahead_ = const_cast<const std::uint32_t*>(&ring.prod.tail);
    link.behind_ = const_cast<const std::uint32_t*>(&ring.cons.tail);
    return link;
  }
  // Client to server: the sender moves the head, the receiver the tail.
  static Link OfMemifToServer(MemifPositions at, std::uint32_t slots) {
    return OfMemif(Reading::kFilledSlots, at, slots);
  }
  // Server to client: the client moves the head by offering free slots, the server the tail by
  // using them. Before the client's first poll it offers none, and the link reads as full: to the
  // server it is.
  static Link OfMemifToClient(MemifPositions at, std::uint32_t slots) {
    return OfMemif(Reading::kFreeSlots, at, slots);
  }
  // `sampler` must outlive the link; a reading is at most `age` old.
  static Link Sampled(LinkKind kind, std::uint32_t capacity, const SampledOccupancy& sampler,
                      Nanoseconds age) {
    Link link(kind, capacity);
    link.reading_ = Reading::kSampled;
    link.ahead_ = &sampler;
    link.freshness_ = age;
    return link;
  }

  LinkKind kind() const noexcept { return kind_; }
  std::uint32_t capacity() const noexcept { return capacity_; }  // packets
  bool readable() const noexcept { return reading_ != Reading::kNone; }
  Nanoseconds freshness() const noexcept { return freshness_; }  // age of a reading, at most

  // Packets under way, from 0 to the capacity. A packet in several buffers of a memif counts as
  // many.
  std::uint32_t Packets() const noexcept {
    switch (reading_) {
      case Reading::kRing:
        return std::min(Apart<std::uint32_t>(), capacity_);
      case Reading::kFilledSlots:
        return std::min(Apart<std::uint16_t>(), capacity_);
      case Reading::kFreeSlots:
        return capacity_ - std::min(Apart<std::uint16_t>(), capacity_);
      case Reading::kSampled:
        return std::min(static_cast<const SampledOccupancy*>(ahead_)->Packets(), capacity_);
      case Reading::kNone:
        break;
    }
    return 0;
  }

 private:
  enum class Reading : std::uint8_t { kNone, kRing, kFilledSlots, kFreeSlots, kSampled };

  Link(LinkKind kind, std::uint32_t capacity) : capacity_(capacity), kind_(kind) {}
  static Link OfMemif(Reading reading, MemifPositions at, std::uint32_t slots) {
    Link link(LinkKind::kMemif, slots);
    link.reading_ = reading;
    link.ahead_ = at.head;
    link.behind_ = at.tail;
    return link;
  }
  // The one that follows is read first: it cannot have overtaken the other then, and a number that
  // grew meanwhile is at most too high.
  template <typename Position>
  std::uint32_t Apart() const noexcept {
    const Position behind =
        __atomic_load_n(static_cast<const Position*>(behind_), __ATOMIC_ACQUIRE);
    const Position ahead = __atomic_load_n(static_cast<const Position*>(ahead_), __ATOMIC_RELAXED);
    return static_cast<Position>(ahead - behind);
  }

  const void* ahead_ = nullptr;  // or the sampler
  const void* behind_ = nullptr;
  Nanoseconds freshness_ = 0;
  std::uint32_t capacity_;
  LinkKind kind_;
  Reading reading_ = Reading::kNone;
};

}  // namespace unis
