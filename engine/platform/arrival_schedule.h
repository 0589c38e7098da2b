// When the packets of an open loop are due: a schedule that waits for nobody. Pure: the clock is
// the caller's.
#pragma once

#include <algorithm>
#include <cstdint>

#include "engine/base/exponential.h"
#include "engine/base/random.h"

namespace unis {

enum class Arrivals : std::uint8_t {
  kConstant,  // equally far apart
  kPoisson,   // independent of each other: exponential gaps
};

// How many packets, or bits of them, fall due in a second. One of the two, or neither: no limit,
// and no schedule.
struct Rate {
  double pps = 0;
  double bps = 0;  // bits of frames with FCS
  Arrivals arrivals = Arrivals::kConstant;
  bool limited() const { return pps > 0 || bps > 0; }
};

class ArrivalSchedule {
 public:
  // Who comes back after longer goes on from so many seconds ago: what was due before never is.
  static constexpr double kCatchUpSeconds = 1;

  // `hz`: cycles per second of the clock. The same seed gives the same gaps.
  ArrivalSchedule(double hz, std::uint64_t seed)
      : hz_(hz), catch_up_(static_cast<std::uint64_t>(kCatchUpSeconds * hz)), random_(seed) {}

  // From `now` on, in cycles; gaps go on being drawn where they were.
  void Begin(const Rate& rate, std::uint64_t now) noexcept {
    poisson_ = rate.arrivals == Arrivals::kPoisson;
    per_packet_ = rate.pps > 0 ? hz_ / rate.pps : 0;
    per_bit_ = rate.pps > 0 ? 0 : hz_ / rate.bps;
    due_ = now;
    fraction_ = 0;
    // A gap first, else every beginning would be a burst; of a packet of which no size is known.
    if (poisson_) Wait(per_packet_ > 0 ? per_packet_ : per_bit_ * kSomePacket);
  }

  // Whether a packet is due. Forgets those that were due too long ago.
  bool IsDue(std::uint64_t now) noexcept {
    if (now < due_) return false;
    due_ = std::max(due_, now - std::min(now, catch_up_));
    return true;
  }

  // Whether `most` packets are due, or the first one has waited for `slack` cycles.
  bool IsBurstDue(std::uint64_t now, std::uint32_t most, std::uint64_t slack) const noexcept {
    return now >= due_ && now - due_ >= TimeOf(most, slack);
  }

  // Cycles from a packet to the next, on average; at a rate of bits, of small packets.
  double gap() const noexcept { return per_packet_ > 0 ? per_packet_ : per_bit_ * kSomePacket; }

  // Cycles until `most` packets are due, or the first one has waited for `slack` cycles. Where the
  // rate is of bits, all packets count as small: there are never more.
  std::uint64_t UntilBurst(std::uint64_t now, std::uint32_t most,
                           std::uint64_t slack) const noexcept {
    const std::uint64_t at = due_ + TimeOf(most, slack);
    return at > now ? at - now : 0;
  }

  // The cycle at which the next packet, of so many bits, is due; the one after it is next then.
  std::uint64_t Take(std::uint32_t bits) noexcept {
    const std::uint64_t due = due_;
    Wait(per_packet_ > 0 ? per_packet_ : per_bit_ * bits);
    return due;
  }

 private:
  std::uint64_t TimeOf(std::uint32_t most, std::uint64_t slack) const noexcept {
    return static_cast<std::uint64_t>(std::min(static_cast<double>(slack), (most - 1) * gap()));
  }

  static constexpr double kSomePacket = 8.0 * 64;
  static constexpr double kLongest = 1e17;  // cycles: a year

  // Parts of cycles are kept: nothing adds up to another rate.
  void Wait(double mean) noexcept {
    const double most = std::min(mean, kLongest);
    fraction_ += poisson_ ? most * Exponential(random_) : most;
    const auto whole = static_cast<std::uint64_t>(fraction_);
    due_ += whole;
    fraction_ -= static_cast<double>(whole);
  }

  double hz_;
  std::uint64_t catch_up_;
  Random random_;
  bool poisson_ = false;
  double per_packet_ = 0;  // cycles; 0: a packet takes as long as its bits
  double per_bit_ = 0;
  std::uint64_t due_ = 0;
  double fraction_ = 0;  // of a cycle, beyond due_
};

}  // namespace unis
