// How long a thread that sleeps takes to run after it was woken up, and after its timer was due.
#include <fmt/format.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <string_view>

#include "engine/base/unique_fd.h"
#include "models/calibrate/partner.h"
#include "models/calibrate/sampling.h"
#include "models/calibrate/scheduling.h"
#include "models/calibrate/sections.h"

namespace unis {
namespace {

constexpr std::size_t kWakeUpSamples = 201, kTimerSamples = 201;
constexpr double kMostSleepsNs = 120e6;   // of one measurement of a timer
constexpr long kUntilAsleepNs = 100'000;  // the thread blocks again in less
constexpr unsigned kSleepersSeconds = 3;

class Sleeper {
 public:
  explicit Sleeper(bool by_futex) : by_futex_(by_futex), event_(eventfd(0, EFD_CLOEXEC)) {}

  void WakeUp() {
    if (by_futex_) {
      ++word_;
      syscall(SYS_futex, &word_, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
    } else {
      (void)eventfd_write(event_.get(), 1);
    }
  }
  void Sleep() {
    if (by_futex_) {
      while (word_ == seen_)
        syscall(SYS_futex, &word_, FUTEX_WAIT_PRIVATE, seen_, nullptr, nullptr, 0);
      ++seen_;
    } else {
      eventfd_t count = 0;
      (void)eventfd_read(event_.get(), &count);
    }
  }

 private:
  const bool by_futex_;
  std::atomic<std::uint32_t> word_{0};
  std::uint32_t seen_ = 0;
  UniqueFd event_;
};

void SleepNs(long ns) {
  const timespec span{.tv_sec = 0, .tv_nsec = ns};
  nanosleep(&span, nullptr);
}

Samples WakeUpSamples(const Settings& settings, const SchedulingClass& in, bool by_futex,
                      unsigned waker) {
  Sleeper sleeper(by_futex);
  std::atomic<double> sent{0};
  std::atomic<std::size_t> woken{0};
  const std::size_t samples = settings.samples(kWakeUpSamples);
  std::vector<double> found;
  absl::Status refused;
  std::atomic<int> runs{0};  // 1: it does; -1: it was refused
  const auto sleep = [&] {
    refused = RunOn(settings.cpu, in);
    runs = refused.ok() ? 1 : -1;
    for (std::size_t i = 0; refused.ok() && i < samples; ++i) {
      sleeper.Sleep();
      found.push_back(NowNs() - sent);
      ++woken;
    }
  };
  {
    const Beside beside = Beside::Thread(sleep);
    const absl::Status pinned = RunOn(waker, kOther);
    while (runs == 0) SleepNs(kUntilAsleepNs);
    for (std::size_t i = 0; runs > 0 && i < samples; ++i) {
      SleepNs(kUntilAsleepNs);
      sent = NowNs();
      sleeper.WakeUp();
      while (woken <= i) SleepNs(kUntilAsleepNs / 10);
    }
    if (!pinned.ok()) return pinned;
  }
  if (!refused.ok()) return refused;
  return found;
}

// ns of oversleeping.
Samples TimerSamples(const Settings& settings, const SchedulingClass& in, long period_ns,
                     bool least_slack) {
  if (const absl::Status runs = RunOn(settings.cpu, in); !runs.ok()) return runs;
  if (least_slack) prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
  std::vector<double> found;
  const double begin = NowNs();
  while (found.size() < settings.samples(kTimerSamples) && NowNs() < begin + kMostSleepsNs) {
    const double slept = NowNs();
    const timespec span{.tv_sec = 0, .tv_nsec = period_ns};
    clock_nanosleep(CLOCK_MONOTONIC, 0, &span, nullptr);
    found.push_back(NowNs() - slept - static_cast<double>(period_ns));
  }
  return found;
}

}  // namespace

void MeasureWakeUps(const Settings& settings, const Report& report) {
  for (const SchedulingClass& in : {kOther, kFifo})
    for (const bool by_futex : {true, false})
      for (const bool same : {true, false}) {
        Samples samples = absl::FailedPreconditionError("there is only one CPU");
        if (const auto waker = same ? settings.cpu : settings.other_cpu; waker)
          samples = InChild(kSleepersSeconds,
                            [&] { return WakeUpSamples(settings, in, by_futex, *waker); });
        report(With({.group = "wake_up",
                     .name = in.name,
                     .labels = {{"by", by_futex ? "futex" : "eventfd"},
                                {"from", same ? "same CPU" : "other CPU"}},
                     .provider = kClock,
                     .ns = {},
                     .missing = {}},
                    samples));
      }
}

void MeasureTimers(const Settings& settings, const Report& report) {
  const auto measure = [&](const SchedulingClass& in, const char* slack, bool least) {
    for (const long period_ns : {10'000L, 50'000L, 100'000L, 1'000'000L})
      report(With(
          {.group = "timer",
           .name = in.name,
           .labels = {{"slack", slack}, {"period_ns", period_ns}},
           .provider = kClock,
           .ns = {},
           .missing = {}},
          InChild(kSleepersSeconds, [&] { return TimerSamples(settings, in, period_ns, least); })));
  };
  measure(kOther, "default", false);
  measure(kOther, "1 ns", true);
  measure(kFifo, "none", false);
}

}  // namespace unis
