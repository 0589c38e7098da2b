// How long a switch takes, from the decision until the next task takes packets: what was measured
// before the chain runs, with two threads that only spin, and then as it is seen.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>

#include "engine/scheduler/components.h"

namespace unis {

class SwitchTime {
 public:
  // What is seen counts for no less than `first`, for a task whose packets come late in its turn
  // may be left before it is seen, and for no more than four times.
  explicit SwitchTime(Nanoseconds first) : first_(first), ns_(first) { seen_.fill(first); }

  // The median of the last five: an interrupt changes nothing.
  void See(Nanoseconds took) noexcept {
    seen_[next_] = std::clamp(took, first_, Most());
    next_ = (next_ + 1) % seen_.size();
    auto sorted = seen_;
    std::nth_element(sorted.begin(), sorted.begin() + kMiddle, sorted.end());
    ns_ = sorted[kMiddle];
  }
  Nanoseconds ns() const noexcept { return ns_; }
  Nanoseconds first() const noexcept { return first_; }
  Nanoseconds Most() const noexcept { return 4 * first_; }

 private:
  static constexpr std::ptrdiff_t kMiddle = 2;
  std::array<Nanoseconds, 2 * kMiddle + 1> seen_{};
  std::size_t next_ = 0;
  Nanoseconds first_, ns_;
};

}  // namespace unis
