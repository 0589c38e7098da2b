#include "engine/platform/component.h"

#include <gtest/gtest.h>
#include <rte_lcore.h>
#include <rte_service.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "engine/platform/memory_for_test.h"

namespace unis {
namespace {

class CountingComponent final : public Component {
 public:
  explicit CountingComponent(std::string name = "unis_counting") : Component(std::move(name)) {}
  ~CountingComponent() override { Halt(); }
  std::uint64_t iterations() const { return iterations_.load(); }
  unsigned runs_on() const { return lcore_.load(); }
  int state = 0;  // as members of real components: touched by Iterate and Do alone

 private:
  std::uint32_t Iterate() noexcept override {
    ++state;
    --state;
    lcore_.store(rte_lcore_id());
    return iterations_.fetch_add(1) % 2 == 0 ? 3 : 0;
  }

  std::atomic<std::uint64_t> iterations_{0};
  std::atomic<unsigned> lcore_{LCORE_ID_ANY};
};

// Handles nothing, and says when there is something to do again.
class IdleComponent final : public Component {
 public:
  explicit IdleComponent(std::string name, std::int64_t idle_ns = LcoreNap::kUntilGiven)
      : Component(std::move(name)), idle_ns_(idle_ns) {}
  ~IdleComponent() override { Halt(); }
  std::uint64_t iterations() const { return iterations_.load(); }

 private:
  std::uint32_t Iterate() noexcept override {
    iterations_.fetch_add(1);
    return 0;
  }
  std::int64_t IdleNs() noexcept override { return idle_ns_; }

  const std::int64_t idle_ns_;
  std::atomic<std::uint64_t> iterations_{0};
};

// Handles a packet a millisecond.
class PacedComponent final : public Component {
 public:
  PacedComponent() : Component("unis_paced") {}
  ~PacedComponent() override { Halt(); }

 private:
  std::uint32_t Iterate() noexcept override {
    const auto now = std::chrono::steady_clock::now();
    if (now < due_) return 0;
    due_ = now + 1ms;
    return 1;
  }
  std::int64_t IdleNs() noexcept override {
    return std::chrono::nanoseconds(due_ - std::chrono::steady_clock::now()).count();
  }

  std::chrono::steady_clock::time_point due_;
};

using ComponentTest = MemoryTest;

TEST_F(ComponentTest, RunsOnItsLcore) {
  CountingComponent component;
  ASSERT_TRUE(component.RunOn(kServiceLcores[1]).ok());
  EXPECT_TRUE(Eventually([&] { return component.iterations() > 100; }));
  EXPECT_EQ(component.runs_on(), kServiceLcores[1]);
}

// As one does that was kept from its CPU while the service's number went from one component of its
// own to another one.
TEST_F(ComponentTest, AnLcoreThatTakesItForItsOwnNeitherRunsItNorHoldsUpItsEnd) {
  const auto rounds = [] {
    std::uint64_t count = 0;
    rte_service_lcore_attr_get(kServiceLcores[1], RTE_SERVICE_LCORE_ATTR_LOOPS, &count);
    return count;
  };
  CountingComponent other("unis_other");
  CountingComponent component;
  ASSERT_TRUE(other.RunOn(kServiceLcores[1]).ok());
  ASSERT_TRUE(component.RunOn(kServiceLcores[0]).ok());
  std::uint32_t service = 0;
  ASSERT_EQ(rte_service_get_by_name(component.name().c_str(), &service), 0);
  ASSERT_EQ(rte_service_map_lcore_set(service, kServiceLcores[1], 1), 0);
  const std::uint64_t before = rounds();
  for (int i = 0; i < 1000 && rounds() < before + 1000; ++i) {
    std::this_thread::sleep_for(100us);
    EXPECT_NE(component.runs_on(), kServiceLcores[1]);
  }
  EXPECT_GT(rounds(), before + 1);
  ASSERT_EQ(rte_service_map_lcore_set(service, kServiceLcores[1], 0), 0);
  component.Halt();
}

TEST_F(ComponentTest, CountsWhatItHandledAndTheTimeOfThat) {
  CountingComponent component;  // three packets every other time
  EXPECT_EQ(component.busy_cycles(), 0U);
  ASSERT_TRUE(component.RunOn(kServiceLcores[0]).ok());
  EXPECT_TRUE(Eventually([&] { return component.iterations() > 1000; }));
  component.Halt();
  EXPECT_EQ(component.handled(), (component.iterations() + 1) / 2 * 3);
  EXPECT_GT(component.busy_cycles(), 0U);
}

TEST_F(ComponentTest, DoesWorkOnItsOwnThread) {
  CountingComponent component;
  std::thread::id before, running, halted;
  component.Do([&] { before = std::this_thread::get_id(); });
  EXPECT_EQ(before, std::this_thread::get_id());

  ASSERT_TRUE(component.RunOn(kServiceLcores[0]).ok());
  unsigned lcore = LCORE_ID_ANY;
  component.Do([&] {
    running = std::this_thread::get_id();
    lcore = rte_lcore_id();
  });
  EXPECT_NE(running, std::this_thread::get_id());
  EXPECT_EQ(lcore, kServiceLcores[0]);

  component.Halt();
  component.Do([&] { halted = std::this_thread::get_id(); });
  EXPECT_EQ(halted, std::this_thread::get_id());
}

TEST_F(ComponentTest, ServesManyCallersOneAtATime) {
  CountingComponent component;
  ASSERT_TRUE(component.RunOn(kServiceLcores[0]).ok());
  constexpr int kCallers = 4, kCalls = 200;
  std::vector<std::thread> callers;
  std::atomic<int> inside{0}, overlaps{0};
  for (int i = 0; i < kCallers; ++i) {
    callers.emplace_back([&] {
      for (int call = 0; call < kCalls; ++call) {
        component.Do([&] {
          if (inside.fetch_add(1) != 0) ++overlaps;
          ++component.state;
          --inside;
        });
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(overlaps, 0);
  component.Do([&] { EXPECT_EQ(component.state, kCallers * kCalls); });
}

TEST_F(ComponentTest, HaltStopsIt) {
  CountingComponent component;
  ASSERT_TRUE(component.RunOn(kServiceLcores[0]).ok());
  ASSERT_TRUE(Eventually([&] { return component.iterations() > 0; }));
  component.Halt();
  const std::uint64_t halted = component.iterations();
  std::this_thread::sleep_for(5ms);
  EXPECT_EQ(component.iterations(), halted);
  component.Halt();  // again: nothing happens
}

TEST_F(ComponentTest, HaltWhileOthersCall) {
  for (int round = 0; round < 20; ++round) {
    CountingComponent component;
    ASSERT_TRUE(component.RunOn(kServiceLcores[0]).ok());
    std::atomic<int> done{0};
    std::thread caller([&] {
      for (int i = 0; i < 50; ++i) component.Do([&] { ++done; });
    });
    component.Halt();
    caller.join();
    EXPECT_EQ(done, 50);
  }
}

TEST_F(ComponentTest, TheyShareAnLcoreAndLeaveItToEachOther) {
  CountingComponent one("unis_one");
  auto two = std::make_unique<CountingComponent>("unis_two");
  ASSERT_TRUE(one.RunOn(kServiceLcores[0]).ok());
  ASSERT_TRUE(two->RunOn(kServiceLcores[0]).ok());
  EXPECT_TRUE(Eventually([&] { return one.iterations() > 100 && two->iterations() > 100; }));
  two.reset();
  const std::uint64_t since = one.iterations();
  EXPECT_TRUE(Eventually([&] { return one.iterations() > since + 100; }));
}

TEST_F(ComponentTest, AnLcoreWithoutWorkNapsAndIsWokenForWhatItIsGiven) {
  IdleComponent one("unis_one"), two("unis_two");
  const LcoreNap& nap = LcoreNap::Of(kServiceLcores[0]);
  ASSERT_TRUE(one.RunOn(kServiceLcores[0]).ok());
  ASSERT_TRUE(two.RunOn(kServiceLcores[0]).ok());
  std::uint64_t before = nap.naps();
  EXPECT_TRUE(Eventually([&] { return nap.naps() > before + 10; }));
  const std::uint64_t woken = nap.woken();
  EXPECT_TRUE(Eventually([&] {  // not each call finds it asleep
    one.Do([] {});
    return nap.woken() > woken + 10;
  }));
  before = nap.naps();
  two.Rest(true);
  EXPECT_TRUE(Eventually([&] { return nap.naps() > before + 10; }))
      << "a component that rests does not keep its lcore awake";
}

TEST_F(ComponentTest, NobodyNapsBesideOneThatHasWork) {
  for (const bool works : {true, false}) {
    IdleComponent idle("unis_idle"), busy("unis_busy", works ? 0 : 10'000'000);
    ASSERT_TRUE(idle.RunOn(kServiceLcores[0]).ok());
    ASSERT_TRUE(busy.RunOn(kServiceLcores[0]).ok());
    EXPECT_TRUE(Eventually([&] { return busy.iterations() > 2000; }));
    const LcoreNap& nap = LcoreNap::Of(kServiceLcores[0]);
    const std::uint64_t before = nap.naps();
    if (works) {
      std::this_thread::sleep_for(30ms);
      EXPECT_EQ(nap.naps(), before);
    } else {
      EXPECT_TRUE(Eventually([&] { return nap.naps() > before; }));
    }
  }
}

TEST_F(ComponentTest, APacketNowAndThenKeepsAnLcoreAwake) {
  IdleComponent idle("unis_idle");
  PacedComponent paced;  // a packet a millisecond, by the clock
  ASSERT_TRUE(idle.RunOn(kServiceLcores[0]).ok());
  ASSERT_TRUE(paced.RunOn(kServiceLcores[0]).ok());
  EXPECT_TRUE(Eventually([&] { return paced.handled() > 2; }));
  const LcoreNap& nap = LcoreNap::Of(kServiceLcores[0]);
  // The kernel may take the CPU for longer than the quiet before a nap, but not each time.
  EXPECT_TRUE(Eventually([&] {
    const std::uint64_t naps = nap.naps(), handled = paced.handled();
    std::this_thread::sleep_for(30ms);
    return nap.naps() == naps && paced.handled() > handled;
  }));
}

TEST_F(ComponentTest, WherePacketsMayWaitAnLcoreNapsBetweenThem) {
  IdleComponent idle("unis_idle");
  PacedComponent paced;
  ASSERT_TRUE(idle.RunOn(kServiceLcores[0]).ok());
  ASSERT_TRUE(paced.RunOn(kServiceLcores[0]).ok());
  LcoreNap& nap = LcoreNap::Of(kServiceLcores[0]);
  idle.Do([&nap] { nap.set_slack(100'000); });
  const std::uint64_t naps = nap.naps(), handled = paced.handled();
  EXPECT_TRUE(Eventually([&] { return paced.handled() > handled + 20; }));
  EXPECT_GT(nap.naps(), naps + 10) << "quiet of 5 ms never comes";
  idle.Do([&nap] { nap.set_slack(0); });
}

TEST_F(ComponentTest, AnLcoreDoesNotNapWhereAnotherHasComponentsToo) {
  IdleComponent idle("unis_idle");
  ASSERT_TRUE(idle.RunOn(kServiceLcores[0]).ok());
  const LcoreNap& nap = LcoreNap::Of(kServiceLcores[0]);
  std::uint64_t before = nap.naps();
  ASSERT_TRUE(Eventually([&] { return nap.naps() > before; }));
  {
    IdleComponent other("unis_other");
    ASSERT_TRUE(other.RunOn(kServiceLcores[1]).ok());
    const std::uint64_t since = idle.iterations();
    EXPECT_TRUE(Eventually([&] { return idle.iterations() > since + 10; }));
    before = nap.naps();
    std::this_thread::sleep_for(30ms);
    EXPECT_EQ(nap.naps(), before);
  }
  EXPECT_TRUE(Eventually([&] { return nap.naps() > before; }));
}

TEST_F(ComponentTest, LeavesNoServiceBehind) {
  const std::uint32_t before = rte_service_get_count();
  for (int i = 0; i < 100; ++i) {  // more than there is room for at a time
    CountingComponent component;
    ASSERT_TRUE(component.RunOn(kServiceLcores[0]).ok()) << i;
  }
  EXPECT_EQ(rte_service_get_count(), before);
}

TEST_F(ComponentTest, NamesAreTheirOwn) {
  CountingComponent one("unis_scheduler_0"), two("unis_scheduler_1"), again("unis_scheduler_0"),
      longer(std::string(RTE_SERVICE_NAME_MAX, 'x'));
  ASSERT_TRUE(one.RunOn(kServiceLcores[0]).ok());
  ASSERT_TRUE(two.RunOn(kServiceLcores[1]).ok());
  EXPECT_EQ(again.RunOn(kServiceLcores[1]).code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(longer.RunOn(kServiceLcores[1]).code(), absl::StatusCode::kInvalidArgument);
  again.Do([] {});  // does not wait for a thread that is not there
  one.Halt();
  EXPECT_TRUE(again.RunOn(kServiceLcores[1]).ok()) << "the name is free again";
}

TEST_F(ComponentTest, AnLcoreThatCannotServeIsAnError) {
  for (const unsigned lcore : {rte_get_main_lcore(), 77U, 100'000U}) {
    CountingComponent component;
    const auto status = component.RunOn(lcore);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << lcore;
    EXPECT_NE(status.message().find(std::to_string(lcore)), std::string::npos) << status;
    component.Do([] {});  // does not wait for a thread that is not there
  }
}

}  // namespace
}  // namespace unis
