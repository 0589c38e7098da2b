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

constexpr std::int64_t kQuiet = 5'000'000;  // ns
constexpr std::int64_t kLongest = 800'000;  // parked functions must be told anew so often
constexpr std::int64_t kLeast = 20'000;     // a shorter nap costs more than it gives
constexpr std::int64_t kMostLate =
    100'000;  // a longer delay is not the timer's: others had the CPU

constexpr std::int64_t kStep = 1'000;  // ns
// Rounds in which the delay forbade a nap. Some 50 µs a second: hardly any nap ends late for it.
constexpr std::uint32_t kForgetEvery = 64;

std::atomic<std::uint32_t> all_components{0};

std::int64_t NsSince(std::uint64_t cycles) {
  static const TscClock clock;
  return clock.ToNs(TscClock::Cycles() - cycles);
}

// By default a sleep of a thread may end 50 µs late, so that the kernel has fewer wake-ups.
void EndSleepsInTime() {
  thread_local const int done = prctl(PR_SET_TIMERSLACK, 1);  // ns
  (void)done;
}

}  // namespace

LcoreNap& LcoreNap::Of(unsigned lcore) noexcept {
  static std::array<LcoreNap, RTE_MAX_LCORE> naps;
  return naps[lcore];
}

void LcoreNap::Join() noexcept {
  components_.fetch_add(1, std::memory_order_relaxed);
  all_components.fetch_add(1, std::memory_order_relaxed);
}

void LcoreNap::Leave() noexcept {
  components_.fetch_sub(1, std::memory_order_relaxed);
  all_components.fetch_sub(1, std::memory_order_relaxed);
}

bool LcoreNap::has_all() const noexcept {
  return components_.load(std::memory_order_relaxed) ==
         all_components.load(std::memory_order_relaxed);
}

void LcoreNap::Wake() noexcept {
  word_.fetch_add(1, std::memory_order_seq_cst);
  if (asleep_.load(std::memory_order_seq_cst))
    (void)syscall(SYS_futex, &word_, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

void LcoreNap::Idle(std::int64_t idle_ns) noexcept {
  if (idle_ns <= 0) return StayAwake();
  if (turn_ == 0) {
    if (rounds_ == 0) seen_ = word_.load(std::memory_order_acquire);
    idle_ns_ = kLongest;
  }
  idle_ns_ = std::min(idle_ns_, idle_ns);
  const std::uint32_t components = components_.load(std::memory_order_relaxed);
  if (++turn_ < components) return;
  turn_ = 0;
  // Whoever had its turn before `seen_` was read may not have seen what came before.
  if (rounds_++ == 0) return;
  if (quiet_since_ == 0) quiet_since_ = TscClock::Cycles();
  if (slack_ns_ == 0 && NsSince(quiet_since_) < kQuiet) return;
  if (!has_all()) return;
  if (idle_ns_ - late_ns_ >= kLeast) return Nap(idle_ns_ - late_ns_);
  // Only naps tell how late the timer is, so what they told must not forbid them for ever.
  if (idle_ns_ >= kLeast && ++refused_ % kForgetEvery == 0) --late_ns_;
}

void LcoreNap::Nap(std::int64_t ns) noexcept {
  rounds_ = 0;
  EndSleepsInTime();
  const std::uint64_t begin = TscClock::Cycles();
  asleep_.store(true, std::memory_order_seq_cst);
  const timespec span = {.tv_sec = 0, .tv_nsec = ns};
  const long slept = syscall(SYS_futex, &word_, FUTEX_WAIT_PRIVATE, seen_, &span, nullptr, 0);
  const bool timed_out = slept != 0 && errno == ETIMEDOUT;
  asleep_.store(false, std::memory_order_relaxed);
  naps_.Add(1);
  if (slept == 0) woken_.Add(1);
  if (!timed_out) return;
  // Follows the median: a few delays while others had the CPU do not count.
  late_ns_ += std::clamp(NsSince(begin) - ns - late_ns_, -kStep, kStep);
  late_ns_ = std::min(late_ns_, kMostLate);
}

}  // namespace unis
