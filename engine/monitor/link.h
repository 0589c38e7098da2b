// A link between functions as a value: how much fits, and how its occupancy is read.
//
// Positions and packets lie in memory that functions can write. The capacity is therefore kept from
// when the link was made and bounds every reading: whatever stands there, a reading is a number
// from 0 to the capacity.
#pragma once

#include <rte_ring.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace unis {

// What is counted in a memif's ring, whose positions have 16 bits. The sender moves the one, the
// receiver the other; a receiver that is the client moves it by giving back free slots.
struct MemifPositions {
  const std::uint16_t* head;
  const std::uint16_t* tail;
  std::uint32_t rings = 1;     // of this direction, one for each queue pair
  std::size_t ring_bytes = 0;  // from one's positions to those of the next
};

class Link {
 public:
  // Nobody can tell how full it is: Packets() is 0, readable() false.
  static Link Unreadable(std::uint32_t capacity) { return Link(capacity); }
  static Link OfRing(const rte_ring& ring) {
    Link link(rte_ring_get_capacity(&ring));
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

  // Packets; of a memif, what one of its rings holds: a program may send by one of them alone.
  std::uint32_t capacity() const noexcept { return capacity_; }
  bool readable() const noexcept { return reading_ != Reading::kNone; }

  // Packets under way, in all its rings, from 0 to the capacity. A packet in several buffers of a
  // memif counts as many.
  std::uint32_t Packets() const noexcept {
    switch (reading_) {
      case Reading::kRing:
        return std::min(Apart<std::uint32_t>(0), capacity_);
      case Reading::kFilledSlots:
        return OfAllRings([this](std::size_t at) { return Apart<std::uint16_t>(at); });
      case Reading::kFreeSlots:
        return OfAllRings([this](std::size_t at) {
          return capacity_ - std::min<std::uint32_t>(Apart<std::uint16_t>(at), capacity_);
        });
      case Reading::kNone:
        break;
    }
    return 0;
  }

  // Packets ever put in and ever taken out, modulo 2^16; 0 where nobody can tell.
  std::uint16_t Sent() const noexcept {
    return Position(reading_ == Reading::kFreeSlots ? behind_ : ahead_);
  }
  std::uint16_t Received() const noexcept {
    return Position(reading_ == Reading::kFreeSlots ? ahead_ : behind_);
  }

 private:
  enum class Reading : std::uint8_t { kNone, kRing, kFilledSlots, kFreeSlots };

  explicit Link(std::uint32_t capacity) : capacity_(capacity) {}
  static Link OfMemif(Reading reading, MemifPositions at, std::uint32_t slots) {
    Link link(slots);
    link.reading_ = reading;
    link.ahead_ = at.head;
    link.behind_ = at.tail;
    link.rings_ = at.rings;
    link.ring_bytes_ = at.ring_bytes;
    return link;
  }
  template <typename Read>
  std::uint32_t OfAllRings(Read read) const noexcept {
    std::uint32_t packets = 0;
    for (std::uint32_t ring = 0; ring < rings_; ++ring) packets += read(ring * ring_bytes_);
    return std::min(packets, capacity_);
  }
  // The one that follows is read first: it cannot have overtaken the other then, and a number that
  // grew meanwhile is at most too high.
  template <typename Position>
  std::uint32_t Apart(std::size_t at) const noexcept {
    const Position behind = __atomic_load_n(Located<Position>(behind_, at), __ATOMIC_ACQUIRE);
    const Position ahead = __atomic_load_n(Located<Position>(ahead_, at), __ATOMIC_RELAXED);
    return static_cast<Position>(ahead - behind);
  }
  template <typename Position>
  static const Position* Located(const void* position, std::size_t at) noexcept {
    return reinterpret_cast<const Position*>(static_cast<const std::byte*>(position) + at);
  }

  std::uint16_t Position(const void* at) const noexcept {
    if (reading_ == Reading::kNone) return 0;
    if (reading_ != Reading::kRing) {
      std::uint16_t sum = 0;
      for (std::uint32_t ring = 0; ring < rings_; ++ring) {
        sum = static_cast<std::uint16_t>(
            sum +
            __atomic_load_n(Located<std::uint16_t>(at, ring * ring_bytes_), __ATOMIC_RELAXED));
      }
      return sum;
    }
    return static_cast<std::uint16_t>(
        __atomic_load_n(static_cast<const std::uint32_t*>(at), __ATOMIC_RELAXED));
  }

  const void* ahead_ = nullptr;
  const void* behind_ = nullptr;
  std::uint32_t capacity_;
  std::uint32_t rings_ = 1;
  std::size_t ring_bytes_ = 0;
  Reading reading_ = Reading::kNone;
};

}  // namespace unis
