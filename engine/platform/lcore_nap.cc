#include "engine/platform/lcore_nap.h"

#include <linux/futex.h>
#include <rte_lcore.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <ctime>

#include "engine/timer/tsc_timer.h"

namespace unis {
namespace {

constexpr std::int64_t kQuiet = 5'000'000;    // ns
constexpr std::int64_t kLongest = 400'000;    // parked functions must be told anew every 0.8 ms
constexpr std::int64_t kLeast = 20'000;       // a shorter nap costs more than it gives
constexpr std::int64_t kMostLate = kLongest;  // one that was later was a CPU that others had

}  // namespace

LcoreNap& LcoreNap::Of(unsigned lcore) noexcept {
  static std::array<LcoreNap, RTE_MAX_LCORE> naps;
  return naps[lcore];
}

void LcoreNap::Wake() noexcept {
  word_.fetch_add(1, std::memory_order_seq_cst);
  if (asleep_.load(std::memory_order_seq_cst))
    (void)syscall(SYS_futex, &word_, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

// Packets that come after silence may concern an lcore that still naps.
void LcoreNap::WakeOthers() noexcept {
  naps_lately_ = false;
  quiet_since_ = 0;
  for (unsigned lcore = 0; lcore < RTE_MAX_LCORE; ++lcore) {
    LcoreNap& other = Of(lcore);
    if (&other != this && other.asleep_.load(std::memory_order_relaxed)) other.Wake();
  }
}

void LcoreNap::Idle(std::int64_t idle_ns) noexcept {
  if (idle_ns <= 0) {
    empty_turns_ = turn_ = rounds_ = 0;
    quiet_since_ = 0;
    return;
  }
  if (turn_ == 0) {
    if (rounds_ == 0) seen_ = word_.load(std::memory_order_acquire);
    idle_ns_ = kLongest;
  }
  idle_ns_ = std::min(idle_ns_, idle_ns);
  if (++turn_ < components_.load(std::memory_order_relaxed)) return;
  turn_ = 0;
  // Whoever had its turn before `seen_` was read may not have seen what came before.
  if (rounds_++ == 0) return;
  const std::uint64_t now = TscClock::Cycles();
  if (quiet_since_ == 0) quiet_since_ = now;
  static const TscClock clock;
  if (clock.ToNs(now - quiet_since_) < kQuiet) return;
  if (idle_ns_ - late_ns_ >= kLeast) Nap(now, idle_ns_ - late_ns_);
}

void LcoreNap::Nap(std::uint64_t now, std::int64_t ns) noexcept {
  static const TscClock clock;
  naps_lately_ = true;
  rounds_ = 0;
  (void)prctl(PR_SET_TIMERSLACK, 1);  // ns, of this thread; by default 50 µs
  asleep_.store(true, std::memory_order_seq_cst);
  const timespec span = {.tv_sec = 0, .tv_nsec = ns};
  const bool woken = syscall(SYS_futex, &word_, FUTEX_WAIT_PRIVATE, seen_, &span, nullptr, 0) == 0;
  const bool timed_out = !woken && errno == ETIMEDOUT;
  asleep_.store(false, std::memory_order_relaxed);
  naps_.store(naps_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  if (!timed_out) return;
  const std::int64_t late = clock.ToNs(TscClock::Cycles() - now) - ns;
  if (late < kMostLate) late_ns_ += (late - late_ns_) / 8;
}

}  // namespace unis
