// How many packets a link has carried since it is looked at, where nobody but the link itself
// tells.
#pragma once

#include <rte_ring.h>

#include <cstdint>

namespace unis {

// Put into the link, and taken out of it. One thread counts; any thread reads.
class LinkProgress {
 public:
  std::uint64_t sent() const noexcept { return __atomic_load_n(&sent_, __ATOMIC_RELAXED); }
  std::uint64_t received() const noexcept { return __atomic_load_n(&received_, __ATOMIC_RELAXED); }

 protected:
  LinkProgress() = default;
  ~LinkProgress() = default;

  std::uint64_t sent_ = 0, received_ = 0;
};

// Of a ring. Its positions have 32 bits: Sample() at least once in 2^32 packets.
class RingProgress final : public LinkProgress {
 public:
  explicit RingProgress(const rte_ring& ring)
      : ring_(ring), last_sent_(Read(ring.prod.tail)), last_received_(Read(ring.cons.tail)) {}
  void Sample() noexcept {
    Advance(sent_, last_sent_, Read(ring_.prod.tail));
    Advance(received_, last_received_, Read(ring_.cons.tail));
  }

 private:
  static std::uint32_t Read(const volatile std::uint32_t& position) noexcept {
    return __atomic_load_n(&position, __ATOMIC_ACQUIRE);
  }
  static void Advance(std::uint64_t& count, std::uint32_t& last, std::uint32_t now) noexcept {
    __atomic_store_n(&count, count + static_cast<std::uint32_t>(now - last), __ATOMIC_RELAXED);
    last = now;
  }

  const rte_ring& ring_;
  std::uint32_t last_sent_, last_received_;
};

}  // namespace unis
