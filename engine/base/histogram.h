// Latencies over many orders of magnitude in a fixed, small memory: the bucket layout of
// HdrHistogram (G. Tene), so that its tools read our files and its percentiles equal ours.
//
// Values up to 2^kSubBucketBits are counted exactly; above, every power of two is divided into
// 2^(kSubBucketBits − 1) buckets, which keeps the relative error below 10^−kDigits.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace unis {

template <unsigned kDigits>
class HdrHistogram {
  static_assert(kDigits >= 1 && kDigits <= 4);
  static constexpr unsigned PowerOfTen(unsigned n) { return n == 0 ? 1 : 10 * PowerOfTen(n - 1); }

 public:
  static constexpr unsigned kSubBucketBits = std::bit_width(2 * PowerOfTen(kDigits) - 1);
  // 18 minutes in ns; what lasts longer is counted in the last bucket.
  static constexpr std::uint64_t kHighest = (std::uint64_t{1} << 40) - 1;

  HdrHistogram() : counts_(Index(kHighest) + 1) {}

  void Record(std::uint64_t value, std::uint64_t count = 1) noexcept {
    counts_[Index(std::min(value, kHighest))] += count;
    total_ += count;
  }

  void Merge(const HdrHistogram& other) noexcept {
    for (std::size_t i = 0; i < counts_.size(); ++i) counts_[i] += other.counts_[i];
    total_ += other.total_;
  }

  // Takes off what was there at an earlier moment.
  void Subtract(const HdrHistogram& earlier) noexcept {
    for (std::size_t i = 0; i < counts_.size(); ++i) counts_[i] -= earlier.counts_[i];
    total_ -= earlier.total_;
  }

  std::uint64_t Count() const noexcept { return total_; }

  // The highest value that the histogram cannot tell from the one at this percentile (0 to 100);
  // 0 if nothing was recorded.
  std::uint64_t ValueAtPercentile(double percentile) const noexcept {
    if (total_ == 0) return 0;
    const double share = std::clamp(percentile, 0.0, 100.0) / 100.0;
    const auto nearest = static_cast<std::uint64_t>(share * static_cast<double>(total_) + 0.5);
    const std::uint64_t rank = std::clamp<std::uint64_t>(nearest, 1, total_);
    std::uint64_t seen = 0;
    for (std::size_t i = 0; i < counts_.size(); ++i) {
      seen += counts_[i];
      if (seen >= rank) return LowestEquivalent(i + 1) - 1;
    }
    return kHighest;
  }

  // Calls visit(lowest equivalent value, count) for every bucket with a count, ascending.
  template <typename Visitor>
  void ForEach(Visitor&& visit) const {
    for (std::size_t i = 0; i < counts_.size(); ++i) {
      if (counts_[i] != 0) visit(LowestEquivalent(i), counts_[i]);
    }
  }

 private:
  static constexpr std::size_t kHalf = std::size_t{1} << (kSubBucketBits - 1);

  // The exact values fill the first 2 · kHalf buckets, every further power of two kHalf more.
  static constexpr std::size_t Index(std::uint64_t value) noexcept {
    const auto width = static_cast<unsigned>(std::bit_width(value));
    if (width <= kSubBucketBits) return static_cast<std::size_t>(value);
    const unsigned shift = width - kSubBucketBits;
    return shift * kHalf + static_cast<std::size_t>(value >> shift);
  }

  static constexpr std::uint64_t LowestEquivalent(std::size_t index) noexcept {
    if (index < 2 * kHalf) return index;
    const std::size_t shift = index / kHalf - 1;
    return static_cast<std::uint64_t>(index - shift * kHalf) << shift;
  }

  std::vector<std::uint64_t> counts_;
  std::uint64_t total_ = 0;
};

// Two digits: 33 KB, and a few hundred buckets to send for a real run.
using LatencyHistogram = HdrHistogram<2>;

}  // namespace unis
