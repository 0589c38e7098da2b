// The mixes of packet sizes of the contract, defined once: the traffic source sends them and the
// simulator reckons with them.
#pragma once

#include <cstdint>
#include <span>

namespace unis {

enum class SizeMix : std::uint8_t { kFixed, kImix, kDatacenter };

struct SizeShare {
  std::uint32_t bytes;   // with FCS
  std::uint32_t weight;  // of the sum over the mix
};

inline constexpr SizeShare kImix[] = {{64, 7}, {594, 4}, {1518, 1}};
// The two humps of the trace that the paper replays (section 5.4).
inline constexpr SizeShare kDatacenter[] = {{200, 1}, {1400, 1}};

// Empty for kFixed, which has the size that it is given.
constexpr std::span<const SizeShare> SharesOf(SizeMix mix) {
  switch (mix) {
    case SizeMix::kFixed:
      break;
    case SizeMix::kImix:
      return kImix;
    case SizeMix::kDatacenter:
      return kDatacenter;
  }
  return {};
}

constexpr std::uint32_t TotalWeight(std::span<const SizeShare> shares) {
  std::uint32_t sum = 0;
  for (const SizeShare& share : shares) sum += share.weight;
  return sum;
}

// `ticket` in [0, TotalWeight).
constexpr std::uint32_t Pick(std::span<const SizeShare> shares, std::uint32_t ticket) {
  std::uint32_t position = 0;
  while (ticket >= shares[position].weight) ticket -= shares[position++].weight;
  return position;
}

}  // namespace unis
