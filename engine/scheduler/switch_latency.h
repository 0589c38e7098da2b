// How long a switch takes, from the decision until the next task takes packets. The first value is
// measured before the chain runs; later ones are seen while it runs.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>

#include "engine/scheduler/components.h"

namespace unis {

class SwitchLatency {
 public:
  // A sample counts for no less than `first`, because packets may come late in a turn, and for no
  // more than four times as much.
  explicit SwitchLatency(Nanoseconds first) : first_(first), ns_(first) { samples_.fill(first); }

  // The median of the last five samples: an interrupt changes nothing.
  void Add(Nanoseconds sample) noexcept {
    samples_[next_] = std::clamp(sample, first_, Most());
    next_ = (next_ + 1) % samples_.size();
    auto sorted = samples_;
    std::nth_element(sorted.begin(), sorted.begin() + kMiddle, sorted.end());
    ns_ = sorted[kMiddle];
  }
  Nanoseconds ns() const noexcept { return ns_; }
  Nanoseconds first() const noexcept { return first_; }
  Nanoseconds Most() const noexcept { return 4 * first_; }

 private:
  static constexpr std::ptrdiff_t kMiddle = 2;
  std::array<Nanoseconds, 2 * kMiddle + 1> samples_{};
  std::size_t next_ = 0;
  Nanoseconds first_, ns_;
};

}  // namespace unis
