#include "models/machine/line_transfer.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <thread>

namespace unis {
namespace {

constexpr int kPasses = 500;                        // there and back, in a sample
constexpr std::size_t kSamples = 41;                // odd
constexpr auto kLongest = std::chrono::seconds(2);  // of all; a CPU may be another's entirely
constexpr int kLooks = 1 << 14;                     // between two looks at the clock

bool RunOn(unsigned cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  return sched_setaffinity(0, sizeof(set), &set) == 0;
}

// The line that is passed: whoever finds it odd, or even, makes it the next number.
class Line {
 public:
  explicit Line(std::chrono::steady_clock::time_point end) : end_(end) {}

  // False: the other gave up, or did not pass it in time.
  bool Await(std::uint64_t number) noexcept {
    while (true) {
      for (int i = 0; i < kLooks; ++i)
        if (number_.load(std::memory_order_acquire) == number) return true;
      if (given_up_ || std::chrono::steady_clock::now() > end_) return false;
    }
  }
  void Pass(std::uint64_t number) noexcept { number_.store(number, std::memory_order_release); }
  void GiveUp() noexcept { given_up_ = true; }

 private:
  alignas(128) std::atomic<std::uint64_t> number_{0};  // two lines: prefetchers fetch pairs
  alignas(128) std::atomic<bool> given_up_{false};
  const std::chrono::steady_clock::time_point end_;
};

}  // namespace

absl::StatusOr<double> LineTransfer(unsigned one, unsigned other) {
  if (one == other || one >= CPU_SETSIZE || other >= CPU_SETSIZE)
    return absl::InvalidArgumentError(fmt::format("CPUs {} and {}: give two", one, other));
  Line line(std::chrono::steady_clock::now() + kLongest);
  std::thread answer([&] {
    if (!RunOn(other)) return line.GiveUp();
    constexpr std::uint64_t kLast = 2 * kPasses * (kSamples + 1);
    for (std::uint64_t number = 1; number < kLast && line.Await(number); number += 2)
      line.Pass(number + 1);
  });
  std::array<double, kSamples> samples{};
  bool done = false;
  std::thread ask([&] {
    if (!RunOn(one)) return line.GiveUp();
    std::uint64_t number = 0;
    const auto sample = [&](double& ns) {
      const auto begin = std::chrono::steady_clock::now();
      for (int i = 0; i < kPasses; ++i, number += 2) {
        line.Pass(number + 1);
        if (!line.Await(number + 2)) return false;
      }
      const std::chrono::duration<double, std::nano> took =
          std::chrono::steady_clock::now() - begin;
      ns = took.count() / (2 * kPasses);
      return true;
    };
    done = sample(samples[0]) &&  // while the other thread starts
           std::all_of(samples.begin(), samples.end(), sample);
  });
  ask.join();
  answer.join();
  if (!done)
    return absl::UnavailableError(fmt::format("CPUs {} and {} are not both free", one, other));
  std::nth_element(samples.begin(), samples.begin() + kSamples / 2, samples.end());
  return samples[kSamples / 2];
}

}  // namespace unis
