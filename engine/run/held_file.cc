#include "engine/run/held_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <new>

#include "engine/base/unique_fd.h"

namespace unis {
namespace {

absl::Status CannotMake(const std::filesystem::path& path) {
  return absl::ErrnoToStatus(errno, fmt::format("cannot make {}", path.string()));
}

}  // namespace

HeldFile::HeldFile() : layout_(new HeldLayout{}, [](HeldLayout* layout) { delete layout; }) {}

absl::StatusOr<HeldFile> HeldFile::Create(const std::filesystem::path& path) {
  if (unlink(path.c_str()) != 0 && errno != ENOENT) return CannotMake(path);
  const UniqueFd file(open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  // Room is taken now: a store into a hole of a full file system would kill us.
  if (!file.valid()) return CannotMake(path);
  if (errno = posix_fallocate(file.get(), 0, sizeof(HeldLayout)); errno != 0)
    return CannotMake(path);
  void* const memory = mmap(nullptr, sizeof(HeldLayout), PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_POPULATE, file.get(), 0);
  if (memory == MAP_FAILED) return CannotMake(path);
  HeldFile held(Memory(new (memory) HeldLayout{},
                       [](HeldLayout* layout) { (void)munmap(layout, sizeof(HeldLayout)); }));
  held.layout_->version = HeldLayout::kVersion;
  held.layout_->magic.store(HeldLayout::kMagic, std::memory_order_release);
  return held;
}

absl::StatusOr<HeldFile::Note> HeldFile::Add(const HeldThread& thread) {
  for (HeldLayout::Thread& free : layout_->threads) {
    std::int32_t nobody = 0;  // the engine's threads note at the same time
    if (!free.tid.compare_exchange_strong(nobody, HeldLayout::kWriting, std::memory_order_acquire))
      continue;
    free.pid = thread.pid();
    free.start_time = thread.start_time();
    free.policy = thread.before().kernel_class.policy;
    free.priority = thread.before().kernel_class.priority;
    free.nice = thread.before().nice;
    free.slice_ns = static_cast<std::int32_t>(thread.before().slice.count());
    free.affinity = thread.before().affinity;
    free.tid.store(thread.tid(), std::memory_order_release);
    return Note(&free);
  }
  return absl::ResourceExhaustedError(
      fmt::format("more than {} threads cannot be scheduled", HeldLayout::kThreads));
}

}  // namespace unis
