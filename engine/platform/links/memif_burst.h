// DPDK's net_memif unmaps a peer's memory as soon as the peer hangs up, on EAL's interrupt thread,
// whoever is in the middle of a burst there. Here it waits till nobody is.
#pragma once

#include <atomic>

namespace unis {

// As long as it lives the engine may touch the memory of memif peers. One thread at a time. A few
// ns.
class MemifBurst {
 public:
  // Whether the port is connected is looked at only behind this, by whoever polls it.
  MemifBurst() noexcept { under_way_.store(true, std::memory_order_seq_cst); }
  ~MemifBurst() { under_way_.store(false, std::memory_order_release); }
  MemifBurst(const MemifBurst&) = delete;
  MemifBurst& operator=(const MemifBurst&) = delete;

  static bool under_way() noexcept { return under_way_.load(std::memory_order_seq_cst); }

 private:
  static inline std::atomic<bool> under_way_ = false;
};

}  // namespace unis
