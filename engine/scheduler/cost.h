// What a packet costs a function, measured while the function runs (the Cycle Estimator, online).
//
// A span goes from one burst that the function was seen to take to another of the same turn; spans
// in which it lacked work or room do not count. Spans add up to samples of a quarter of a slice,
// and the cost is the median of the last five samples (docs/scheduler.md, "What a packet costs").
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/scheduler/core_tasks.h"

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

// The costs of the tasks of one core, each followed while the task has its turn. Threads of one
// function keep the cost that they have, because nobody knows which of them does what.
class CostTracking {
 public:
  explicit CostTracking(CoreTasks& tasks);

  bool Follows(Slot slot) const noexcept { return !followers_.empty() && !tasks_[slot].IsThread(); }
  // The task of `slot` has a turn from now on.
  void BeginTurn(Slot slot, const CostFollower::Turn& turn) noexcept;
  // The task of `slot` ran for so long and is left. Not called where the end is not known.
  void EndTurn(Slot slot, Nanoseconds ran) noexcept;
  void Look(Slot slot, Nanoseconds now) noexcept;
  // `until`, or earlier where a look would tell something about the cost.
  Nanoseconds NextLook(Slot slot, Nanoseconds until) const noexcept {
    return Follows(slot) ? std::min(until, followers_[slot].next_look()) : until;
  }

 private:
  // An ingress at the last look.
  struct Last {
    std::uint16_t received = 0;
    std::uint32_t packets = 0;
  };

  CostFollower::Seen SeeLinks(const TaskState& task) noexcept;
  void UpdateCost(Slot slot, double before) noexcept;

  CoreTasks& tasks_;
  std::vector<CostFollower> followers_;  // per task; empty: costs stay as they are given
  std::vector<Last> last_;               // per ingress
};

}  // namespace unis
