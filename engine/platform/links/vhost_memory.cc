#include "engine/platform/links/vhost_memory.h"

#include <utility>

namespace unis {
namespace {

constexpr std::uint64_t kMostMapped = 1ULL << 46;  // of an address

}  // namespace

absl::StatusOr<std::shared_ptr<const VhostMemory>> VhostMemory::Map(
    const VhostMessage::Table& table, std::span<const UniqueFd> files) {
  const std::uint32_t count = table.count;
  if (count == 0 || count > kVhostMostRegions || count != files.size())
    return absl::InvalidArgumentError("a table of memory without regions, or not a file for each");
  auto memory = std::make_shared<VhostMemory>();
  for (std::uint32_t i = 0; i < count; ++i) {
    const VhostMessage::Region region = table.regions[i];
    if (region.bytes == 0 || region.bytes > kMostMapped || region.offset > kMostMapped)
      return absl::InvalidArgumentError("a region of memory that is too large");
    auto file = FileMemory::Map(files[i], region.offset + region.bytes);
    if (!file.ok()) return file.status();
    memory->regions_.push_back({.guest = region.guest,
                                .user = region.user,
                                .bytes = region.bytes,
                                .here = file->data() + region.offset});
    memory->files_.push_back(*std::move(file));
  }
  return memory;
}

}  // namespace unis
