// The memory of a virtio driver's program, as it has handed it to us: up to eight files, and where
// the program has them.
#pragma once

#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/base/file_memory.h"
#include "engine/base/unique_fd.h"
#include "engine/platform/links/vhost_message.h"

namespace unis {

class VhostMemory {
 public:
  static absl::StatusOr<std::shared_ptr<const VhostMemory>> Map(const VhostMessage::Table& table,
                                                                std::span<const UniqueFd> files);

  // Where `bytes` at an address are here; null: they are not wholly in one region. By an address as
  // descriptors have it, and as messages have it.
  std::byte* AtGuest(std::uint64_t address, std::uint64_t bytes) const noexcept {
    return At(&Region::guest, address, bytes);
  }
  std::byte* AtUser(std::uint64_t address, std::uint64_t bytes) const noexcept {
    return At(&Region::user, address, bytes);
  }

 private:
  struct Region {
    std::uint64_t guest, user, bytes;
    std::byte* here;
  };

  std::byte* At(std::uint64_t Region::*where, std::uint64_t address,
                std::uint64_t bytes) const noexcept {
    for (const Region& region : regions_) {
      const std::uint64_t at = address - region.*where;  // huge where it is below
      if (at < region.bytes && bytes <= region.bytes - at) return region.here + at;
    }
    return nullptr;
  }

  std::vector<FileMemory> files_;
  std::vector<Region> regions_;
};

}  // namespace unis
