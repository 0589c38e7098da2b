#include "engine/run/scheduler_component.h"

#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <thread>

#include "engine/platform/memory_for_test.h"

namespace unis {
namespace {

// All of its tasks sleep.
struct RestingScheduler final : CoreScheduler {
  static constexpr Nanoseconds kSlack = 100'000;
  RestingScheduler() : CoreScheduler(0) {}
  bool Start() override { return true; }
  CoreStatistics statistics() const noexcept override { return {}; }
  std::uint64_t SwitchedIn(TaskIndex) const noexcept override { return 0; }
  Nanoseconds slack() const noexcept override { return kSlack; }
  Nanoseconds idle_until() const noexcept override {
    return std::numeric_limits<Nanoseconds>::max();
  }
  bool Decide(Nanoseconds now) noexcept override {
    looks.Add(1);
    next_decision_ = now + 1'000'000'000;  // longer than any nap
    return false;
  }
  Counter looks;
};

using SchedulerComponentTest = MemoryTest;

TEST_F(SchedulerComponentTest, TellsItsLcoreHowLongPacketsMayBeKeptBack) {
  const TscTimer timer;
  Counter beat;
  SchedulerComponent component("unis_scheduler", timer, beat, nullptr);
  ASSERT_TRUE(component.RunOn(kServiceLcores[0]).ok());
  const auto slack_is = [&](Nanoseconds wanted) {
    return Eventually([&] {
      Nanoseconds slack = 0;
      component.Do([&] { slack = LcoreNap::Of(kServiceLcores[0]).slack_ns(); });
      return slack == wanted;
    });
  };
  component.Do([&] { component.cores().Add(std::make_unique<RestingScheduler>()); });
  EXPECT_TRUE(slack_is(RestingScheduler::kSlack));
  component.Do([&] { component.cores().Remove(component.cores()[0]); });
  EXPECT_TRUE(slack_is(0));
}

// Between two naps there are two turns, and the source may have sent in the first one.
TEST_F(SchedulerComponentTest, LooksInTheTurnBeforeANapHoweverShortlyItHasLooked) {
  const TscTimer timer;
  Counter beat;
  SchedulerComponent component("unis_scheduler", timer, beat, nullptr);
  ASSERT_TRUE(component.RunOn(kServiceLcores[0]).ok());
  auto made = std::make_unique<RestingScheduler>();
  const RestingScheduler& scheduler = *made;
  component.Do([&] { component.cores().Add(std::move(made)); });
  const LcoreNap& nap = LcoreNap::Of(kServiceLcores[0]);
  ASSERT_TRUE(Eventually([&] { return nap.naps() > 10; }));
  const std::uint64_t naps = nap.naps(), looks = scheduler.looks.value();
  EXPECT_TRUE(Eventually([&] { return nap.naps() > naps + 10; }));
  EXPECT_GE(scheduler.looks.value() + 1, looks + 10);
  component.Do([&] { component.cores().Remove(component.cores()[0]); });
}

// Its tasks run.
struct WatchingScheduler final : CoreScheduler {
  explicit WatchingScheduler(Nanoseconds nap) : CoreScheduler(0), nap_ns(nap) {}
  bool Start() override { return true; }
  CoreStatistics statistics() const noexcept override { return {}; }
  std::uint64_t SwitchedIn(TaskIndex) const noexcept override { return 0; }
  Nanoseconds slack() const noexcept override { return nap_ns; }
  Nanoseconds nap(Nanoseconds) const noexcept override { return nap_ns; }
  bool may_nap() const noexcept override { return nap_ns > 0; }
  bool Decide(Nanoseconds now) noexcept override {
    next_decision_ = now + 50'000;
    return false;
  }
  Nanoseconds nap_ns;
};

TEST_F(SchedulerComponentTest, NapsWhileTasksRunWhereItMay) {
  const TscTimer timer;
  Counter beat;
  SchedulerComponent component("unis_scheduler", timer, beat, nullptr);
  ASSERT_TRUE(component.RunOn(kServiceLcores[0]).ok());
  const LcoreNap& nap = LcoreNap::Of(kServiceLcores[0]);
  for (const Nanoseconds ns : {0, 100'000}) {
    component.Do([&] { component.cores().Add(std::make_unique<WatchingScheduler>(ns)); });
    int nice = 0;
    component.Do([&] {
      component.Favour();
      nice = getpriority(PRIO_PROCESS, 0);
    });
    EXPECT_EQ(nice, ns > 0 ? kFirstNice : kFavouredNice);
    const std::uint64_t turns = beat.value(), naps = nap.naps();
    if (ns > 0)
      EXPECT_TRUE(Eventually([&] { return nap.naps() > naps + 10; }));
    else
      std::this_thread::sleep_for(30ms);  // idle ones nap after 5 ms
    EXPECT_GT(beat.value(), turns);
    EXPECT_EQ(nap.naps() > naps, ns > 0);
    component.Do([&] {
      component.cores().Remove(component.cores()[0]);
      component.Favour();
      nice = getpriority(PRIO_PROCESS, 0);
    });
    EXPECT_EQ(nice, kFavouredNice);
  }
}

}  // namespace
}  // namespace unis
