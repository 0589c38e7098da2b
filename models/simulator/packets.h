// Packets of a simulation: nothing but when they arrived and how large they are, so neighbours that
// agree in both are one run.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace unis::sim {

// Virtual time in picoseconds: the cost of a light packet is a few ns and must not be rounded.
using Time = std::int64_t;
inline constexpr Time kNanosecond = 1'000;
inline constexpr Time kNever = std::numeric_limits<Time>::max();

inline Time FromNs(double ns) { return std::llround(ns * static_cast<double>(kNanosecond)); }

using SizeClass = std::uint32_t;  // position in the list of sizes of the chain's mix

struct PacketRun {
  Time arrived;
  SizeClass size;
  std::uint32_t count;
};

// A link between two functions.
class PacketQueue {
 public:
  explicit PacketQueue(std::uint32_t capacity)
      : capacity_(capacity), runs_(std::bit_ceil(capacity)) {}

  std::uint32_t size() const { return size_; }
  std::uint32_t capacity() const { return capacity_; }

  // Returns how many of the packets fit.
  std::uint32_t Push(PacketRun run) {
    run.count = std::min(run.count, capacity_ - size_);
    if (run.count == 0) return 0;
    size_ += run.count;
    PacketRun& last = runs_[(head_ + used_ - 1) & mask()];
    if (used_ > 0 && last.arrived == run.arrived && last.size == run.size) {
      last.count += run.count;
    } else {
      runs_[(head_ + used_++) & mask()] = run;
    }
    return run.count;
  }

  // Appends the first `count` packets, or all there are, to `burst`; returns how many.
  std::uint32_t Take(std::uint32_t count, std::vector<PacketRun>& burst) {
    count = std::min(count, size_);
    size_ -= count;
    for (std::uint32_t left = count; left > 0;) {
      PacketRun& first = runs_[head_];
      const std::uint32_t part = std::min(left, first.count);
      burst.push_back({first.arrived, first.size, part});
      left -= part;
      first.count -= part;
      if (first.count > 0) break;
      head_ = (head_ + 1) & mask();
      --used_;
    }
    return count;
  }

 private:
  std::uint32_t mask() const { return static_cast<std::uint32_t>(runs_.size()) - 1; }

  std::uint32_t capacity_;
  std::uint32_t size_ = 0;  // packets
  std::uint32_t head_ = 0;  // first run
  std::uint32_t used_ = 0;  // runs
  std::vector<PacketRun> runs_;
};

}  // namespace unis::sim
