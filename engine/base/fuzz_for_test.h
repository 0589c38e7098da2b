// For how long a test lies to the code, and with which draws: UNIS_FUZZ_SECONDS, UNIS_FUZZ_SEED.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdlib>

namespace unis {

inline std::chrono::duration<double> FuzzTime() {
  const char* seconds = std::getenv("UNIS_FUZZ_SECONDS");
  return std::chrono::duration<double>(seconds != nullptr ? std::atof(seconds) : 1);
}

// Another one each time, unless it is stated. A failure should tell it.
inline std::uint64_t FuzzSeed() {
  const char* seed = std::getenv("UNIS_FUZZ_SEED");
  if (seed != nullptr) return std::strtoull(seed, nullptr, 10);
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
}

}  // namespace unis
