// What a packet costs a function, followed while it runs (Cycle Estimator, online): from how fast
// it takes packets in its turns, of each of which somebody else tells begin and end.
//
// Only times count in which it never lacked work or room: from one burst that it was seen to take
// to another of the same turn. They are summed up to samples of a quarter of a slice, and the
// median of the last five is the cost: an interrupt makes one of them long, and three are enough
// for a cost that has changed. As long as samples are near what is believed, one is enough for 3
// ms: to look costs the function time. The cost is at once far off only where it has risen so much
// that a slice holds no two bursts, or fallen so much that it runs dry in one: the former shows in
// whole turns, the latter in that it takes packets twice as fast as it could. Pure: the same looks
// give the same cost.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "engine/scheduler/components.h"

namespace unis {

class CostFollower {
 public:
  // What has happened at the function's ingresses and egresses since the look before.
  struct Seen {
    std::uint32_t taken = 0;  // packets
    bool busy = false;        // there were packets in front all the time, and there is room behind
  };
  struct Turn {
    Nanoseconds begin;     // it runs since then
    Nanoseconds slice;     // as the cost is now
    Nanoseconds interval;  // looks come no more often
  };

  // ns a packet, from which it starts.
  explicit CostFollower(double start_ns);

  // `before`: since the last look at its last turn; all of it counts for that one.
  void BeginTurn(const Turn& turn, const Seen& before) noexcept;
  void Look(Nanoseconds now, const Seen& seen) noexcept;
  // It ran for so long, as far as can be told, and was looked at when it was left. Not to be
  // called where that cannot be told.
  void EndTurn(Nanoseconds ran) noexcept;

  double ns() const noexcept { return ns_; }
  // A look at this time would be of use.
  Nanoseconds next_look() const noexcept { return next_look_; }

 private:
  static constexpr std::size_t kSamples = 5;

  // Time that it took, and the packets that were taken in it.
  struct Span {
    Nanoseconds time = 0;
    std::uint32_t packets = 0;
  };

  Nanoseconds Enough() const noexcept;
  bool IsTimely(Nanoseconds gap) const noexcept;
  void PlanNextLook(Nanoseconds now) noexcept;
  void LookForMore() noexcept;
  void LookForLess(Nanoseconds gap, std::uint32_t taken) noexcept;
  void Take(Nanoseconds now) noexcept;
  // Whether it is near what is believed.
  bool Sample(Span& span) noexcept;

  double ns_;
  std::array<double, kSamples> samples_;
  std::size_t next_ = 0;        // sample
  Span sum_;                    // of the next sample
  Nanoseconds sure_until_ = 0;  // until then none is taken

  Turn turn_{};
  Nanoseconds last_look_ = 0;
  Nanoseconds next_look_ = 0;
  bool close_ = false;         // the next look was to come as soon as looks can
  bool since_take_ = false;    // busy since `took_at_`
  Nanoseconds took_at_ = 0;    // when it was seen to take packets
  std::uint32_t taken_ = 0;    // since then
  std::uint32_t in_turn_ = 0;  // packets
  bool busy_ = false;          // at the last look
  bool spanned_ = false;       // from one burst to another in this turn
  bool sampled_ = false;       // in this turn
  bool whole_turns_ = false;   // the turns before were too short for that
  Span turns_;                 // of those
  std::uint32_t turns_summed_ = 0;
  bool looked_ = false;  // in this turn
  Span at_most_;         // since then, or since this was a sample
};

}  // namespace unis
