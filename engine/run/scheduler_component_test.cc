#include "engine/run/scheduler_component.h"

#include <gtest/gtest.h>

#include <memory>

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
  bool Decide(Nanoseconds) noexcept override { return false; }
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

}  // namespace
}  // namespace unis
