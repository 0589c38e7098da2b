// The middle of measurements.
#pragma once

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <vector>

namespace unis {

// The q-quantile, q from 0 to 1, by the nearest rank below. Reorders `values`, of which there is at
// least one.
inline double Quantile(std::vector<double>& values, double q) {
  const auto nth =
      values.begin() + static_cast<std::ptrdiff_t>(q * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), nth, values.end());
  return *nth;
}

// The mean of those from the first to the third quartile: outliers count for nothing, and where the
// values have two centres, it lies between them. Reorders `values`, of which there is at least one.
inline double InterquartileMean(std::vector<double>& values) {
  std::sort(values.begin(), values.end());
  const auto begin = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 4);
  const auto end = values.end() - static_cast<std::ptrdiff_t>((values.size() - 1) / 4);
  return std::accumulate(begin, end, 0.0) / static_cast<double>(end - begin);
}

}  // namespace unis
