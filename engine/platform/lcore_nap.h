// The platform's lcore sleeps while none of its components has anything to do. It naps when no
// component has handled a packet for 5 ms, or for a round where packets may wait (a slack), and all
// say that they are idle: until the first component has something to do, for 0.8 ms at most. The
// scheduler is idle while all functions sleep, or for a time between two looks where it may be.
//
// Only where one lcore runs all components: what one of them handles may be work for the next.
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>

#include "engine/base/counter.h"

namespace unis {

class alignas(64) LcoreNap {
 public:
  // Of Component::IdleNs: only packets or a call bring work. Packets come from components of the
  // lcore, or from functions: while one of these runs, the scheduler says how long they may wait.
  static constexpr std::int64_t kUntilGiven = std::numeric_limits<std::int64_t>::max();

  // That of an lcore. It lives as long as the process.
  static LcoreNap& Of(unsigned lcore) noexcept;

  // By any thread.
  void Join() noexcept;
  void Leave() noexcept;
  // Ends a nap. What the caller has written before is seen by the next turns.
  void Wake() noexcept;
  // Whether it runs all components of the process. Else it never naps.
  bool has_all() const noexcept;
  std::uint64_t naps() const noexcept { return naps_.value(); }
  // Naps that Wake() has ended.
  std::uint64_t woken() const noexcept { return woken_.value(); }

  // By the lcore's thread: how long the source may keep a packet back. 0: not at all.
  void set_slack(std::int64_t ns) noexcept { slack_ns_ = ns; }
  std::int64_t slack_ns() const noexcept { return slack_ns_; }
  // By the lcore's thread, after each turn of a component. `idle_ns` is asked only where it counts.
  template <typename IdleNs>
  void AfterTurn(bool handled, IdleNs&& idle_ns) noexcept {
    if (!handled && (++empty_turns_ >= kEmptyTurns || slack_ns_ > 0))
      Idle(idle_ns());
    else if (handled && empty_turns_ > 0)
      StayAwake();
  }

 private:
  // Until then not even the clock is read.
  static constexpr std::uint32_t kEmptyTurns = 1000;

  void StayAwake() noexcept { empty_turns_ = turn_ = rounds_ = 0, quiet_since_ = 0; }
  void Idle(std::int64_t idle_ns) noexcept;
  void Nap(std::int64_t ns) noexcept;

  std::atomic<std::uint32_t> components_{0};
  std::atomic<std::uint32_t> word_{0};  // changes with each Wake()
  std::atomic<bool> asleep_{false};
  Counter naps_, woken_;
  // The lcore's thread alone:
  alignas(64) std::uint32_t empty_turns_ = 0;
  std::uint32_t turn_ = 0, rounds_ = 0;  // of the components, one after the other
  std::uint32_t seen_ = 0;               // `word_` before the rounds
  std::int64_t idle_ns_ = 0;             // the least of the round
  std::uint64_t quiet_since_ = 0;        // cycles; 0: something was handled
  std::int64_t slack_ns_ = 0;            // for which the source may keep packets back
  std::int64_t late_ns_ = 0;             // the usual delay of the timer that ends a nap
  std::uint32_t refused_ = 0;            // naps, for that delay
};

}  // namespace unis
