// The gaps of a Poisson process, without a logarithm for each.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numbers>

#include "engine/base/random.h"

namespace unis {

namespace exponential_internal {

constexpr unsigned kBits = 8;
// ln(1 + i / 256).
inline const auto kLogarithms = [] {
  std::array<double, (std::size_t{1} << kBits) + 1> logarithms;
  for (std::size_t i = 0; i < logarithms.size(); ++i)
    logarithms[i] = std::log1p(static_cast<double>(i) / (std::size_t{1} << kBits));
  return logarithms;
}();

}  // namespace exponential_internal

// Exponentially distributed with mean 1: −ln of what is uniform in (0, 1], m · 2^−e with m in
// [1, 2), is e · ln 2 − ln m. ln m is linear between 257 of its values, which is off by 2 · 10^−6
// at most. Never negative; at most 45.
inline double Exponential(Random& random) noexcept {
  using exponential_internal::kBits;
  using exponential_internal::kLogarithms;
  const std::uint64_t bits = random.Next() | 1;
  const int zeros = std::countl_zero(bits);
  const std::uint64_t rest = bits << zeros << 1;  // of m, without the 1 before the point
  const std::size_t at = rest >> (64 - kBits);
  const double between = static_cast<double>(rest << kBits >> 11) * 0x1p-53;
  const double log_m = kLogarithms[at] + between * (kLogarithms[at + 1] - kLogarithms[at]);
  return std::max(0.0, static_cast<double>(zeros + 1) * std::numbers::ln2 - log_m);
}

}  // namespace unis
