#pragma once

#include <atomic>
#include <cstdint>

namespace unis {

// A counter with one writer; others may read it at any time.
class Counter {
 public:
  void Add(std::uint64_t n) noexcept {
    value_.store(value_.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }
  std::uint64_t value() const noexcept { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> value_{0};
};

}  // namespace unis
