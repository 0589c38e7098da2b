// How many packets a turn takes where tasks hand the CPU over by themselves, found while they run.
//
// With long turns switches cost little; with short ones the next task finds in the cache what this
// one left there. Where the best lies depends on the functions, on the machine, and on what else it
// does at the moment. So now and then a neighbour of the quota in use is tried against it: windows
// of the one and of the other in turn (base, other, other, base, ...), and it is taken over if the
// core does more work with it in nearly every pair, and not by next to nothing. Where neither
// neighbour is better, one that is far away is tried, for beyond a cache all may be alike. What it
// found it tries again after a while. Pure: the same looks give the same quotas.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "engine/scheduler/components.h"

namespace unis {

class QuotaSearch {
 public:
  struct Look {
    Nanoseconds now;
    double work;  // that the tasks of the core have done ever: packets, each times what it costs
    Nanoseconds round;  // that a turn of each takes with the quota in use, about
    bool backlog;       // there is more work than is done: else quotas say nothing
  };

  // Packets, at least one burst each; `first` to start with.
  QuotaSearch(std::uint32_t first, std::uint32_t most);

  // It goes on elsewhere: a trial that is under way begins anew there.
  void Interrupt() noexcept;
  // Nobody looked for a while: what was counted in the window that is under way is of no use, and
  // another takes its place; a pause lasts longer by so much.
  void Missed(Nanoseconds now) noexcept;
  // Between looks.
  void Seen(Nanoseconds now) noexcept { seen_ = now; }
  // True: quota() has changed.
  bool OnLook(const Look& look) noexcept;
  // A look before that is of no use.
  Nanoseconds next_look() const noexcept { return next_look_; }
  std::uint32_t quota() const noexcept { return in_use_; }
  // Two quotas are being tried against each other.
  bool trying() const noexcept { return phase_ != Phase::kWaits; }
  std::uint32_t most() const noexcept { return most_; }
  // The best so far, of which quota() may be a neighbour that is tried.
  std::uint32_t found() const noexcept { return found_; }

 private:
  static constexpr std::size_t kPairs = 6;
  static constexpr Nanoseconds kNever = -1;
  enum class Phase : std::uint8_t { kWaits, kSettles, kCounts };
  // In this order, until one is better: the neighbour in the direction that was better last, that
  // on the other side, one that is far away.
  enum class Candidate : std::uint8_t { kOn, kBack, kFar, kNone };

  std::uint32_t Quota(Candidate candidate) const noexcept;
  void Pause(Nanoseconds now, Nanoseconds pause) noexcept;
  bool Begin(const Look& look) noexcept;
  bool Next(const Look& look) noexcept;
  bool Judge(const Look& look) noexcept;
  void TryNext() noexcept;
  bool Use(std::uint32_t quota) noexcept;
  bool Settle(const Look& look, std::uint32_t quota) noexcept;

  std::uint32_t most_;
  std::uint32_t found_, in_use_, tried_ = 0;
  Candidate candidate_ = Candidate::kOn;
  bool up_ = true;        // `kOn` is the longer one
  std::size_t leap_ = 0;  // which `kFar` is next
  Phase phase_ = Phase::kWaits;
  Nanoseconds next_look_ = 0;
  Nanoseconds seen_ = kNever;  // when somebody looked last
  Nanoseconds began_ = 0;      // the window
  double work_ = 0;            // then
  std::size_t windows_ = 0;
  double rate_ = 0;  // work a ns, in the first window of the pair
  std::array<double, kPairs> gains_{};
};

}  // namespace unis
