// Whoever profiles a program: looks for the file of its passages, says what to sample, and reads.
#pragma once

#include <fcntl.h>
#include <rte_mbuf.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string>
#include <tuple>
#include <vector>

#include "ports/unis_ports/passages_shm.h"

inline bool operator==(const unis_passage& a, const unis_passage& b) {
  const auto all = [](const unis_passage& of) {
    return std::tuple(of.stamp, of.begin, of.end, of.kind, of.packets, of.port);
  };
  return all(a) == all(b);
}

namespace unis {

class PassagesForTest {
 public:
  static constexpr std::uint64_t kMark = 0x6d61726b6d61726b;

  explicit PassagesForTest(unis_passages* shm) : shm_(shm) {}
  // Of this process; null where there is none.
  static unis_passages* Find() {
    for (const auto& file : std::filesystem::directory_iterator("/proc/self/fd")) {
      std::error_code gone;
      if (!std::filesystem::read_symlink(file.path(), gone)
               .native()
               .starts_with("/memfd:" UNIS_PASSAGES_FILE))
        continue;
      const int fd = open(file.path().c_str(), O_RDWR | O_CLOEXEC);
      const bool sealed = (fcntl(fd, F_GET_SEALS) & F_SEAL_SHRINK) != 0;
      void* const memory =
          mmap(nullptr, sizeof(unis_passages), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
      close(fd);
      return !sealed || memory == MAP_FAILED ? nullptr : static_cast<unis_passages*>(memory);
    }
    return nullptr;
  }

  void Begin(std::uint64_t origin, std::uint64_t period, std::uint32_t looks = 1,
             std::uint64_t until = UINT64_MAX) {
    Store(shm_->mark, kMark);
    Store(shm_->period, period);
    Store(shm_->until, until);
    Store(shm_->looks, looks);
    Store(shm_->origin, origin);
  }
  void End() { Store(shm_->looks, std::uint32_t{0}); }

  // Null: it has no place.
  unis_passage_log* Log(pid_t tid = gettid()) const {
    for (unis_passage_log& log : shm_->logs)
      if (__atomic_load_n(&log.tid, __ATOMIC_ACQUIRE) == tid) return &log;
    return nullptr;
  }
  std::uint64_t Written(pid_t tid = gettid()) const {
    const unis_passage_log* log = Log(tid);
    return log == nullptr ? 0 : __atomic_load_n(&log->written, __ATOMIC_ACQUIRE);
  }
  // What this thread has noted since it had written `since`.
  std::vector<unis_passage> Since(std::uint64_t since) const {
    std::vector<unis_passage> passages;
    for (std::uint64_t i = since; i < Written(); ++i)
      passages.push_back(Log()->passages[i % UNIS_PASSAGES_KEPT]);
    return passages;
  }

  // Writes into a packet what a synthetic one has.
  static void Stamp(rte_mbuf* packet, std::uint64_t stamp, std::uint64_t mark = kMark) {
    const std::array<std::uint64_t, 2> payload = {mark, stamp};
    std::memcpy(rte_pktmbuf_mtod_offset(packet, char*, UNIS_PASSAGES_MARK_AT), payload.data(),
                sizeof(payload));
  }

 private:
  template <typename T>
  static void Store(T& to, T value) {
    __atomic_store_n(&to, value, __ATOMIC_RELEASE);
  }

  unis_passages* shm_;
};

}  // namespace unis
