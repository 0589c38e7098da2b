// Searches for the best way to serve threads that poll only rings inside their program: as thread
// groups, or in the line (ring_line.h) with turns of a certain length. In the line one of them may
// be spared: its turns end at once, for it only serves a console, say. Only the packets that leave
// the core tell which way is better. So two ways alternate while the chain runs. Then the search
// rests, and rests longer if it has found nothing better.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "engine/scheduler/components.h"

namespace unis {

class LineSearch {
 public:
  // Turns in the line; 0: thread groups.
  static constexpr std::array<Nanoseconds, 5> kTurns{0, 20'000, 50'000, 120'000, 300'000};

  // A way is a position in kTurns, and as many times kTurns.size() as says which thread is spared:
  // the first is 1. Way 0: thread groups.
  static constexpr std::size_t kMostSpared = 10;

  // `known`: a way that was found before; absent: thread groups, and a search begins at once.
  // `threads`: that poll only rings, of which the first kMostSpared may be spared.
  void Start(std::optional<std::size_t> known, std::size_t threads, Nanoseconds now) noexcept;
  // `sent`: packets that have ever left the core; wraps. True: way() is another.
  bool Look(Nanoseconds now, std::uint16_t sent) noexcept;

  // Thread groups for a long time: the line does not work here.
  void GiveUp(Nanoseconds now) noexcept;

  std::size_t way() const noexcept { return counts_challenger() ? challenger_ : best_; }
  Nanoseconds turn() const noexcept { return kTurns[way() % kTurns.size()]; }
  std::size_t spared() const noexcept { return way() / kTurns.size(); }  // 0: nobody
  // The best one found; absent: none was looked for.
  std::optional<std::size_t> found() const noexcept {
    return known_ ? std::optional(best_) : std::nullopt;
  }
  Nanoseconds next_look() const noexcept { return next_look_; }
  // There are so many such threads now. If they are others than before, nobody is spared, and a
  // search begins soon. True: way() is another.
  bool Recount(std::size_t threads, Nanoseconds now) noexcept;

 private:
  static constexpr std::uint32_t kPairs = 4;
  static constexpr std::uint32_t kMostTrials = 16;  // of a search
  static constexpr std::size_t kNone = kTurns.size() * (kMostSpared + 1);
  static_assert(kNone <= 64);

  bool searches() const noexcept { return challenger_ != kNone; }
  // Windows alternate as best, challenger, challenger, best: what drifts hits both alike.
  bool counts_challenger() const noexcept {
    return searches() && (window_ % 4 == 1 || window_ % 4 == 2);
  }
  void EndWindow(Nanoseconds now) noexcept;
  void EndTrial(bool wins, Nanoseconds now) noexcept;
  std::size_t NextChallenger() const noexcept;
  void BeginTrial() noexcept;
  void Rest(Nanoseconds now, Nanoseconds length) noexcept;

  std::size_t best_ = 0;
  bool known_ = false;
  std::size_t challenger_ = kNone;
  std::size_t threads_ = 0;
  std::uint64_t tried_ = 0;          // ways that `best_` was compared with: bits
  std::uint32_t trials_ = 0;         // of this search
  bool changed_ = false;             // by this search
  Nanoseconds rest_ = 0;             // the length of the next one
  Nanoseconds without_traffic_ = 0;  // likewise, where nothing is sent
  Nanoseconds next_look_ = 0;
  // Of a trial.
  std::uint32_t window_ = 0;
  Nanoseconds window_begin_ = 0;  // before that the way settles
  bool counts_ = false;
  std::uint16_t last_sent_ = 0;
  std::uint64_t packets_ = 0;  // of this window
  std::uint64_t pair_best_ = 0, pair_challenger_ = 0, sum_best_ = 0, sum_challenger_ = 0;
  std::uint32_t won_ = 0;  // pairs
};

}  // namespace unis
