// Draws for random tests; the same from a seed on every platform.
#pragma once

#include <cstdint>

#include "engine/base/random.h"

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

// How many cases to try of so many that a build without sanitizers tries: instrumented code takes
// several times as long.
constexpr std::uint64_t Cases(std::uint64_t plain) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return plain / 10;
#else
  return plain;
#endif
}

}  // namespace unis
