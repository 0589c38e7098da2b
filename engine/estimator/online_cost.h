// What a packet costs a function that somebody else runs (Cycle Estimator, online): from how its
// links move, while it works at its own speed.
//
// A function that has more work than it can do takes burst after burst, and the time from one to
// the next is what the packets of one burst cost, all of it: polling, work, sending. So the links
// are looked at faster than it takes bursts. The median is told, for now and then the function does
// not run at all: whoever preempts it makes a few intervals long.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace unis {

class OnlineCost {
 public:
  static constexpr std::size_t kEnough = 100;    // intervals
  static constexpr std::size_t kMost = 1 << 16;  // that are kept

  struct Quartiles {
    double q1, median, q3;  // ns a packet
  };

  OnlineCost() { costs_.reserve(kMost); }

  // One look, allocates nothing: the time in ns; the packets that it has taken so far; whether more
  // wait, and what it sends finds room.
  void Look(std::int64_t now, std::uint64_t taken, bool busy) noexcept;
  // A while passed without looks.
  void Pause() noexcept { since_.reset(); }
  std::size_t intervals() const noexcept { return costs_.size(); }
  // None: it was busy for fewer than kEnough intervals.
  std::optional<Quartiles> Result() const;

 private:
  std::optional<std::int64_t> since_;  // when it took a burst; busy ever since
  std::uint64_t taken_ = 0;
  std::vector<double> costs_;
};

}  // namespace unis
