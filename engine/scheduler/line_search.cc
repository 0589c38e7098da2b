#include "engine/scheduler/line_search.h"

#include <algorithm>

namespace unis {
namespace {

constexpr Nanoseconds kSettle = 5'000'000;
constexpr Nanoseconds kWindow = 20'000'000;
constexpr Nanoseconds kCount = 200'000;  // counters wrap
// Between searches.
constexpr Nanoseconds kShortestRest = 4'000'000'000;
constexpr Nanoseconds kLongestRest = 8'000'000'000;
constexpr Nanoseconds kRestWithoutTraffic = 100'000'000, kLongestRestWithoutTraffic = 4'000'000'000;

// The challenger wins if it sends more than kBetter times as much, and more in all pairs but one.
// Seen: the right way sends at least 1.3 times as much as the wrong one.
constexpr double kBetter = 1.05;
// In the two windows of a pair. Fewer packets tell nothing.
constexpr std::uint64_t kFewestPackets = 1'000;
// The challenger loses at once if it sends less than this share in the first pair.
constexpr double kHopeless = 0.8;

}  // namespace

void LineSearch::Start(std::optional<std::size_t> known, std::size_t threads,
                       Nanoseconds now) noexcept {
  threads_ = std::min(threads, kMostSpared);
  known_ = known.has_value() && *known / kTurns.size() <= threads_;
  best_ = known_ ? *known : 0;
  challenger_ = kNone;
  rest_ = kShortestRest;
  without_traffic_ = kRestWithoutTraffic;
  Rest(now, known_ ? kShortestRest : kRestWithoutTraffic);
}

bool LineSearch::Recount(std::size_t threads, Nanoseconds now) noexcept {
  const std::size_t before = way();
  if (std::min(threads, kMostSpared) == threads_) return false;
  Start(std::nullopt, threads, now);
  best_ = before % kTurns.size();
  return way() != before;
}

bool LineSearch::Look(Nanoseconds now, std::uint16_t sent) noexcept {
  const std::size_t before = way();
  const auto packets = static_cast<std::uint16_t>(sent - last_sent_);
  last_sent_ = sent;
  if (!searches()) {
    if (now < next_look_) return false;
    trials_ = 0;
    tried_ = 0;
    changed_ = false;
    BeginTrial();
    window_begin_ = now + kSettle;
  } else if (counts_) {
    packets_ += packets;
    if (now >= window_begin_ + kWindow) EndWindow(now);
  } else if (now >= window_begin_) {
    counts_ = true;
    window_begin_ = now;
  }
  if (searches()) next_look_ = now + kCount;
  return way() != before;
}

void LineSearch::EndWindow(Nanoseconds now) noexcept {
  // Windows that ended late count no more than others.
  (counts_challenger() ? pair_challenger_ : pair_best_) =
      packets_ * kWindow / static_cast<std::uint64_t>(now - window_begin_);
  packets_ = 0;
  counts_ = false;
  window_begin_ = now + kSettle;
  if (++window_ % 2 != 0) return;
  if (pair_best_ + pair_challenger_ < kFewestPackets) {
    challenger_ = kNone;
    Rest(now, without_traffic_);
    without_traffic_ = std::min(2 * without_traffic_, kLongestRestWithoutTraffic);
    return;
  }
  without_traffic_ = kRestWithoutTraffic;
  sum_best_ += pair_best_;
  sum_challenger_ += pair_challenger_;
  won_ += pair_challenger_ > pair_best_ ? 1 : 0;
  const auto best = static_cast<double>(sum_best_), other = static_cast<double>(sum_challenger_);
  if (window_ == 2 && other < kHopeless * best) return EndTrial(false, now);
  if (window_ == 2 * kPairs) EndTrial(other > kBetter * best && won_ + 1 >= kPairs, now);
}

void LineSearch::GiveUp(Nanoseconds now) noexcept {
  best_ = 0;
  known_ = true;
  challenger_ = kNone;
  Rest(now, kLongestRest);
}

void LineSearch::EndTrial(bool wins, Nanoseconds now) noexcept {
  if (wins) {
    tried_ = std::uint64_t{1} << best_;  // it has lost against the new one
    best_ = challenger_;
    changed_ = true;
  }
  if (++trials_ < kMostTrials)
    BeginTrial();
  else
    challenger_ = kNone;
  if (searches()) return;
  known_ = true;
  rest_ = changed_ ? kShortestRest : rest_;
  Rest(now, rest_);
  rest_ = std::min(2 * rest_, kLongestRest);
}

void LineSearch::BeginTrial() noexcept {
  challenger_ = NextChallenger();
  if (searches()) tried_ |= std::uint64_t{1} << challenger_;
  window_ = won_ = 0;
  sum_best_ = sum_challenger_ = 0;
}

// From thread groups a short turn and a long one, from the line its neighbours and thread groups;
// then the same turn with another thread spared: in the first search, and where another turn was
// found. Later only whether nobody should be.
std::size_t LineSearch::NextChallenger() const noexcept {
  const auto is_new = [this](std::size_t way) { return (tried_ >> way & 1) == 0; };
  const std::size_t turn = best_ % kTurns.size(), spared = best_ - turn;
  const std::array<std::size_t, 3> from_line{turn + 1, turn - 1, 0};
  constexpr std::array<std::size_t, 3> kFromGroups{1, 3, kTurns.size()};
  for (const std::size_t other : turn == 0 ? kFromGroups : from_line) {
    const std::size_t way = other == 0 ? 0 : other + spared;
    if (other < kTurns.size() && is_new(way)) return way;
  }
  if (turn == 0) return kNone;
  const std::size_t last = known_ && !changed_ ? 0 : threads_;
  for (std::size_t thread = 0; thread <= last; ++thread) {
    const std::size_t way = turn + thread * kTurns.size();
    if (way != best_ && is_new(way)) return way;
  }
  return kNone;
}

void LineSearch::Rest(Nanoseconds now, Nanoseconds length) noexcept {
  counts_ = false;
  packets_ = 0;
  next_look_ = now + length;
}

}  // namespace unis
