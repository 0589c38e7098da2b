#include "engine/scheduler/quota_search.h"

#include <algorithm>
#include <span>
#include <utility>

#include "engine/scheduler/scheduler.h"

namespace unis {
namespace {

// A window, and what comes before it until the rings are filled as the quota lets them be.
constexpr Nanoseconds kWindow = 4'000'000;
constexpr Nanoseconds kWindowRounds = 8;
constexpr Nanoseconds kSettling = 500'000;
constexpr Nanoseconds kSettlingRounds = 2;
// Whatever costs say.
constexpr Nanoseconds kLongestWindow = 500'000'000;

// Between two trials where both neighbours were no better, and where there was too little work.
constexpr Nanoseconds kPause = 2'000'000'000;
constexpr Nanoseconds kShortPause = 100'000'000;

// In so many pairs a neighbour must be better, and in the middle one by so much; one that is far
// away by more.
constexpr std::size_t kWins = 5;
constexpr double kGain = 1.002, kFarGain = 1.01;

// From one quota to its neighbour, about the square root of 2, and to those that are far away.
constexpr double kStep = 1.41;
constexpr std::array kLeaps = {1 / 4.0, 4.0, 1 / 16.0, 16.0};

}  // namespace

QuotaSearch::QuotaSearch(std::uint32_t first, std::uint32_t most)
    : most_(std::max(most, kBatch)), found_(std::clamp(first, kBatch, most_)), in_use_(found_) {}

void QuotaSearch::Interrupt() noexcept {
  if (!trying()) return;
  phase_ = Phase::kWaits;
  next_look_ = 0;
  in_use_ = found_;
}

void QuotaSearch::Missed(Nanoseconds now) noexcept {
  const Nanoseconds missed = seen_ == kNever ? 0 : now - std::exchange(seen_, now);
  if (trying()) {
    phase_ = Phase::kSettles;
    next_look_ = now + kSettling;
  } else {
    next_look_ += missed;
  }
}

bool QuotaSearch::OnLook(const Look& look) noexcept {
  seen_ = look.now;
  if (look.now < next_look_) return false;
  switch (phase_) {
    case Phase::kWaits:
      return Begin(look);
    case Phase::kSettles:
      phase_ = Phase::kCounts;
      began_ = look.now;
      work_ = look.work;
      next_look_ = look.now + std::clamp(kWindowRounds * look.round, kWindow, kLongestWindow);
      return false;
    case Phase::kCounts:
      return Next(look);
  }
  return false;
}

std::uint32_t QuotaSearch::Quota(Candidate candidate) const noexcept {
  const bool up = up_ == (candidate == Candidate::kOn);
  double factor = up ? kStep : 1 / kStep;
  if (candidate == Candidate::kFar) factor = kLeaps[leap_];
  return static_cast<std::uint32_t>(std::clamp<double>(found_ * factor, kBatch, most_));
}

bool QuotaSearch::Use(std::uint32_t quota) noexcept {
  return std::exchange(in_use_, quota) != quota;
}

void QuotaSearch::Pause(Nanoseconds now, Nanoseconds pause) noexcept {
  phase_ = Phase::kWaits;
  next_look_ = now + pause;
}

// Until rings are filled as `quota` lets them be.
bool QuotaSearch::Settle(const Look& look, std::uint32_t quota) noexcept {
  phase_ = Phase::kSettles;
  const auto round = look.round / in_use_ * quota;
  next_look_ = look.now + std::clamp(kSettlingRounds * round, kSettling, kLongestWindow);
  return Use(quota);
}

// At an end of the ladder a neighbour is missing.
bool QuotaSearch::Begin(const Look& look) noexcept {
  while (candidate_ != Candidate::kNone && Quota(candidate_) == found_) TryNext();
  if (candidate_ == Candidate::kNone) {
    candidate_ = Candidate::kOn;
    Pause(look.now, kPause);
    return false;
  }
  if (!look.backlog) {
    Pause(look.now, kShortPause);
    return false;
  }
  tried_ = Quota(candidate_);
  windows_ = 0;
  return Settle(look, found_);
}

void QuotaSearch::TryNext() noexcept {
  if (candidate_ == Candidate::kFar) leap_ = (leap_ + 1) % kLeaps.size();
  candidate_ = static_cast<Candidate>(static_cast<std::uint8_t>(candidate_) + 1);
}

// A window is over.
bool QuotaSearch::Next(const Look& look) noexcept {
  if (!look.backlog) {
    Pause(look.now, kShortPause);
    TryNext();
    return Use(found_);
  }
  const double rate = (look.work - work_) / static_cast<double>(look.now - began_);
  const std::size_t pair = windows_ / 2;
  if (windows_++ % 2 == 0) {
    rate_ = rate;
  } else {
    const double base = pair % 2 == 0 ? rate_ : rate, other = pair % 2 == 0 ? rate : rate_;
    gains_[pair] = base > 0 ? other / base : 0;
    const auto seen = std::span(gains_).first(pair + 1);
    const auto lost = static_cast<std::size_t>(
        std::ranges::count_if(seen, [](double gain) { return gain <= 1; }));
    if (lost > kPairs - kWins || pair + 1 == kPairs) return Judge(look);
  }
  // base, other, other, base, base, ...
  return Settle(look, (windows_ + 1) / 2 % 2 == 1 ? tried_ : found_);
}

// One that is better is gone on from, in its direction.
bool QuotaSearch::Judge(const Look& look) noexcept {
  phase_ = Phase::kWaits;
  next_look_ = look.now;
  bool better = windows_ == 2 * kPairs;
  if (better) {
    std::ranges::sort(gains_);
    const double middle = (gains_[kPairs / 2 - 1] + gains_[kPairs / 2]) / 2;
    better =
        gains_[kPairs - kWins] > 1 && middle > (candidate_ == Candidate::kFar ? kFarGain : kGain);
  }
  if (better) {
    up_ = tried_ > found_;
    found_ = tried_;
    candidate_ = Candidate::kOn;
  } else {
    TryNext();
  }
  return Use(found_);
}

}  // namespace unis
