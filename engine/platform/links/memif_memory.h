// The engine's end of a memif's memory: copies packets out of it and into it, and believes nothing
// that stands there.
//
// The client made the memory and may write all of it, at any time. So each position and descriptor
// is read once, held against bounds that are the engine's own, and then used; what the engine knows
// itself, as its own positions, it never reads back. A client that lies loses packets, its own.
#pragma once

#include <absl/status/statusor.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include "engine/base/unique_fd.h"
#include "engine/platform/links/memif_region.h"

namespace unis {

class MemifMemory {
 public:
  // Maps the client's file. It must be of the very size, and must not be able to shrink: an access
  // behind its end would kill us.
  static absl::StatusOr<MemifMemory> Map(const UniqueFd& file, const MemifShape& shape);
  ~MemifMemory();
  MemifMemory(MemifMemory&& other) noexcept;
  MemifMemory& operator=(MemifMemory&&) = delete;

  // Copies up to `count` packets of the client's, of all its queues, into new ones of `pool`.
  std::uint16_t Receive(rte_mbuf** packets, std::uint16_t count, rte_mempool* pool) noexcept;
  // Packets that Send() takes now.
  std::uint16_t Room() const noexcept;
  // Copies as many as the client offers slots for in its first queue, and frees these.
  std::uint16_t Send(rte_mbuf** packets, std::uint16_t count) noexcept;

 private:
  // As it stands in memory; 0 to 3: flags and region, 4: length, 8: offset.
  struct Descriptor {
    std::uint16_t flags, region;
    std::uint32_t length, offset;
  };

  MemifMemory(std::byte* memory, const MemifShape& shape);
  std::uint16_t ReceiveFrom(std::uint32_t queue, rte_mbuf** packets, std::uint16_t count,
                            rte_mempool* pool) noexcept;
  std::uint64_t* At(std::byte* ring, std::uint16_t slot) const noexcept;  // a descriptor
  Descriptor Read(std::byte* ring, std::uint16_t slot) const noexcept;
  bool Holds(const Descriptor& at, std::uint32_t bytes) const noexcept;
  // Takes the packet that begins at `slot`, of at most `slots`; how many it had, and whether it is
  // one.
  std::uint16_t TakePacket(std::byte* ring, std::uint16_t slot, std::uint16_t slots, rte_mbuf* into,
                           bool& good) const noexcept;
  void PutPacket(std::uint16_t slot, const rte_mbuf& packet) const noexcept;

  std::byte* memory_;
  MemifShape shape_;
  std::byte* to_client_;  // the first of these rings; those to us are first in memory
  std::array<std::uint16_t, MemifShape::kMaxQueues> received_ = {};  // our position in each to us
  std::uint16_t sent_ = 0;                                           // and in that to the client
  std::uint32_t next_ = 0;  // queue to us that is asked first
};

}  // namespace unis
