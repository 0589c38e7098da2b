// Packets that a link has carried since it was first watched, counted from its occupancy's
// counters.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "engine/monitor/occupancy.h"

namespace unis {

// One thread counts; any thread reads. A counter of n bits needs Sample() at least once in 2^n - 1
// packets: 16 bits at 20 Mpps every 3 ms.
class LinkProgress {
 public:
  // In fresh memory the first slots that a receiver offers are room; it has received nothing.
  explicit LinkProgress(const Occupancy& link) { Follow(link); }

  // Put into the link, and taken out of it.
  std::uint64_t sent() const noexcept { return __atomic_load_n(&sent_, __ATOMIC_RELAXED); }
  std::uint64_t received() const noexcept { return __atomic_load_n(&received_, __ATOMIC_RELAXED); }

  void Sample() noexcept {
    std::uint64_t sent = sent_, received = received_;
    for (std::uint32_t queue = 0; queue < last_.size(); ++queue) {
      Last& last = last_[queue];
      const std::uint32_t put = link_.SentBy(queue), moved_to = link_.ReceivedFrom(queue);
      const std::uint32_t moved = link_.Since(last.received, moved_to);
      const std::uint32_t room = std::min(moved, last.first_room);
      sent += link_.Since(last.sent, put);
      received += moved - room;
      last = {.sent = put, .received = moved_to, .first_room = last.first_room - room};
    }
    __atomic_store_n(&sent_, sent, __ATOMIC_RELAXED);
    __atomic_store_n(&received_, received, __ATOMIC_RELAXED);
  }
  // From now on elsewhere in memory: as after a reconnection. Unreadable: the counts stay.
  void Follow(const Occupancy& link) {
    Sample();
    link_ = link;
    last_.resize(link.readable() ? link.queues() : 0);
    for (std::uint32_t queue = 0; queue < last_.size(); ++queue)
      last_[queue] = {.sent = link.SentBy(queue),
                      .received = link.ReceivedFrom(queue),
                      .first_room = link.FirstRoom(queue)};
  }
  // The memory goes.
  void Leave() noexcept {
    Sample();
    last_.clear();
  }

 private:
  struct Last {
    std::uint32_t sent, received;
    std::uint32_t first_room;  // slots that the receiver is still to offer before it counts
  };

  Occupancy link_ = Occupancy::Unreadable(0);
  std::vector<Last> last_;  // of each queue
  std::uint64_t sent_ = 0, received_ = 0;
};

}  // namespace unis
