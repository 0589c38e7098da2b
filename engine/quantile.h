// The q-quantile of measurements, q from 0 to 1, by the nearest rank below.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace unis {

// Reorders `values`, of which there is at least one.
inline double Quantile(std::vector<double>& values, double q) {
  const auto nth =
      values.begin() + static_cast<std::ptrdiff_t>(q * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), nth, values.end());
  return *nth;
}

}  // namespace unis
