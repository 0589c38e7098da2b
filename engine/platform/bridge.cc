#include "engine/platform/bridge.h"

#include <rte_ring_peek.h>

#include <algorithm>
#include <array>

namespace unis {

std::uint32_t Bridges::Iterate() noexcept {
  std::uint32_t into = 0, out_of = 0;
  for (const Bridge& bridge : into_) into += CarryInto(bridge);
  for (const Bridge& bridge : out_of_) out_of += CarryOutOf(bridge);
  if (into > 0) carried_into_.Add(into);
  if (out_of > 0) carried_out_of_.Add(out_of);
  return into + out_of;
}

// Packets stay the ring's until the memif has taken them.
std::uint32_t Bridges::CarryInto(const Bridge& bridge) noexcept {
  std::array<rte_mbuf*, kBurst> packets;
  const unsigned count = rte_ring_dequeue_burst_start(
      bridge.ring, reinterpret_cast<void**>(packets.data()), kBurst, nullptr);
  if (count == 0) return 0;
  const std::uint16_t sent = bridge.memif->Send(packets.data(), static_cast<std::uint16_t>(count));
  rte_ring_dequeue_finish(bridge.ring, sent);
  return sent;
}

// The time at which a packet entered the platform is not known any more.
std::uint32_t Bridges::CarryOutOf(const Bridge& bridge) const noexcept {
  std::array<rte_mbuf*, kBurst> packets;
  const auto room = static_cast<std::uint16_t>(std::min(rte_ring_free_count(bridge.ring), kBurst));
  const std::uint16_t count = bridge.memif->Receive(packets.data(), room);
  if (count == 0) return 0;
  for (std::uint16_t i = 0; i < count; ++i) memory_.Stamp(packets[i]) = 0;
  // All fit: nobody else puts packets into the ring.
  rte_ring_sp_enqueue_burst(bridge.ring, reinterpret_cast<void**>(packets.data()), count, nullptr);
  return count;
}

}  // namespace unis
