// The memory of a memif, read from outside: nothing of ours is in the two programs that share it.
//
// A memif's client makes one anonymous file (memfd) for all rings and all packet buffers and hands
// it to the server; both keep it open, so that /proc/PID/fd of either leads to it. Each memif of a
// run has a buffer size of its own, so the size of the file tells which one it is.
#pragma once

#include <absl/status/statusor.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>

#include "engine/monitor/occupancy.h"

namespace unis {

enum class MemifDirection : std::uint8_t { kToServer, kToClient };

// What the two programs agreed on. A region (memif protocol 2.0) is the rings to the server, the
// rings to the client, the buffers. A ring is a header of two cache lines, one for each position,
// and its descriptors.
struct MemifShape {
  static constexpr std::size_t kHeadAt = 6, kTailAt = 64, kDescriptorsAt = 128;
  static constexpr std::size_t kDescriptorBytes = 16;
  static constexpr std::uint32_t kMaxSlots = 1U << 14;  // as DPDK's net_memif has it
  static constexpr std::uint32_t kMaxBufferBytes = 0xffff;
  static constexpr std::uint32_t kMaxQueues = 16;

  std::uint32_t slots;                         // of each ring; a power of two
  std::uint32_t buffer_bytes;                  // of each packet buffer
  std::uint32_t to_server = 1, to_client = 1;  // queues, a ring each

  constexpr std::uint32_t Rings() const { return to_server + to_client; }
  std::size_t RingBytes() const { return kDescriptorsAt + kDescriptorBytes * slots; }
  std::size_t RegionBytes() const {
    return Rings() * (RingBytes() + std::size_t{slots} * buffer_bytes);
  }
};

// Mapped for reading as long as it lives, also when both programs are gone: what they left under
// way stays readable. A client that connects again makes a new region, which is to be found anew.
class MemifRegion {
 public:
  // Looks through the open files of `pid`, which may be our own. NotFound: it has none of that
  // size (yet), perhaps one with more or fewer queues; FailedPrecondition: it has several. With an
  // `inode`: only the file of that one.
  static absl::StatusOr<MemifRegion> Find(pid_t pid, const MemifShape& shape, ino_t inode = 0);
  ~MemifRegion();
  MemifRegion(MemifRegion&& other) noexcept;
  MemifRegion& operator=(MemifRegion&& other) noexcept;

  Occupancy occupancy(MemifDirection direction) const;  // valid as long as the region
  // Is this still the region of `pid`'s memif of that shape?
  bool HeldBy(pid_t pid) const;

 private:
  MemifRegion(const std::byte* memory, const MemifShape& shape, dev_t device, ino_t inode)
      : memory_(memory), shape_(shape), device_(device), inode_(inode) {}

  const std::byte* memory_;
  MemifShape shape_;
  dev_t device_;
  ino_t inode_;
};

}  // namespace unis
