#include "models/calibrate/interval.h"

#include <algorithm>
#include <cmath>

namespace unis {
namespace {

constexpr double kOutside = 0.05;

// How many values lie outside the interval on each side: the most whose binomial tails are no more
// than `kOutside`.
std::size_t Tail(std::size_t n) {
  double term = std::pow(0.5, static_cast<double>(n)), below = term;
  std::size_t outside = 0;
  for (std::size_t i = 1; i < n / 2; ++i) {
    term *= static_cast<double>(n - i + 1) / static_cast<double>(i);
    below += term;
    if (2 * below > kOutside) break;
    outside = i;
  }
  return outside;
}

}  // namespace

Interval MedianInterval(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size(), outside = Tail(n);
  return {.samples = n,
          .median = (values[(n - 1) / 2] + values[n / 2]) / 2,
          .low = values[outside],
          .high = values[n - 1 - outside]};
}

}  // namespace unis
