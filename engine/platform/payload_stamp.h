// When a synthetic packet entered the platform, in its payload. The field of the mbuf that says so
// (packet_memory.h) is lost where a packet is copied out of the packet memory and in again, as on a
// memif or a veth. Functions that change headers leave it; to one that moves the payload, hides it
// or cuts it off, the time is unknown behind it.
#pragma once

#include <rte_mbuf.h>

#include <cstdint>
#include <cstring>
#include <random>

namespace unis {

struct PayloadStamp {
  // Another one in each process: a stamp in a capture, or of another machine, tells nothing here.
  static inline const std::uint64_t kMagic = [] {
    std::random_device random;
    return std::uint64_t{random()} << 32 | random();
  }();
  static constexpr std::size_t kAt = 44;  // bytes from the first of the frame: in UDP's payload

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
