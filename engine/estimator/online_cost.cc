#include "engine/estimator/online_cost.h"

#include <algorithm>

namespace unis {

void OnlineCost::Look(std::int64_t now, std::uint64_t taken, bool busy) noexcept {
  if (taken == taken_) {
    if (!busy) since_.reset();
    return;
  }
  if (since_ && taken > taken_ && costs_.size() < kMost)
    costs_.push_back(static_cast<double>(now - *since_) / static_cast<double>(taken - taken_));
  taken_ = taken;
  since_.reset();
  if (busy) since_ = now;
}

std::optional<OnlineCost::Quartiles> OnlineCost::Result() const {
  if (costs_.size() < kEnough) return std::nullopt;
  std::vector<double> sorted = costs_;
  std::ranges::sort(sorted);
  const auto at = [&sorted](std::size_t quarter) { return sorted[sorted.size() * quarter / 4]; };
  return Quartiles{.q1 = at(1), .median = at(2), .q3 = at(3)};
}

}  // namespace unis
