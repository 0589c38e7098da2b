// Packet sockets without rings, as net_mmsg has them: what waits is in a buffer of the kernel, and
// what is known of it are two answers of the kernel, 200 ns each.
//
// - SO_MEMINFO: the bytes that wait, with what the kernel adds to each packet, and how many there
//   may be. Exact.
// - PACKET_STATISTICS: packets that were put there. Exact. It counts from 0 after each reading, so
//   only the engine may read it; net_mmsg does not.
//
// How many packets were taken follows from both. It is exact when nothing waits, and never too
// high; else it is too low by less than a buffer of packets.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "engine/platform/links/packet_receiver.h"

namespace unis {

class FollowedSockets final : public PacketReceiver {
 public:
  // Of the buffer: what the smallest packet takes, and what a frame of 1522 bytes takes.
  static constexpr std::uint32_t kLeastBytes = 832, kMostBytes = 2304;

  // One at least.
  explicit FollowedSockets(std::vector<HeldSocket> sockets);

  void Look() noexcept override;
  // A packet counts by the room that it takes, as many as there could be of the smallest: a full
  // buffer is full, whatever is in it.
  Occupancy occupancy() const override;
  std::uint32_t Room(std::uint32_t most, std::uint32_t sent) const noexcept override;
  void Feed(const std::uint32_t*) noexcept override {}
  std::uint64_t TakeDrops() noexcept override;
  std::uint64_t TakeAbandoned() noexcept override;
  bool HeldBy(pid_t pid) const override { return sockets_.front().HeldBy(pid); }
  // Packets that wait now, as occupancy() counts. Any thread.
  std::uint32_t Waiting() const noexcept;

 private:
  struct Counters {
    std::uint32_t put = 0, taken = 0, waiting = 0;
  };
  void LookAt(std::size_t socket) noexcept;

  std::vector<HeldSocket> sockets_;
  std::vector<Counters> counters_;
  std::vector<std::uint32_t> drops_;  // that were told; modulo 2^32, as the kernel counts
  std::uint32_t capacity_;            // of one of them, as occupancy() counts
};

}  // namespace unis
