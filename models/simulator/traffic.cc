#include "models/simulator/traffic.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "engine/base/exponential.h"

namespace unis::sim {
namespace {

// Longer than a simulation lasts, warm-up and all: where bursts are farther apart there is no next.
constexpr double kLongestGap = 1e4 * 1e9 * static_cast<double>(kNanosecond);

}  // namespace

PacketSizes::PacketSizes(SizeMix mix, std::uint32_t fixed_size) {
  const auto shares = SharesOf(mix);
  shares_.assign(shares.begin(), shares.end());
  if (mix == SizeMix::kFixed) shares_ = {{fixed_size, 1}};
  total_weight_ = TotalWeight(shares_);
}

double PacketSizes::Share(SizeClass size) const {
  return static_cast<double>(shares_[size].weight) / total_weight_;
}

SizeClass PacketSizes::Draw(Random& random) const {
  return Pick(shares_, static_cast<std::uint32_t>(random.Unit() * total_weight_));
}

double CostOf(const FunctionSpec& function, std::uint32_t bytes) {
  const auto& table = function.cost_by_size;
  if (table.empty()) return function.cost_ns;
  const auto above =
      std::lower_bound(table.begin(), table.end(), bytes,
                       [](const auto& entry, std::uint32_t size) { return entry.first < size; });
  if (above == table.begin()) return table.front().second;
  if (above == table.end()) return table.back().second;
  const auto below = std::prev(above);
  const double share = static_cast<double>(bytes - below->first) / (above->first - below->first);
  return std::lerp(below->second, above->second, share);
}

double MeanCost(const FunctionSpec& function, const PacketSizes& sizes) {
  double mean = 0;
  for (SizeClass size = 0; size < sizes.shares().size(); ++size) {
    mean += sizes.Share(size) * CostOf(function, sizes.shares()[size].bytes);
  }
  return mean;
}

Arrivals::Arrivals(const ArrivalSpec& spec, std::uint64_t seed)
    : kind_(spec.kind), on_(spec.on * kNanosecond), off_(spec.off * kNanosecond), random_(seed) {
  if (kind_ == ArrivalKind::kSaturating) return;
  gap_ = 1e9 * static_cast<double>(kNanosecond) * spec.burst / spec.pps;
  next_ = 0;
  if (kind_ == ArrivalKind::kPoisson) Advance();
}

void Arrivals::Advance() {
  if (kind_ == ArrivalKind::kPoisson) {
    next_ += std::llround(std::min(Exponential(random_) * gap_, kLongestGap));
  } else {
    next_ = After(++bursts_);
  }
}

// From the number of bursts, not from the last arrival: roundings do not add up.
Time Arrivals::After(std::uint64_t bursts) const {
  const Time active = std::llround(std::min(static_cast<double>(bursts) * gap_, kLongestGap));
  if (kind_ == ArrivalKind::kConstant) return active;
  const Time periods = active / on_, period = on_ + off_;
  return periods < kNever / period ? periods * period + active % on_ : kNever;
}

}  // namespace unis::sim
