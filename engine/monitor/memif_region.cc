#include "engine/monitor/memif_region.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>

namespace unis {
namespace {

namespace fs = std::filesystem;

// The layout of a region (memif protocol 2.0): the ring to the server, the ring to the client, the
// buffers. A ring is a header of two cache lines, one for each position, and its descriptors.
constexpr std::uint32_t kCookie = 0x3E31F20;
constexpr std::size_t kHeadAt = 6, kTailAt = 64, kDescriptorsAt = 128, kDescriptorBytes = 16;

std::size_t RingBytes(const MemifShape& shape) {
  return kDescriptorsAt + kDescriptorBytes * shape.slots;
}

class File {
 public:
  explicit File(const fs::path& path) : fd_(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}
  ~File() {
    if (fd_ >= 0) close(fd_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int fd() const { return fd_; }

 private:
  int fd_;
};

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

bool HasRing(const std::byte* at) {
  std::uint32_t cookie = 0;
  std::memcpy(&cookie, at, sizeof(cookie));
  return cookie == kCookie;
}

}  // namespace

std::size_t MemifShape::RegionBytes() const {
  return 2 * (RingBytes(*this) + std::size_t{slots} * buffer_bytes);
}

absl::StatusOr<MemifRegion> MemifRegion::Find(pid_t pid, const MemifShape& shape, ino_t inode) {
  const std::size_t rings = 2 * RingBytes(shape);
  std::optional<MemifRegion> found;
  std::size_t regions = 0;
  const auto look = [&](const fs::path& path, const struct stat& status) {
    if (!S_ISREG(status.st_mode) || static_cast<std::size_t>(status.st_size) != shape.RegionBytes())
      return true;
    if (inode != 0 && status.st_ino != inode) return true;
    if (found && found->device_ == status.st_dev && found->inode_ == status.st_ino) return true;
    const File file(path);
    // A file that may shrink would take our mapping, and with the next look us, along. Asked
    // before its size: it could shrink and be sealed in between.
    const int seals = fcntl(file.fd(), F_GET_SEALS);
    if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) return true;
    // What was opened need not be what was looked at: the number may be another file's by now.
    struct stat opened {};
    if (fstat(file.fd(), &opened) != 0 || opened.st_dev != status.st_dev ||
        opened.st_ino != status.st_ino || opened.st_size != status.st_size)
      return true;
    void* const memory = mmap(nullptr, rings, PROT_READ, MAP_SHARED, file.fd(), 0);
    if (memory == MAP_FAILED) return true;
    MemifRegion region(static_cast<const std::byte*>(memory), shape, status.st_dev, status.st_ino);
    if (HasRing(region.memory_) && HasRing(region.memory_ + RingBytes(shape))) {
      ++regions;
      found = std::move(region);
    }
    return true;
  };
  if (auto status = ForEachFile(pid, look); !status.ok()) return status;
  if (!found) {
    return absl::NotFoundError(fmt::format(
        "process {} has no memif of {} slots with buffers of {} bytes, one queue a direction, up",
        pid, shape.slots, shape.buffer_bytes));
  }
  if (regions > 1) {
    return absl::FailedPreconditionError(fmt::format(
        "process {} has {} memifs of {} slots with buffers of {} bytes; give each its own size",
        pid, regions, shape.slots, shape.buffer_bytes));
  }
  return *std::move(found);
}

MemifRegion::~MemifRegion() {
  if (memory_ != nullptr) munmap(const_cast<std::byte*>(memory_), 2 * RingBytes(shape_));
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

MemifPositions MemifRegion::Positions(MemifDirection direction) const {
  const std::byte* const ring =
      memory_ + (direction == MemifDirection::kToServer ? 0 : RingBytes(shape_));
  return {.head = reinterpret_cast<const std::uint16_t*>(ring + kHeadAt),
          .tail = reinterpret_cast<const std::uint16_t*>(ring + kTailAt)};
}

Link MemifRegion::link(MemifDirection direction) const {
  const MemifPositions at = Positions(direction);
  return direction == MemifDirection::kToServer ? Link::OfMemifToServer(at, shape_.slots)
                                                : Link::OfMemifToClient(at, shape_.slots);
}

bool MemifRegion::HeldBy(pid_t pid) const {
  bool held = false;
  const auto look = [&](const fs::path&, const struct stat& status) {
    held = status.st_dev == device_ && status.st_ino == inode_;
    return !held;
  };
  return ForEachFile(pid, look).ok() && held;
}

// The sender moves the head where it is the client, else the tail.
MemifProgress::MemifProgress(const MemifRegion& region, MemifDirection direction) {
  Follow(region, direction);
}

void MemifProgress::Follow(const MemifRegion& region, MemifDirection direction) {
  const MemifPositions at = region.Positions(direction);
  const bool to_server = direction == MemifDirection::kToServer;
  sent_at_ = to_server ? at.head : at.tail;
  received_at_ = to_server ? at.tail : at.head;
  last_sent_ = Read(sent_at_);
  last_received_ = Read(received_at_);
}

void MemifProgress::Leave() noexcept {
  Sample();
  sent_at_ = &last_sent_;
  received_at_ = &last_received_;
}

std::uint16_t MemifProgress::Read(const std::uint16_t* position) noexcept {
  return __atomic_load_n(position, __ATOMIC_ACQUIRE);
}

void MemifProgress::Sample() noexcept {
  const std::uint16_t sent = Read(sent_at_), received = Read(received_at_);
  __atomic_store_n(&sent_, sent_ + static_cast<std::uint16_t>(sent - last_sent_), __ATOMIC_RELAXED);
  __atomic_store_n(&received_, received_ + static_cast<std::uint16_t>(received - last_received_),
                   __ATOMIC_RELAXED);
  last_sent_ = sent;
  last_received_ = received;
}

}  // namespace unis
