#include "engine/base/file_memory.h"

#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <utility>

namespace unis {
namespace {

struct Slot {
  std::atomic<bool> taken;
  std::atomic<std::uintptr_t> begin, end;  // 0: nothing is mapped
};

// A handler of a signal has no other way to find them.
constinit std::array<Slot, FileMemory::kMost> slots{};

void OnBusError(int number, siginfo_t* info, void*) {
  const int error = errno;
  const auto at = reinterpret_cast<std::uintptr_t>(info->si_addr);
  for (Slot& slot : slots) {
    const std::uintptr_t begin = slot.begin.load(), end = slot.end.load();
    if (info->si_code <= 0 || at < begin || at >= end) continue;
    void* const zeros = mmap(reinterpret_cast<void*>(begin), end - begin, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
    if (zeros == MAP_FAILED) break;
    errno = error;
    return;
  }
  // Not ours: it ends the process, as without us.
  signal(number, SIG_DFL);
  raise(number);
}

void InstallHandler() {
  static std::once_flag once;
  std::call_once(once, [] {
    struct sigaction action {};
    action.sa_sigaction = OnBusError;
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    sigaction(SIGBUS, &action, nullptr);
  });
}

// kMost: none is free.
std::size_t TakeSlot() {
  for (std::size_t at = 0; at < slots.size(); ++at)
    if (!slots[at].taken.exchange(true)) return at;
  return FileMemory::kMost;
}

bool OfMemory(const UniqueFd& file, struct stat& status) {
  struct statfs system {};
  return fstat(file.get(), &status) == 0 && S_ISREG(status.st_mode) &&
         fstatfs(file.get(), &system) == 0 &&
         (system.f_type == TMPFS_MAGIC || system.f_type == HUGETLBFS_MAGIC);
}

}  // namespace

absl::StatusOr<FileMemory> FileMemory::Map(const UniqueFd& file, std::size_t bytes) {
  struct stat status {};
  if (!file.valid() || !OfMemory(file, status))
    return absl::InvalidArgumentError("no file of memory (tmpfs, hugetlbfs)");
  // Of hugepages only whole ones can be mapped.
  const auto page = static_cast<std::size_t>(status.st_blksize);
  const std::size_t whole = (bytes + page - 1) / page * page;
  if (bytes == 0 || whole < bytes || static_cast<std::size_t>(status.st_size) < bytes)
    return absl::InvalidArgumentError(
        fmt::format("a file of {} bytes of memory, of which {} are wanted", status.st_size, bytes));
  InstallHandler();
  const std::size_t at = TakeSlot();
  if (at == kMost) return absl::ResourceExhaustedError("too many files of memory are mapped");
  void* const memory =
      mmap(nullptr, whole, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file.get(), 0);
  if (memory == MAP_FAILED) {
    slots[at].taken = false;
    return absl::InternalError(fmt::format("cannot map the memory: {}", std::strerror(errno)));
  }
  slots[at].end = reinterpret_cast<std::uintptr_t>(memory) + whole;
  slots[at].begin = reinterpret_cast<std::uintptr_t>(memory);
  return FileMemory(static_cast<std::byte*>(memory), whole, at);
}

FileMemory::~FileMemory() {
  if (memory_ == nullptr) return;
  // Before another mapping can have the addresses, which the handler must leave alone.
  slots[slot_].end = 0;
  slots[slot_].begin = 0;
  munmap(memory_, bytes_);
  slots[slot_].taken = false;
}

FileMemory::FileMemory(FileMemory&& other) noexcept
    : memory_(std::exchange(other.memory_, nullptr)), bytes_(other.bytes_), slot_(other.slot_) {}

}  // namespace unis
