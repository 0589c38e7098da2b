// What a function works on: up to 64 packets that one rte_eth_rx_burst gave.
#pragma once

#include <rte_mbuf.h>
#include <rte_prefetch.h>

#include <cstdint>

namespace unis::functions {

inline constexpr std::uint16_t kBurst = 64;  // packets

// Packets that a function does not pass on. They are freed once a burst, in bulk.
struct Drops {
  rte_mbuf* packets[kBurst];
  std::uint16_t count = 0;

  void Add(rte_mbuf* packet) { packets[count++] = packet; }
};

// Touches every header of the burst before the first one is needed.
inline void PrefetchHeaders(rte_mbuf* const* packets, std::uint16_t count) {
  for (std::uint16_t i = 0; i < count; ++i) rte_prefetch0(rte_pktmbuf_mtod(packets[i], void*));
}

}  // namespace unis::functions
