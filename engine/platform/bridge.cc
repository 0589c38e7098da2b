#include "engine/platform/bridge.h"

#include <rte_ring_peek.h>

#include <algorithm>
#include <array>

namespace unis {

// Packets stay the ring's until the memif has taken them.
std::uint32_t RingToMemif::Iterate() noexcept {
  std::array<rte_mbuf*, kBurst> packets;
  const unsigned count = rte_ring_dequeue_burst_start(
      from_, reinterpret_cast<void**>(packets.data()), kBurst, nullptr);
  if (count == 0) return 0;
  const std::uint16_t sent = to_.Send(packets.data(), static_cast<std::uint16_t>(count));
  rte_ring_dequeue_finish(from_, sent);
  return sent;
}

// Polls also when the ring is full: a memif's client offers free slots by it.
std::uint32_t MemifToRing::Iterate() noexcept {
  std::array<rte_mbuf*, kBurst> packets;
  const auto room = static_cast<std::uint16_t>(std::min(rte_ring_free_count(to_), kBurst));
  const std::uint16_t count = from_.Receive(packets.data(), room);
  if (count == 0) return 0;
  for (std::uint16_t i = 0; i < count; ++i) memory_.Stamp(packets[i]) = 0;
  // All fit: nobody else puts packets into the ring.
  rte_ring_sp_enqueue_burst(to_, reinterpret_cast<void**>(packets.data()), count, nullptr);
  return count;
}

}  // namespace unis
