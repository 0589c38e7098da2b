#include "engine/base/turns.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <filesystem>

#include "engine/base/unique_fd.h"

namespace unis {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTarget = "/memfd:" UNIS_TURNS_FILE;

// Null: it is not what it is named, or may be taken from under us.
unis_turns* Map(const fs::path& path) {
  const UniqueFd file(open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  // Asked for before the size: it could shrink and be sealed in between.
  const int seals = fcntl(file.get(), F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) return nullptr;
  struct stat status {};
  if (fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode) ||
      status.st_size != static_cast<off_t>(sizeof(unis_turns)))
    return nullptr;
  void* const memory =
      mmap(nullptr, sizeof(unis_turns), PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  return memory == MAP_FAILED ? nullptr : static_cast<unis_turns*>(memory);
}

}  // namespace

absl::StatusOr<std::shared_ptr<Turns>> Turns::Find(pid_t pid) {
  const fs::path folder = fmt::format("/proc/{}/fd", pid);
  std::error_code error;
  for (auto file = fs::directory_iterator(folder, error); file != fs::directory_iterator();
       file.increment(error)) {
    if (error) break;
    std::error_code gone;
    if (!fs::read_symlink(file->path(), gone).native().starts_with(kTarget)) continue;
    unis_turns* const shm = Map(file->path());
    if (shm == nullptr) continue;
    std::shared_ptr<Turns> turns(new Turns(shm));
    const std::uint32_t version = __atomic_load_n(&shm->version, __ATOMIC_ACQUIRE);
    if (version == 0) continue;  // the plug-in is making the file
    if (version != UNIS_TURNS_VERSION) {
      return absl::FailedPreconditionError(fmt::format(
          "process {} has a plug-in that tells its turns in version {}, and this engine "
          "knows version {}",
          pid, version, UNIS_TURNS_VERSION));
    }
    return turns;
  }
  return absl::NotFoundError(fmt::format("process {} has not UNiS' EAL plug-in loaded", pid));
}

Turns::~Turns() { munmap(shm_, sizeof(unis_turns)); }

unis_turn* Turns::Of(pid_t tid) noexcept {
  if (tid <= 0) return nullptr;  // 0 is in places that are free
  for (unis_turn& turn : shm_->threads) {
    if (__atomic_load_n(&turn.tid, __ATOMIC_ACQUIRE) == tid) return &turn;
  }
  return nullptr;
}

}  // namespace unis
