#include "engine/platform/bridge.h"

#include <algorithm>
#include <array>

namespace unis {

std::uint32_t Bridges::Iterate() noexcept {
  std::uint32_t carried = 0;
  for (const Bridge& bridge : bridges_) carried += Carry(bridge);
  return carried;
}

std::uint32_t Bridges::Carry(const Bridge& bridge) noexcept {
  std::array<rte_mbuf*, kBurst> packets;
  const auto room = static_cast<std::uint16_t>(std::min(bridge.to->Room(), kBurst));
  if (room == 0) return 0;
  const std::uint16_t count = bridge.from->Receive(packets.data(), room);
  if (count == 0) return 0;
  bridge.from->received.Add(count);
  // The time at which a packet entered the platform is not known any more.
  if (!bridge.from->carries_mbufs())
    for (std::uint16_t i = 0; i < count; ++i) memory_.Stamp(packets[i]) = 0;
  const std::uint16_t sent = bridge.to->Send(packets.data(), count);
  bridge.to->sent.Add(sent);
  if (sent < count) [[unlikely]] {
    rte_pktmbuf_free_bulk(packets.data() + sent, count - sent);
    lost_.Add(count - sent);
  }
  return count;
}

}  // namespace unis
