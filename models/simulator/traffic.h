// Where a chain's packets come from: how large they are and when they arrive.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/base/random.h"
#include "engine/base/size_mix.h"
#include "models/simulator/packets.h"
#include "models/simulator/scenario.h"

namespace unis::sim {

// The sizes of a mix and how often each occurs.
class PacketSizes {
 public:
  PacketSizes(SizeMix mix, std::uint32_t fixed_size);

  // A SizeClass is a position here.
  const std::vector<SizeShare>& shares() const { return shares_; }
  double Share(SizeClass size) const;
  SizeClass Draw(Random& random) const;

 private:
  std::vector<SizeShare> shares_;
  std::uint32_t total_weight_;
};

// ns for a packet of this size.
double CostOf(const FunctionSpec& function, std::uint32_t bytes);

// ns, over the sizes of the mix.
double MeanCost(const FunctionSpec& function, const PacketSizes& sizes);

// When bursts arrive. Saturating traffic has no times of its own: it follows the first ring.
class Arrivals {
 public:
  Arrivals(const ArrivalSpec& spec, std::uint64_t seed);

  Time next() const { return next_; }
  // The burst of next() has arrived.
  void Advance();

 private:
  Time After(std::uint64_t bursts) const;

  ArrivalKind kind_;
  double gap_ = 0;  // ps between bursts, mean
  Time on_ = 0;
  Time off_ = 0;
  Random random_;
  std::uint64_t bursts_ = 0;
  Time next_ = kNever;
};

}  // namespace unis::sim
