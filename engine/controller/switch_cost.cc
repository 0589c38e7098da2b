#include "engine/controller/switch_cost.h"

#include <fmt/format.h>
#include <rte_cycles.h>
#include <rte_pause.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <thread>
#include <vector>

#include "engine/base/quantile.h"

namespace unis {
namespace {

constexpr int kLow = 20;  // above every NF that waits, below the kernel's interrupt threads
constexpr int kTop = 49;

// A thread on the NFs' CPU that says by a time stamp that it runs.
class Spinner {
 public:
  // It is pinned from outside, for once on that CPU it may have to wait there.
  explicit Spinner(unsigned cpu) : thread_([this] { Main(); }) {
    while (tid_.load() == 0) std::this_thread::yield();
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    pinned_ = sched_setaffinity(tid_.load(), sizeof(set), &set) == 0;
  }
  // One that waits below the other would never see the flag: it goes above all first.
  ~Spinner() {
    stop_.store(true);
    Set(SCHED_FIFO, kTop + 1);
    thread_.join();
  }

  bool pinned() const { return pinned_; }
  bool Set(int policy, int priority) const {
    const sched_param param{.sched_priority = priority};
    return sched_setscheduler(tid_.load(), policy, &param) == 0;
  }
  // The first time it is seen running after `since`; 0: not within `limit` cycles.
  std::uint64_t RunsAfter(std::uint64_t since, std::uint64_t limit) const {
    while (rte_rdtsc() - since < limit) {
      const std::uint64_t stamp = stamp_.load(std::memory_order_relaxed);
      if (stamp > since) return stamp;
      rte_pause();
    }
    return 0;
  }
  std::uint64_t last_run() const { return stamp_.load(std::memory_order_relaxed); }
  void set_yielding(bool yielding) { yielding_.store(yielding); }
  std::uint64_t yields() const { return yields_.load(); }

 private:
  void Main() {
    tid_.store(static_cast<pid_t>(syscall(SYS_gettid)));
    while (!stop_.load(std::memory_order_relaxed)) {
      stamp_.store(rte_rdtsc(), std::memory_order_relaxed);
      if (!yielding_.load(std::memory_order_relaxed)) continue;
      sched_yield();
      yields_.fetch_add(1, std::memory_order_relaxed);
    }
  }

  std::atomic<pid_t> tid_{0};
  bool pinned_ = false;
  std::atomic<bool> stop_{false};
  std::atomic<bool> yielding_{false};
  std::atomic<std::uint64_t> yields_{0};
  alignas(64) std::atomic<std::uint64_t> stamp_{0};
  std::thread thread_;
};

absl::Status NoRealTime() {
  return absl::ErrnoToStatus(errno, "cannot use real-time classes; see `unis doctor`");
}

// Both spin at equal priority and yield to each other.
absl::StatusOr<double> MeasureYield(std::array<Spinner, 2>& spinners, double ns_per_cycle) {
  for (Spinner& spinner : spinners) spinner.set_yielding(true);
  for (Spinner& spinner : spinners) {
    if (!spinner.Set(SCHED_FIFO, kTop)) return NoRealTime();
  }
  std::vector<double> samples;
  for (int i = 0; i < 20; ++i) {
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

}  // namespace

absl::StatusOr<SwitchCost> MeasureSwitchCost(unsigned cpu, unsigned rounds,
                                             const std::function<void()>& meanwhile) {
  const double ns_per_cycle = 1e9 / static_cast<double>(rte_get_tsc_hz());
  const std::uint64_t limit = rte_get_tsc_hz() / 20;
  const std::uint64_t slice = rte_get_tsc_hz() / 1'000'000 * 30;
  std::array<Spinner, 2> spinners{Spinner(cpu), Spinner(cpu)};
  for (const Spinner& spinner : spinners) {
    if (!spinner.pinned())
      return absl::InvalidArgumentError(fmt::format("cannot run on CPU {}", cpu));
    if (!spinner.Set(SCHED_FIFO, kLow)) return NoRealTime();
  }
  std::vector<double> call, preempted, until;
  int level = kLow;
  for (unsigned round = 0; round < rounds; ++round) {
    const Spinner& next = spinners[round % 2];
    const Spinner& current = spinners[(round + 1) % 2];
    if (level == kTop) {
      level = kLow;
      for (const Spinner& spinner : spinners) spinner.Set(SCHED_FIFO, level);
    }
    // The other one runs undisturbed, as an NF does in its slice.
    for (const std::uint64_t from = rte_rdtsc(); rte_rdtsc() - from < slice;) meanwhile();
    const std::uint64_t begin = rte_rdtsc();
    if (!next.Set(SCHED_FIFO, ++level)) return NoRealTime();
    const std::uint64_t returned = rte_rdtsc();
    const std::uint64_t runs = next.RunsAfter(begin, limit);
    if (runs == 0) continue;
    preempted.push_back(static_cast<double>(std::max(current.last_run(), begin) - begin) *
                        ns_per_cycle);
    call.push_back(static_cast<double>(returned - begin) * ns_per_cycle);
    until.push_back(static_cast<double>(runs - begin) * ns_per_cycle);
  }
  if (until.size() < rounds / 2 || until.empty()) {
    return absl::UnavailableError(
        fmt::format("a raised thread did not run on CPU {} within 50 ms; is the CPU busy with "
                    "other real-time threads?",
                    cpu));
  }
  const auto yield = MeasureYield(spinners, ns_per_cycle);
  if (!yield.ok()) return yield.status();
  return SwitchCost{.call_ns = Quantile(call, 0.5),
                    .until_preempted_ns = Quantile(preempted, 0.5),
                    .until_running_ns = Quantile(until, 0.5),
                    .until_running_ns_q1 = Quantile(until, 0.25),
                    .until_running_ns_q3 = Quantile(until, 0.75),
                    .yield_ns = *yield};
}

}  // namespace unis
