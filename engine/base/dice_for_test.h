// Draws for random tests; the same from a seed on every platform.
#pragma once

#include <cstdint>

#include "engine/base/random.h"
#include "engine/base/sanitizer.h"

namespace unis {

class Dice {
 public:
  explicit Dice(std::uint64_t seed) : random_(seed) {}
  // Both inclusive.
  std::uint32_t Between(std::uint32_t low, std::uint32_t high) {
    return low + static_cast<std::uint32_t>(random_.Next() % (high - low + 1));
  }
  bool OneIn(std::uint32_t n) { return Between(1, n) == 1; }

 private:
  Random random_;
};

// The number of cases to try: `plain` without sanitizers, a tenth under them, where code is several
// times as slow.
constexpr std::uint64_t Cases(std::uint64_t plain) {
#if UNIS_ADDRESS_SANITIZER || UNIS_THREAD_SANITIZER
  return plain / 10;
#else
  return plain;
#endif
}

}  // namespace unis
