// The device's side of a virtqueue: copies packets out of the driver's buffers and into them, and
// believes nothing that stands there.
//
// The driver made the memory and may write all of it, at any time. So each index and descriptor is
// read once, held against bounds that are the engine's own, and then used; the engine's own
// position it never reads back. A driver that lies loses packets, its own.
#pragma once

#include <absl/status/statusor.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "engine/base/counter.h"
#include "engine/monitor/occupancy.h"
#include "engine/platform/links/vhost_memory.h"

namespace unis {

class VhostQueue {
 public:
  static constexpr std::uint32_t kMostSlots = 1U << 15;

  // `next`: what the device takes next. InvalidArgument: it is not wholly in the memory.
  static absl::StatusOr<VhostQueue> At(std::shared_ptr<const VhostMemory> memory,
                                       const VhostMessage::Address& address, std::uint32_t slots,
                                       std::uint32_t header_bytes, std::uint16_t next);

  // Of a queue by which the driver sends: copies up to `count` packets into new ones of `pool`. One
  // that does not fit into a buffer there, or stands where there is no memory, is `dropped`.
  std::uint16_t Receive(rte_mbuf** packets, std::uint16_t count, rte_mempool* pool,
                        Counter& dropped) noexcept;
  // Of one by which it receives: copies as many as it has buffers for, and frees these. A packet
  // that does not fit arrives empty, which the driver counts as an error; it is `dropped`.
  std::uint16_t Send(rte_mbuf** packets, std::uint16_t count, Counter& dropped) noexcept;
  // Buffers that the driver offers, with packets or for packets.
  std::uint16_t Offered() const noexcept;
  // As anybody may ask: offered and not used, as both stand in memory.
  std::uint32_t Unused() const noexcept;
  // The driver need not tell us when it offers some: we look.
  void LookByOurselves() const noexcept;

  std::uint16_t next() const noexcept { return next_; }
  // Goes on where another device has stopped, as that has left it in memory.
  void TakeUp() noexcept;
  // Of what the driver sends, and of what it receives, where it offers `buffers` while none waits.
  Occupancy Sent() const { return Occupancy::Filled(Counters(), slots_); }
  Occupancy Received(std::uint32_t buffers) const { return Occupancy::Free(Counters(), buffers); }

 private:
  struct Descriptor {
    std::uint64_t address;
    std::uint32_t bytes;
    std::uint16_t flags, next;
  };
  // A packet that the driver sends, and its first part.
  struct First {
    std::uint16_t head;
    Descriptor at;
    const std::byte* place;  // null: where there is no memory
  };

  VhostQueue() = default;
  Occupancy::Counters Counters() const {
    return {
        .ahead = available_ + kIndexAt, .behind = used_ + kIndexAt, .width = Occupancy::Width::k16};
  }
  Descriptor Read(std::uint16_t number) const noexcept;
  std::uint16_t HeadAt(std::uint16_t position) const noexcept;
  void Return(std::uint16_t position, std::uint16_t head, std::uint32_t bytes) const noexcept;
  void Publish() const noexcept;
  First ReadAhead(std::uint16_t position) const noexcept;
  bool Take(const First& first, rte_mbuf* into) const noexcept;
  std::uint32_t Put(std::uint16_t head, const rte_mbuf& packet) const noexcept;
  std::uint32_t PutInParts(Descriptor at, std::byte* to, const rte_mbuf& packet) const noexcept;

  static constexpr std::size_t kIndexAt = 2, kRingAt = 4;  // in both rings, behind flags
  static constexpr std::size_t kDescriptorBytes = 16, kAvailableBytes = 2, kUsedBytes = 8;

  std::shared_ptr<const VhostMemory> memory_;
  std::byte* descriptors_ = nullptr;
  std::byte* available_ = nullptr;  // the driver's
  std::byte* used_ = nullptr;       // the device's
  std::uint32_t slots_ = 0;
  std::uint32_t header_bytes_ = 0;
  std::uint16_t next_ = 0;
};

// Those of a device with one queue each way.
struct VhostQueues {
  VhostQueue to_driver, from_driver;
  // The most buffers that the driver was seen to offer since it started to receive by that queue.
  // The object may be another one meanwhile: each message of the driver's makes one.
  std::shared_ptr<std::atomic<std::uint32_t>> most_offered;

  // That it offers while no packet waits, as far as anybody has seen: fewer before it has emptied
  // a queue that was never looked at but with packets. Several threads may ask.
  std::uint32_t Buffers() const noexcept {
    const std::uint32_t now = to_driver.Unused();
    std::uint32_t most = most_offered->load(std::memory_order_relaxed);
    while (now > most && !most_offered->compare_exchange_weak(most, now)) {
    }
    return std::max(most, now);
  }
};

}  // namespace unis
