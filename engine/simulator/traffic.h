// Where a chain's packets come from: how large they are and when they arrive.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/simulator/packets.h"
#include "engine/simulator/scenario.h"

namespace unis::sim {

// SplitMix64 (G. L. Steele, D. Lea, C. H. Flood): the same numbers on every platform, which the
// distributions of <random> do not promise.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t Next() {
    std::uint64_t z = state_ += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }

  // In [0, 1).
  double Unit() { return static_cast<double>(Next() >> 11) * 0x1p-53; }

 private:
  std::uint64_t state_;
};

// The sizes of a mix and how often each occurs.
class PacketSizes {
 public:
  PacketSizes(SizeMix mix, std::uint32_t fixed_size);

  const std::vector<std::uint32_t>& bytes() const { return bytes_; }
  double Share(SizeClass size) const;
  SizeClass Draw(Random& random) const;

 private:
  std::vector<std::uint32_t> bytes_;
  std::vector<std::uint32_t> weight_;
  std::uint32_t total_weight_ = 0;
};

// ns for a packet of this size.
double CostOf(const NfSpec& nf, std::uint32_t bytes);

// ns, over the sizes of the mix.
double MeanCost(const NfSpec& nf, const PacketSizes& sizes);

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
