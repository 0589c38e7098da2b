// The middle of measurements, and how sure it is.
#pragma once

#include <cstddef>
#include <vector>

namespace unis {

// Fewer samples have no interval of 95 %.
constexpr std::size_t kLeastSamples = 6;

struct Interval {
  std::size_t samples = 0;
  double median = 0;
  double low = 0, high = 0;  // of 95 %, for the median
};

// By order statistics, so for any distribution. Of `kLeastSamples` to 1000 values.
Interval MedianInterval(std::vector<double> values);

}  // namespace unis
