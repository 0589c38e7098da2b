#include "engine/platform/links/memif_region.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>
#include <utility>

#include "engine/base/unique_fd.h"

namespace unis {
namespace {

namespace fs = std::filesystem;

constexpr std::uint32_t kCookie = 0x3E31F20;

// What is mapped: all rings, both ways, and no buffer.
std::size_t MappedBytes(const MemifShape& shape) { return shape.Rings() * shape.RingBytes(); }

// Calls visit(path, status) for each open file of a process, until it returns false.
template <typename Visit>
absl::Status ForEachFile(pid_t pid, Visit visit) {
  const fs::path folder = fmt::format("/proc/{}/fd", pid);
  std::error_code error;
  auto file = fs::directory_iterator(folder, error);
  if (error) {
    return absl::NotFoundError(
        fmt::format("cannot look at the files of process {}: {}", pid, error.message()));
  }
  for (; file != fs::directory_iterator(); file.increment(error)) {
    struct stat status {};
    if (stat(file->path().c_str(), &status) == 0 && !visit(file->path(), status)) break;
    if (error) break;  // the process ends
  }
  return absl::OkStatus();
}

bool HasRings(const std::byte* at, const MemifShape& shape) {
  for (std::uint32_t ring = 0; ring < shape.Rings(); ++ring) {
    std::uint32_t cookie = 0;
    std::memcpy(&cookie, at + ring * shape.RingBytes(), sizeof(cookie));
    if (cookie != kCookie) return false;
  }
  return true;
}

// How many queues, both ways together, a memif of these slots and buffers has whose memory is so
// large; 0: none is.
std::uint32_t QueuesOf(std::size_t bytes, const MemifShape& shape) {
  const std::size_t each = shape.RegionBytes() / shape.Rings();
  const std::size_t queues = bytes / each;
  return bytes % each == 0 && queues >= 2 && queues <= std::size_t{2} * MemifShape::kMaxQueues
             ? static_cast<std::uint32_t>(queues)
             : 0;
}

absl::Status NotFound(pid_t pid, const MemifShape& shape, std::uint32_t other_queues) {
  return absl::NotFoundError(fmt::format(
      "process {} has no memif of {} slots with buffers of {} bytes and {} + {} queues (to the "
      "server + to the client), up{}",
      pid, shape.slots, shape.buffer_bytes, shape.to_server, shape.to_client,
      other_queues == 0 ? "" : fmt::format("; it has one with {} queues in all", other_queues)));
}

}  // namespace

absl::StatusOr<MemifRegion> MemifRegion::Find(pid_t pid, const MemifShape& shape, ino_t inode) {
  std::optional<MemifRegion> found;
  std::size_t regions = 0;
  std::uint32_t other_queues = 0;
  const auto look = [&](const fs::path& path, const struct stat& status) {
    if (!S_ISREG(status.st_mode)) return true;
    if (static_cast<std::size_t>(status.st_size) != shape.RegionBytes()) {
      other_queues =
          std::max(other_queues, QueuesOf(static_cast<std::size_t>(status.st_size), shape));
      return true;
    }
    if (inode != 0 && status.st_ino != inode) return true;
    if (found && found->device_ == status.st_dev && found->inode_ == status.st_ino) return true;
    const UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
    // A file that may shrink would take our mapping, and with the next look us, along. Asked
    // before its size: it could shrink and be sealed in between.
    const int seals = fcntl(file.get(), F_GET_SEALS);
    if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) return true;
    // What was opened need not be what was looked at: the number may be another file's by now.
    struct stat opened {};
    if (fstat(file.get(), &opened) != 0 || opened.st_dev != status.st_dev ||
        opened.st_ino != status.st_ino || opened.st_size != status.st_size)
      return true;
    void* const memory = mmap(nullptr, MappedBytes(shape), PROT_READ, MAP_SHARED, file.get(), 0);
    if (memory == MAP_FAILED) return true;
    MemifRegion region(static_cast<const std::byte*>(memory), shape, status.st_dev, status.st_ino);
    if (HasRings(region.memory_, shape)) {
      ++regions;
      found = std::move(region);
    }
    return true;
  };
  if (auto status = ForEachFile(pid, look); !status.ok()) return status;
  if (!found) return NotFound(pid, shape, other_queues);
  if (regions > 1) {
    return absl::FailedPreconditionError(fmt::format(
        "process {} has {} memifs of {} slots with buffers of {} bytes; give each its own size",
        pid, regions, shape.slots, shape.buffer_bytes));
  }
  return *std::move(found);
}

MemifRegion::~MemifRegion() {
  if (memory_ != nullptr) munmap(const_cast<std::byte*>(memory_), MappedBytes(shape_));
}

MemifRegion::MemifRegion(MemifRegion&& other) noexcept
    : memory_(std::exchange(other.memory_, nullptr)),
      shape_(other.shape_),
      device_(other.device_),
      inode_(other.inode_) {}

MemifRegion& MemifRegion::operator=(MemifRegion&& other) noexcept {
  std::swap(memory_, other.memory_);
  std::swap(shape_, other.shape_);
  std::swap(device_, other.device_);
  std::swap(inode_, other.inode_);
  return *this;
}

Occupancy MemifRegion::occupancy(MemifDirection direction) const {
  const bool to_server = direction == MemifDirection::kToServer;
  const std::byte* const ring = memory_ + (to_server ? 0 : shape_.to_server * shape_.RingBytes());
  const Occupancy::Counters positions{.ahead = ring + MemifShape::kHeadAt,
                                      .behind = ring + MemifShape::kTailAt,
                                      .width = Occupancy::Width::k16,
                                      .queues = to_server ? shape_.to_server : shape_.to_client,
                                      .stride = shape_.RingBytes()};
  // To the server: the client fills slots, the server empties them. To the client: the client
  // offers free slots, the server uses them.
  return to_server ? Occupancy::Filled(positions, shape_.slots)
                   : Occupancy::Free(positions, shape_.slots);
}

bool MemifRegion::HeldBy(pid_t pid) const {
  bool held = false;
  const auto look = [&](const fs::path&, const struct stat& status) {
    held = status.st_dev == device_ && status.st_ino == inode_;
    return !held;
  };
  return ForEachFile(pid, look).ok() && held;
}

}  // namespace unis
