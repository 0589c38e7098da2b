#include "engine/platform/links/vhost_queue.h"

#include <fmt/format.h>
#include <rte_memcpy.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

namespace unis {
namespace {

constexpr std::uint16_t kHasNext = 1, kWrite = 2, kIndirect = 4;  // flags of a descriptor
constexpr std::uint16_t kNoNotify = 1;                            // flag of the used ring
constexpr std::uint16_t kBurstAtOnce = 64;
constexpr std::uint32_t kMostParts = 64;  // descriptors of a packet
// Before each packet to the driver: 10 bytes of no offload, and where it has 12, in one buffer.
constexpr std::size_t kBuffersAt = 10;
constexpr std::array<std::byte, 12> kHeader = [] {
  std::array<std::byte, 12> header{};
  header[kBuffersAt] = std::byte{1};
  return header;
}();

std::uint16_t LoadIndex(const std::byte* at) noexcept {
  return __atomic_load_n(reinterpret_cast<const std::uint16_t*>(at), __ATOMIC_ACQUIRE);
}

}  // namespace

absl::StatusOr<VhostQueue> VhostQueue::At(std::shared_ptr<const VhostMemory> memory,
                                          const VhostMessage::Address& address, std::uint32_t slots,
                                          std::uint32_t header_bytes, std::uint16_t next) {
  if (!std::has_single_bit(slots) || slots > kMostSlots)
    return absl::InvalidArgumentError(fmt::format("a queue of {} descriptors", slots));
  VhostQueue queue;
  const std::uint64_t at[] = {address.descriptors, address.available, address.used};
  queue.descriptors_ = memory->AtUser(at[0], kDescriptorBytes * slots);
  queue.available_ = memory->AtUser(at[1], kRingAt + kAvailableBytes * slots);
  queue.used_ = memory->AtUser(at[2], kRingAt + kUsedBytes * slots);
  if (queue.descriptors_ == nullptr || queue.available_ == nullptr || queue.used_ == nullptr)
    return absl::InvalidArgumentError("a queue that is not in the memory");
  for (const auto& [place, alignment] :
       {std::pair{queue.descriptors_, 16U}, {queue.available_, 2U}, {queue.used_, 4U}})
    if (reinterpret_cast<std::uintptr_t>(place) % alignment != 0)
      return absl::InvalidArgumentError("a queue that is not aligned");
  queue.memory_ = std::move(memory);
  queue.slots_ = slots;
  queue.header_bytes_ = header_bytes;
  queue.next_ = next;
  return queue;
}

// In two loads, so that it is what was checked that is used.
VhostQueue::Descriptor VhostQueue::Read(std::uint16_t number) const noexcept {
  const auto* const at = reinterpret_cast<const std::uint64_t*>(
      descriptors_ + kDescriptorBytes * (number & (slots_ - 1)));
  const std::uint64_t address = __atomic_load_n(at, __ATOMIC_RELAXED);
  const std::uint64_t rest = __atomic_load_n(at + 1, __ATOMIC_RELAXED);
  return {.address = address,
          .bytes = static_cast<std::uint32_t>(rest),
          .flags = static_cast<std::uint16_t>(rest >> 32),
          .next = static_cast<std::uint16_t>(rest >> 48)};
}

std::uint16_t VhostQueue::HeadAt(std::uint16_t position) const noexcept {
  const std::byte* const at = available_ + kRingAt + kAvailableBytes * (position & (slots_ - 1));
  return __atomic_load_n(reinterpret_cast<const std::uint16_t*>(at), __ATOMIC_RELAXED);
}

void VhostQueue::Return(std::uint16_t position, std::uint16_t head,
                        std::uint32_t bytes) const noexcept {
  auto* const at =
      reinterpret_cast<std::uint32_t*>(used_ + kRingAt + kUsedBytes * (position & (slots_ - 1)));
  __atomic_store_n(at, std::uint32_t{head}, __ATOMIC_RELAXED);
  __atomic_store_n(at + 1, bytes, __ATOMIC_RELAXED);
}

void VhostQueue::Publish() const noexcept {
  __atomic_store_n(reinterpret_cast<std::uint16_t*>(used_ + kIndexAt), next_, __ATOMIC_RELEASE);
}

void VhostQueue::LookByOurselves() const noexcept {
  __atomic_store_n(reinterpret_cast<std::uint16_t*>(used_), kNoNotify, __ATOMIC_RELAXED);
}

void VhostQueue::TakeUp() noexcept { next_ = LoadIndex(used_ + kIndexAt); }

std::uint32_t VhostQueue::Unused() const noexcept { return Sent().Packets(); }

std::uint16_t VhostQueue::Offered() const noexcept {
  const auto offered = static_cast<std::uint16_t>(LoadIndex(available_ + kIndexAt) - next_);
  return static_cast<std::uint16_t>(std::min<std::uint32_t>(offered, slots_));
}

// A packet was last in the cache of the driver's CPU. Those of a burst are fetched all at once, and
// not one after the other.
VhostQueue::First VhostQueue::ReadAhead(std::uint16_t position) const noexcept {
  const std::uint16_t head = HeadAt(position);
  const Descriptor at = Read(head);
  const std::byte* const place = memory_->AtGuest(at.address, at.bytes);
  if (place != nullptr) {
    __builtin_prefetch(place);  // the header; where it ends, the packet begins
    __builtin_prefetch(place + RTE_CACHE_LINE_SIZE);
  }
  return {.head = head, .at = at, .place = place};
}

std::uint16_t VhostQueue::Receive(rte_mbuf** packets, std::uint16_t count, rte_mempool* pool,
                                  Counter& dropped) noexcept {
  count = std::min({count, Offered(), kBurstAtOnce});
  if (count == 0 || rte_pktmbuf_alloc_bulk(pool, packets, count) != 0) return 0;
  std::array<First, kBurstAtOnce> firsts;
  for (std::uint16_t i = 0; i < count; ++i)
    firsts[i] = ReadAhead(static_cast<std::uint16_t>(next_ + i));
  std::uint16_t taken = 0;
  for (std::uint16_t i = 0; i < count; ++i) {
    if (Take(firsts[i], packets[taken])) {
      ++taken;
    } else {
      rte_pktmbuf_reset(packets[taken]);
    }
    Return(static_cast<std::uint16_t>(next_ + i), firsts[i].head, 0);
  }
  if (taken < count) {
    rte_pktmbuf_free_bulk(packets + taken, count - taken);
    dropped.Add(static_cast<std::uint64_t>(count - taken));
  }
  next_ = static_cast<std::uint16_t>(next_ + count);
  Publish();
  return taken;
}

bool VhostQueue::Take(const First& first, rte_mbuf* into) const noexcept {
  std::uint32_t skipped = 0;
  Descriptor at = first.at;
  const std::byte* from = first.place;
  for (std::uint32_t parts = 0; parts < kMostParts; ++parts) {
    if (from == nullptr || (at.flags & (kWrite | kIndirect)) != 0) return false;
    const std::uint32_t skip = std::min(at.bytes, header_bytes_ - skipped);
    const std::uint32_t bytes = at.bytes - skip;
    skipped += skip;
    if (bytes > rte_pktmbuf_tailroom(into)) return false;
    if (bytes > 0) {
      rte_memcpy(rte_pktmbuf_mtod_offset(into, char*, into->data_len), from + skip, bytes);
      into->data_len = static_cast<std::uint16_t>(into->data_len + bytes);
      into->pkt_len = into->data_len;
    }
    if ((at.flags & kHasNext) == 0) return into->data_len > 0;
    at = Read(at.next);
    from = memory_->AtGuest(at.address, at.bytes);
  }
  return false;
}

std::uint16_t VhostQueue::Send(rte_mbuf** packets, std::uint16_t count, Counter& dropped) noexcept {
  count = std::min(count, Offered());
  if (count == 0) return 0;
  for (std::uint16_t i = 0; i < count; ++i) {
    const auto position = static_cast<std::uint16_t>(next_ + i);
    const std::uint16_t head = HeadAt(position);
    const std::uint32_t bytes = Put(head, *packets[i]);
    if (bytes == 0) dropped.Add(1);
    Return(position, head, bytes);
  }
  next_ = static_cast<std::uint16_t>(next_ + count);
  Publish();
  rte_pktmbuf_free_bulk(packets, count);
  return count;
}

// The bytes that were written, header and packet; 0: it does not fit, and the driver gets none.
std::uint32_t VhostQueue::Put(std::uint16_t head, const rte_mbuf& packet) const noexcept {
  const Descriptor at = Read(head);
  std::byte* const to = memory_->AtGuest(at.address, at.bytes);
  if (to == nullptr || (at.flags & (kWrite | kIndirect)) != kWrite) return 0;
  const std::uint32_t bytes = header_bytes_ + packet.data_len;
  if (packet.next != nullptr || bytes > at.bytes) return PutInParts(at, to, packet);
  // As almost all are; by the general way this took a tenth of what the engine does for a packet.
  std::memcpy(to, kHeader.data(), kBuffersAt);
  std::memcpy(to + kBuffersAt, kHeader.data() + kBuffersAt, header_bytes_ - kBuffersAt);
  rte_memcpy(to + header_bytes_, rte_pktmbuf_mtod(&packet, const std::byte*), packet.data_len);
  return bytes;
}

std::uint32_t VhostQueue::PutInParts(Descriptor at, std::byte* to,
                                     const rte_mbuf& packet) const noexcept {
  const std::byte* from = kHeader.data();
  std::uint32_t left = header_bytes_;
  const rte_mbuf* part = &packet;
  for (std::uint32_t parts = 0; parts < kMostParts; ++parts) {
    if (to == nullptr || (at.flags & (kWrite | kIndirect)) != kWrite) return 0;
    for (std::uint32_t room = at.bytes; room > 0;) {
      const std::uint32_t bytes = std::min(left, room);
      rte_memcpy(to, from, bytes);
      to += bytes;
      from += bytes;
      room -= bytes;
      left -= bytes;
      while (left == 0) {
        if (part == nullptr) return header_bytes_ + packet.pkt_len;
        from = rte_pktmbuf_mtod(part, const std::byte*);
        left = part->data_len;
        part = part->next;
      }
    }
    if ((at.flags & kHasNext) == 0) return 0;
    at = Read(at.next);
    to = memory_->AtGuest(at.address, at.bytes);
  }
  return 0;
}

}  // namespace unis
