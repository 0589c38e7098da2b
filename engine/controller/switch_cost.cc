#include "engine/controller/switch_cost.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <rte_cycles.h>
#include <rte_pause.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <thread>
#include <vector>

#include "engine/base/quantile.h"
#include "engine/base/sanitizer.h"

namespace unis {
namespace {

constexpr int kLow = 20;  // above every task that waits, below the kernel's interrupt threads
constexpr int kTop = 49;
constexpr std::uint64_t kSeconds = 2;  // at most, for all rounds

// Keeps the caller off a CPU where real-time threads spin, which would never let it back.
class Elsewhere {
 public:
  explicit Elsewhere(unsigned cpu) {
    left_ = sched_getaffinity(0, sizeof(before_), &before_) == 0;
    cpu_set_t others = before_;
    CPU_CLR(cpu, &others);
    left_ = left_ && CPU_COUNT(&others) > 0 && sched_setaffinity(0, sizeof(others), &others) == 0;
  }
  ~Elsewhere() {
    if (left_) (void)sched_setaffinity(0, sizeof(before_), &before_);
  }
  Elsewhere(const Elsewhere&) = delete;
  Elsewhere& operator=(const Elsewhere&) = delete;

  bool left() const { return left_; }

 private:
  cpu_set_t before_{};
  bool left_;
};

// A thread on the functions' CPU that says by a time stamp that it runs. It spins for a second more
// than all rounds may take; then it sleeps, should nobody have ended it. It does not end by itself,
// so that its number stays its own.
class Spinner {
 public:
  // It is pinned from outside, for once on that CPU it may have to wait there.
  explicit Spinner(unsigned cpu)
      : end_(rte_rdtsc() + (kSeconds + 1) * rte_get_tsc_hz()), thread_([this] { Main(); }) {
    while (tid() == 0) std::this_thread::yield();
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    pinned_ = sched_setaffinity(tid(), sizeof(set), &set) == 0;
  }
  // One that waits below another thread would never see the flag: it goes above the other spinner,
  // and to the caller's CPUs, away from whoever else holds that one.
  ~Spinner() {
    __atomic_store_n(&stop_, true, __ATOMIC_RELAXED);
    Set(SCHED_FIFO, kTop + 1);
    cpu_set_t callers;
    if (sched_getaffinity(0, sizeof(callers), &callers) == 0)
      (void)sched_setaffinity(tid(), sizeof(callers), &callers);
    thread_.join();
  }

  bool pinned() const { return pinned_; }
  bool Set(int policy, int priority) const {
    const sched_param param{.sched_priority = priority};
    return sched_setscheduler(tid(), policy | SCHED_RESET_ON_FORK, &param) == 0;
  }
  // The first time it is seen running after `since`; 0: not within `limit` cycles.
  std::uint64_t RunsAfter(std::uint64_t since, std::uint64_t limit) const {
    while (rte_rdtsc() - since < limit) {
      const std::uint64_t stamp = last_run();
      if (stamp > since) return stamp;
      rte_pause();
    }
    return 0;
  }
  std::uint64_t last_run() const { return __atomic_load_n(&stamp_, __ATOMIC_RELAXED); }
  void set_yielding(bool yielding) { __atomic_store_n(&yielding_, yielding, __ATOMIC_RELAXED); }
  std::uint64_t yields() const { return __atomic_load_n(&yields_, __ATOMIC_RELAXED); }

 private:
  void Main() {
    Spin();
    while (!__atomic_load_n(&stop_, __ATOMIC_RELAXED))
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  // The other spinner interrupts it anywhere. Builtins are not instrumented with it, functions are.
  UNIS_UNINSTRUMENTED void Spin() {
    __atomic_store_n(&tid_, static_cast<pid_t>(syscall(SYS_gettid)), __ATOMIC_RELEASE);
    while (!__atomic_load_n(&stop_, __ATOMIC_RELAXED)) {
#if UNIS_THREAD_SANITIZER
      const std::uint64_t now = __builtin_readcyclecounter();
#else
      const std::uint64_t now = rte_rdtsc();
#endif
      if (now > end_) return;
      __atomic_store_n(&stamp_, now, __ATOMIC_RELAXED);
      if (!__atomic_load_n(&yielding_, __ATOMIC_RELAXED)) continue;
      sched_yield();
      __atomic_fetch_add(&yields_, 1, __ATOMIC_RELAXED);
    }
  }

  pid_t tid() const { return __atomic_load_n(&tid_, __ATOMIC_ACQUIRE); }

  const std::uint64_t end_;  // TSC
  pid_t tid_ = 0;
  bool pinned_ = false;
  // Read and written by builtins.
  bool stop_ = false, yielding_ = false;
  std::uint64_t yields_ = 0;
  alignas(64) std::uint64_t stamp_ = 0;
  std::thread thread_;
};

absl::Status NoRealTime() {
  return absl::ErrnoToStatus(errno, "cannot use real-time classes; see `unis doctor`");
}

absl::Status BrokenOff() { return absl::CancelledError("the measurement was broken off"); }

// Both spin at equal priority and yield to each other.
absl::StatusOr<double> MeasureYield(std::array<Spinner, 2>& spinners, double ns_per_cycle,
                                    const std::function<bool()>& go_on) {
  for (Spinner& spinner : spinners) spinner.set_yielding(true);
  for (Spinner& spinner : spinners) {
    if (!spinner.Set(SCHED_FIFO, kTop)) return NoRealTime();
  }
  std::vector<double> samples;
  for (int i = 0; i < 20; ++i) {
    if (!go_on()) return BrokenOff();
    const std::uint64_t begin = rte_rdtsc();
    const std::uint64_t count = spinners[0].yields() + spinners[1].yields();
    rte_delay_us_block(500);
    const std::uint64_t yields = spinners[0].yields() + spinners[1].yields() - count;
    const auto cycles = static_cast<double>(rte_rdtsc() - begin);
    if (yields > 0) samples.push_back(cycles * ns_per_cycle / static_cast<double>(yields));
  }
  if (samples.empty()) return absl::UnavailableError("the CPU of the functions did not run");
  return Quantile(samples, 0.5);
}

struct Samples {
  std::vector<double> call, preempted, until;  // ns
};

// Raises one spinner above the other, in turns.
absl::Status MeasureRaises(std::array<Spinner, 2>& spinners, unsigned rounds, double ns_per_cycle,
                           const std::function<void()>& meanwhile,
                           const std::function<bool()>& go_on, Samples& samples) {
  const std::uint64_t hz = rte_get_tsc_hz();
  const std::uint64_t limit = hz / 20, slice = hz / 1'000'000 * 30,
                      end = rte_rdtsc() + kSeconds * hz;
  unsigned missed = 0;
  int level = kLow;
  for (unsigned round = 0; round < rounds && rte_rdtsc() < end; ++round) {
    if (!go_on()) return BrokenOff();
    const Spinner& next = spinners[round % 2];
    const Spinner& current = spinners[(round + 1) % 2];
    if (level == kTop) {
      level = kLow;
      for (const Spinner& spinner : spinners) spinner.Set(SCHED_FIFO, level);
    }
    // The other one runs undisturbed, as a task does in its slice.
    for (const std::uint64_t from = rte_rdtsc(); rte_rdtsc() - from < slice;) meanwhile();
    const std::uint64_t begin = rte_rdtsc();
    if (!next.Set(SCHED_FIFO, ++level)) return NoRealTime();
    const std::uint64_t returned = rte_rdtsc();
    const std::uint64_t runs = next.RunsAfter(begin, limit);
    if (runs == 0) {
      ++missed;
      continue;
    }
    // It cannot have run later than the one that took its CPU.
    const std::uint64_t last = std::clamp(current.last_run(), begin, runs);
    samples.preempted.push_back(static_cast<double>(last - begin) * ns_per_cycle);
    samples.call.push_back(static_cast<double>(returned - begin) * ns_per_cycle);
    samples.until.push_back(static_cast<double>(runs - begin) * ns_per_cycle);
  }
  if (samples.until.empty() || missed > samples.until.size())
    return absl::UnavailableError("a raised thread did not run within 50 ms");
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<SwitchCost> MeasureSwitchCost(unsigned cpu, const std::vector<unsigned>& allowed,
                                             unsigned rounds,
                                             const std::function<void()>& meanwhile,
                                             const std::function<bool()>& go_on) {
  if (std::find(allowed.begin(), allowed.end(), cpu) == allowed.end()) {
    return absl::InvalidArgumentError(
        fmt::format("CPU {} is none of the functions' CPUs ({}); a switch is measured only there",
                    cpu, fmt::join(allowed, ", ")));
  }
  const Elsewhere elsewhere(cpu);
  if (!elsewhere.left()) {
    return absl::FailedPreconditionError(fmt::format(
        "the engine has no CPU but {}, where the switch is to be measured; give it another", cpu));
  }
  const double ns_per_cycle = 1e9 / static_cast<double>(rte_get_tsc_hz());
  std::array<Spinner, 2> spinners{Spinner(cpu), Spinner(cpu)};
  for (const Spinner& spinner : spinners) {
    if (!spinner.pinned())
      return absl::InvalidArgumentError(fmt::format("cannot run on CPU {}", cpu));
    if (!spinner.Set(SCHED_FIFO, kLow)) return NoRealTime();
  }
  Samples samples;
  const auto raises = MeasureRaises(spinners, rounds, ns_per_cycle, meanwhile, go_on, samples);
  const absl::StatusOr<double> yield =
      raises.ok() ? MeasureYield(spinners, ns_per_cycle, go_on) : absl::StatusOr<double>(raises);
  if (absl::IsCancelled(yield.status())) return yield.status();
  if (!yield.ok()) {
    return absl::Status(
        yield.status().code(),
        fmt::format(
            "cannot measure a switch on CPU {}: {}; is it busy with other real-time threads?", cpu,
            std::string(yield.status().message())));
  }
  return SwitchCost{.call_ns = Quantile(samples.call, 0.5),
                    .until_preempted_ns = Quantile(samples.preempted, 0.5),
                    .until_running_ns = Quantile(samples.until, 0.5),
                    .yield_ns = *yield};
}

}  // namespace unis
