// The time at which a synthetic packet entered the platform, written into its payload. A memif or a
// veth copies a packet, and the copy lacks the mbuf's field for this time (packet_memory.h).
// A function may change headers. If it moves, encrypts or cuts off the payload, the time is unknown
// from there on.
#pragma once

#include <rte_mbuf.h>

#include <cstdint>
#include <cstring>
#include <random>

#include "ports/unis_ports/passages_shm.h"

namespace unis {

struct PayloadStamp {
  // Another one in each process: a stamp in a capture, or of another machine, tells nothing here.
  static inline const std::uint64_t kMagic = [] {
    std::random_device random;
    return std::uint64_t{random()} << 32 | random();
  }();
  static constexpr std::size_t kAt =
      UNIS_PASSAGES_MARK_AT;  // bytes from the first of the frame: in UDP's payload

  std::uint64_t magic = kMagic;
  std::uint64_t cycles = 0;  // TSC

  // Of a frame that has one at kAt.
  static void Write(std::byte* frame, std::uint64_t cycles) noexcept {
    std::memcpy(frame + kAt + offsetof(PayloadStamp, cycles), &cycles, sizeof(cycles));
  }
  // 0: unknown. Whoever had the packet may have written anything.
  static std::uint64_t Read(const rte_mbuf* packet) noexcept {
    PayloadStamp stamp;
    if (packet->data_len < kAt + sizeof(stamp)) return 0;
    std::memcpy(&stamp, rte_pktmbuf_mtod_offset(packet, const std::byte*, kAt), sizeof(stamp));
    return stamp.magic == kMagic ? stamp.cycles : 0;
  }
};

}  // namespace unis
