// The rings of a packet socket (AF_PACKET, TPACKET_V2), as DPDK's net_af_packet has them: mapped in
// the process that made the socket, or from outside through a descriptor of it.
#pragma once

#include <absl/status/statusor.h>
#include <linux/if_packet.h>
#include <sys/mman.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/unique_fd.h"
#include "engine/monitor/occupancy.h"
#include "engine/platform/links/packet_receiver.h"

namespace unis {

// Whether the kernel has put a packet there that was not taken yet.
inline bool Waits(const tpacket2_hdr& slot) noexcept {
  return (__atomic_load_n(&slot.tp_status, __ATOMIC_ACQUIRE) & TP_STATUS_USER) != 0;
}

// How many of `most` slots are free, one behind the other. Slots are emptied in order, so if the
// last one is free all are.
template <typename IsFree>
std::uint32_t InRow(std::uint32_t most, IsFree is_free) {
  if (is_free(most - 1)) return most;
  std::uint32_t free = 0;
  while (free < most && is_free(free)) ++free;
  return free;
}

// Of the rings of a packet socket.
struct RingShape {
  std::uint32_t slots;       // of the receive ring, a power of two
  std::uint32_t slot_bytes;  // apart
  std::size_t bytes;         // of what is mapped: the receive ring, and a ring to send behind it
};

// The receive ring of a packet socket, mapped. The kernel fills it. A ring to send can only be
// mapped together with it, and lies behind it.
class PacketRings {
 public:
  static constexpr std::uint32_t kFrameBytes = 2048;  // of a slot
  static constexpr std::uint32_t kMaxSlots = 1U << 14;

  // A socket of our own on a device of this network namespace. `sends`: it has a ring to send too,
  // as that of net_af_packet.
  static absl::StatusOr<PacketRings> Open(const std::string& device, std::uint32_t slots,
                                          bool sends = false);
  // Those that `pid` has on the device, in the order of its descriptors. NotFound: it has not
  // `sockets` of them yet, or not with rings of so many slots.
  static absl::StatusOr<std::vector<PacketRings>> Find(pid_t pid, const std::string& device,
                                                       std::uint32_t slots, std::uint32_t sockets);
  // Those of a socket that somebody else made, to read.
  static absl::StatusOr<PacketRings> Map(HeldSocket socket, const RingShape& shape) {
    return Map(std::move(socket), shape, PROT_READ);
  }
  ~PacketRings();
  PacketRings(PacketRings&& other) noexcept;
  PacketRings& operator=(PacketRings&&) = delete;

  int socket() const noexcept { return socket_.descriptor.get(); }
  std::uint32_t slots() const noexcept { return shape_.slots; }
  // The slot of a position that only grows. Others write there at any time.
  tpacket2_hdr* received(std::uint32_t position) const noexcept {
    const std::uint32_t slot = position & (shape_.slots - 1);
    return reinterpret_cast<tpacket2_hdr*>(memory_ + std::size_t{slot} * shape_.slot_bytes);
  }
  // Packets for which there was no slot, since the last call or since the socket was made. A system
  // call; the kernel then counts from 0, so nobody else may ask it.
  std::uint32_t TakeDrops() const noexcept;
  bool HeldBy(pid_t pid) const { return socket_.HeldBy(pid); }

 private:
  PacketRings(HeldSocket socket, void* memory, const RingShape& shape)
      : socket_(std::move(socket)), memory_(static_cast<std::byte*>(memory)), shape_(shape) {}
  static absl::StatusOr<PacketRings> Map(HeldSocket socket, const RingShape& shape, int access);

  HeldSocket socket_;
  std::byte* memory_;
  RingShape shape_;
};

// How many packets the kernel has put into receive rings and their owner has taken out. No memory
// tells it: a slot says only whether a packet waits in it, and when the last one came. So somebody
// looks again and again, and follows both. The kernel dates what several senders send a little out
// of order.
//
// A look reads one status word more than packets that came or went. Between two looks at most one
// ring of packets is counted.
class FollowedRings final : public PacketReceiver {
 public:
  explicit FollowedRings(std::vector<PacketRings> rings);

  void Look() noexcept override;
  Occupancy occupancy() const override;
  std::uint32_t Room(std::uint32_t most, std::uint32_t sent) const noexcept override;
  void Feed(const std::uint32_t* sent) noexcept override { sent_ = sent; }
  std::uint64_t TakeDrops() noexcept override;
  std::uint64_t TakeAbandoned() noexcept override;
  bool HeldBy(pid_t pid) const override { return rings_.front().HeldBy(pid); }

  const std::vector<PacketRings>& rings() const noexcept { return rings_; }

 private:
  struct Counters {
    std::uint32_t put = 0, taken = 0;
  };
  struct Position {
    std::uint32_t first = 0;  // slot of packet 0
    std::uint32_t seen = 0;   // `put` at the look before
    std::uint64_t head = 0;   // above; below *sent_ before it was read
    // Of each slot, when the last packet that was counted there came, ns.
    std::vector<std::uint64_t> dates;
  };

  void Begin(std::size_t ring) noexcept;
  std::uint32_t Head(std::size_t ring, std::uint32_t sent) const noexcept;
  void Follow(std::size_t ring) noexcept;

  std::vector<PacketRings> rings_;
  std::vector<Counters> counters_;
  std::vector<Position> positions_;
  const std::uint32_t* sent_ = nullptr;  // null: nobody tells
};

}  // namespace unis
