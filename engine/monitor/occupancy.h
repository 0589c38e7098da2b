// How full a link is, as a plain value: counters in memory and what they mean.
//
// Functions can write the counters. The capacity is therefore kept from when the link was made and
// bounds every reading: whatever stands in memory, a reading is a number from 0 to the capacity.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace unis {

class Occupancy {
 public:
  enum class Width : std::uint8_t { k16 = 16, k32 = 32 };  // bits of a counter

  // The counters of a link's first queue; those of the next are `stride` bytes further.
  struct Counters {
    const void* ahead;   // grows with what is put in
    const void* behind;  // grows with what is taken out
    Width width = Width::k32;
    std::uint32_t queues = 1;
    std::size_t stride = 0;
    bool operator==(const Counters&) const = default;
  };

  // Nobody can tell how full the link is: Packets() is 0, readable() false.
  static Occupancy Unreadable(std::uint32_t capacity) { return Occupancy(capacity, 1); }
  // What waits is the difference of the counters. A capacity and counters in bytes need
  // `packet_bytes`, what a packet takes; counters of packets have 1.
  static Occupancy Filled(const Counters& at, std::uint32_t capacity,
                          std::uint32_t packet_bytes = 1) {
    return Occupancy(at, capacity, packet_bytes, false);
  }
  // What waits is told by a number of its own, `waiting`, at the same stride.
  static Occupancy Told(const Counters& at, const std::uint32_t* waiting, std::uint32_t capacity) {
    Occupancy told(at, capacity, 1, false);
    told.waiting_ = waiting;
    return told;
  }
  // The difference is free room: the receiver moves `ahead` by offering slots, the sender `behind`
  // by using them. Until a receiver offers room, the link reads as full: to the sender it is.
  static Occupancy Free(const Counters& at, std::uint32_t capacity) {
    return Occupancy(at, capacity, 1, true);
  }

  // What is put in is counted some time after it was sent: something else passes it on.
  Occupancy Late() const {
    Occupancy late = *this;
    late.late_ = true;
    return late;
  }
  bool late() const noexcept { return late_; }

  // The kernel copies each packet, so that no more than one comes in a microsecond.
  Occupancy Slow() const {
    Occupancy slow = *this;
    slow.slow_ = true;
    return slow;
  }
  bool slow() const noexcept { return slow_; }

  // Packets; with several queues what one of them holds, for a program may send by one alone.
  std::uint32_t capacity() const noexcept { return capacity_ / unit_; }
  bool readable() const noexcept { return at_.ahead != nullptr; }
  std::uint32_t queues() const noexcept { return at_.queues; }

  // Packets under way, in all queues, from 0 to the capacity. A packet in several buffers of a
  // memif counts as many.
  std::uint32_t Packets() const noexcept {
    if (!readable()) return 0;
    std::uint64_t waiting = 0;
    for (std::uint32_t queue = 0; queue < at_.queues; ++queue) {
      const std::uint32_t apart = Apart(queue * at_.stride);
      waiting += free_ ? capacity_ - std::min(apart, capacity_) : apart;
    }
    const auto bounded = static_cast<std::uint32_t>(std::min<std::uint64_t>(waiting, capacity_));
    return unit_ == 1 ? bounded : bounded / unit_;
  }

  // Ever put in and ever taken out, of all queues, modulo the width of the counters; 0 where nobody
  // can tell.
  std::uint32_t Sent() const noexcept { return Sum(free_ ? at_.behind : at_.ahead); }
  std::uint32_t Received() const noexcept { return Sum(free_ ? at_.ahead : at_.behind); }
  // Of one queue.
  std::uint32_t SentBy(std::uint32_t queue) const noexcept {
    return Load(free_ ? at_.behind : at_.ahead, queue * at_.stride);
  }
  std::uint32_t ReceivedFrom(std::uint32_t queue) const noexcept {
    return Load(free_ ? at_.ahead : at_.behind, queue * at_.stride);
  }
  // Slots that a receiver offers in fresh memory before any counts as received.
  std::uint32_t FirstRoom(std::uint32_t queue) const noexcept {
    return free_ && SentBy(queue) == 0 && ReceivedFrom(queue) == 0 ? capacity_ : 0;
  }
  // What a counter grew by.
  std::uint32_t Since(std::uint32_t before, std::uint32_t now) const noexcept {
    return Cut(now - before);
  }
  bool operator==(const Occupancy&) const = default;

 private:
  Occupancy(std::uint32_t capacity, std::uint32_t unit) : capacity_(capacity), unit_(unit) {}
  Occupancy(const Counters& at, std::uint32_t capacity, std::uint32_t unit, bool free)
      : at_(at), capacity_(capacity), unit_(unit), free_(free) {}

  std::uint32_t Cut(std::uint32_t count) const noexcept {
    return at_.width == Width::k16 ? static_cast<std::uint16_t>(count) : count;
  }
  std::uint32_t Load(const void* counter, std::size_t at) const noexcept {
    const void* const of_queue = static_cast<const std::byte*>(counter) + at;
    return at_.width == Width::k16
               ? __atomic_load_n(static_cast<const std::uint16_t*>(of_queue), __ATOMIC_ACQUIRE)
               : __atomic_load_n(static_cast<const std::uint32_t*>(of_queue), __ATOMIC_ACQUIRE);
  }
  // `behind` is read first: it cannot have overtaken the other then, and a number that grew
  // meanwhile is at most too high.
  std::uint32_t Apart(std::size_t at) const noexcept {
    if (waiting_ != nullptr) return Load(waiting_, at);
    const std::uint32_t behind = Load(at_.behind, at);
    return Cut(Load(at_.ahead, at) - behind);
  }
  std::uint32_t Sum(const void* counter) const noexcept {
    std::uint32_t sum = 0;
    for (std::uint32_t queue = 0; readable() && queue < at_.queues; ++queue)
      sum += Load(counter, queue * at_.stride);
    return Cut(sum);
  }

  Counters at_ = {};
  const std::uint32_t* waiting_ = nullptr;  // null: the counters tell
  std::uint32_t capacity_;
  std::uint32_t unit_;
  bool free_ = false;
  bool late_ = false;
  bool slow_ = false;
};

}  // namespace unis
