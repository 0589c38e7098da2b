#include "engine/platform/links/memif_memory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <rte_memcpy.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace unis {
namespace {

constexpr std::uint16_t kNext = 1;  // flag: the packet goes on in the next slot
constexpr std::uint16_t kMostAtOnce = 64;

std::uint16_t Position(const std::byte* at) noexcept {
  return __atomic_load_n(reinterpret_cast<const std::uint16_t*>(at), __ATOMIC_ACQUIRE);
}

void Move(std::byte* at, std::uint16_t position) noexcept {
  __atomic_store_n(reinterpret_cast<std::uint16_t*>(at), position, __ATOMIC_RELEASE);
}

}  // namespace

absl::StatusOr<MemifMemory> MemifMemory::Map(const UniqueFd& file, const MemifShape& shape) {
  // Seals before the size: it could shrink and be sealed in between.
  const int seals = fcntl(file.get(), F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0)
    return absl::InvalidArgumentError("the memory may shrink");
  struct stat status {};
  const std::size_t bytes = shape.RegionBytes();
  if (fstat(file.get(), &status) != 0 || static_cast<std::size_t>(status.st_size) != bytes)
    return absl::InvalidArgumentError(
        fmt::format("{} bytes of memory; {} slots of {} bytes each way want {}", status.st_size,
                    shape.slots, shape.buffer_bytes, bytes));
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (memory == MAP_FAILED)
    return absl::InternalError(fmt::format("cannot map the memory: {}", std::strerror(errno)));
  return MemifMemory(static_cast<std::byte*>(memory), shape);
}

MemifMemory::MemifMemory(std::byte* memory, const MemifShape& shape)
    : memory_(memory), shape_(shape), to_client_(memory + shape.to_server * shape.RingBytes()) {}

MemifMemory::~MemifMemory() {
  if (memory_ != nullptr) munmap(memory_, shape_.RegionBytes());
}

MemifMemory::MemifMemory(MemifMemory&& other) noexcept
    : memory_(std::exchange(other.memory_, nullptr)),
      shape_(other.shape_),
      to_client_(other.to_client_),
      received_(other.received_),
      sent_(other.sent_),
      next_(other.next_) {}

std::uint64_t* MemifMemory::At(std::byte* ring, std::uint16_t slot) const noexcept {
  return reinterpret_cast<std::uint64_t*>(ring + MemifShape::kDescriptorsAt +
                                          MemifShape::kDescriptorBytes *
                                              (slot & (shape_.slots - 1)));
}

// In two loads, so that it is what was checked that is used.
MemifMemory::Descriptor MemifMemory::Read(std::byte* ring, std::uint16_t slot) const noexcept {
  const std::uint64_t* const at = At(ring, slot);
  const std::uint64_t low = __atomic_load_n(at, __ATOMIC_RELAXED);
  const std::uint64_t high = __atomic_load_n(at + 1, __ATOMIC_RELAXED);
  return {.flags = static_cast<std::uint16_t>(low),
          .region = static_cast<std::uint16_t>(low >> 16),
          .length = static_cast<std::uint32_t>(low >> 32),
          .offset = static_cast<std::uint32_t>(high)};
}

bool MemifMemory::Holds(const Descriptor& at, std::uint32_t bytes) const noexcept {
  return at.region == 0 && std::uint64_t{at.offset} + bytes <= shape_.RegionBytes();
}

std::uint16_t MemifMemory::Receive(rte_mbuf** packets, std::uint16_t count,
                                   rte_mempool* pool) noexcept {
  std::uint16_t taken = 0;
  for (std::uint32_t i = 0; i < shape_.to_server && taken < count; ++i) {
    const std::uint32_t queue = next_;
    next_ = next_ + 1 == shape_.to_server ? 0 : next_ + 1;
    taken = static_cast<std::uint16_t>(
        taken +
        ReceiveFrom(queue, packets + taken, static_cast<std::uint16_t>(count - taken), pool));
  }
  return taken;
}

std::uint16_t MemifMemory::ReceiveFrom(std::uint32_t queue, rte_mbuf** packets, std::uint16_t count,
                                       rte_mempool* pool) noexcept {
  std::byte* const ring = memory_ + queue * shape_.RingBytes();
  std::uint16_t& received = received_[queue];
  const std::uint16_t pending = Position(ring + MemifShape::kHeadAt) - received;
  auto slots = static_cast<std::uint16_t>(std::min<std::uint32_t>(pending, shape_.slots));
  count = std::min({count, slots, kMostAtOnce});
  if (count == 0 || rte_pktmbuf_alloc_bulk(pool, packets, count) != 0) return 0;
  std::uint16_t taken = 0;
  for (std::uint16_t looked = 0; looked < count && slots > 0; ++looked) {
    bool good = false;
    const std::uint16_t used = TakePacket(ring, received, slots, packets[taken], good);
    received = static_cast<std::uint16_t>(received + used);
    slots = static_cast<std::uint16_t>(slots - used);
    if (good) {
      ++taken;
    } else {
      rte_pktmbuf_reset(packets[taken]);
    }
  }
  if (taken < count) rte_pktmbuf_free_bulk(packets + taken, count - taken);
  Move(ring + MemifShape::kTailAt, received);
  return taken;
}

std::uint16_t MemifMemory::TakePacket(std::byte* ring, std::uint16_t slot, std::uint16_t slots,
                                      rte_mbuf* into, bool& good) const noexcept {
  std::uint16_t used = 0;
  good = true;
  bool more = true;
  for (; more && used < slots; ++used) {
    const Descriptor at = Read(ring, static_cast<std::uint16_t>(slot + used));
    more = (at.flags & kNext) != 0;
    good = good && at.length > 0 && at.length <= rte_pktmbuf_tailroom(into) && Holds(at, at.length);
    if (!good) continue;
    char* const end = rte_pktmbuf_mtod_offset(into, char*, into->data_len);
    rte_memcpy(end, memory_ + at.offset, at.length);
    into->data_len = static_cast<std::uint16_t>(into->data_len + at.length);
    into->pkt_len = into->data_len;
  }
  good = good && !more;
  return used;
}

std::uint16_t MemifMemory::Room() const noexcept {
  const std::uint16_t offered = Position(to_client_ + MemifShape::kHeadAt) - sent_;
  return static_cast<std::uint16_t>(std::min<std::uint32_t>(offered, shape_.slots));
}

std::uint16_t MemifMemory::Send(rte_mbuf** packets, std::uint16_t count) noexcept {
  count = std::min(count, Room());
  if (count == 0) return 0;
  for (std::uint16_t i = 0; i < count; ++i)
    PutPacket(static_cast<std::uint16_t>(sent_ + i), *packets[i]);
  sent_ = static_cast<std::uint16_t>(sent_ + count);
  Move(to_client_ + MemifShape::kTailAt, sent_);
  rte_pktmbuf_free_bulk(packets, count);
  return count;
}

// Into a slot that cannot hold it goes an empty packet.
void MemifMemory::PutPacket(std::uint16_t slot, const rte_mbuf& packet) const noexcept {
  const Descriptor at = Read(to_client_, slot);
  const std::uint32_t room = std::min(at.length, shape_.buffer_bytes);
  std::uint32_t length = 0;
  for (const rte_mbuf* part = &packet; part != nullptr; part = part->next) {
    const std::uint32_t bytes = part->data_len;
    if (length + bytes > room || !Holds(at, length + bytes)) {
      length = 0;
      break;
    }
    rte_memcpy(memory_ + at.offset + length, rte_pktmbuf_mtod(part, const char*), bytes);
    length += bytes;
  }
  // No flags, region 0.
  __atomic_store_n(At(to_client_, slot), std::uint64_t{length} << 32, __ATOMIC_RELAXED);
}

}  // namespace unis
