// Packets that a link has carried since it was first watched, counted from its occupancy's
// counters.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/monitor/occupancy.h"

namespace unis {

// One thread counts; any thread reads. A counter of n bits needs Sample() at least once in 2^n - 1
// packets: 16 bits at 20 Mpps every 3 ms.
class LinkProgress {
 public:
  // Begins while the link is in use: the first free slots that a receiver offers would count as
  // received.
  explicit LinkProgress(const Occupancy& link) { Follow(link); }

  // Put into the link, and taken out of it.
  std::uint64_t sent() const noexcept { return __atomic_load_n(&sent_, __ATOMIC_RELAXED); }
  std::uint64_t received() const noexcept { return __atomic_load_n(&received_, __ATOMIC_RELAXED); }

  void Sample() noexcept {
    std::uint64_t sent = sent_, received = received_;
    for (std::uint32_t queue = 0; queue < last_.size(); ++queue) {
      Last& last = last_[queue];
      const Last now{.sent = link_.SentBy(queue), .received = link_.ReceivedFrom(queue)};
      sent += link_.Since(last.sent, now.sent);
      received += link_.Since(last.received, now.received);
      last = now;
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
      last_[queue] = {.sent = link.SentBy(queue), .received = link.ReceivedFrom(queue)};
  }
  // The memory goes.
  void Leave() noexcept {
    Sample();
    last_.clear();
  }

 private:
  struct Last {
    std::uint32_t sent, received;
  };

  Occupancy link_ = Occupancy::Unreadable(0);
  std::vector<Last> last_;  // of each queue
  std::uint64_t sent_ = 0, received_ = 0;
};

}  // namespace unis
