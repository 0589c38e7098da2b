#include "engine/platform/lcore_nap.h"

#include <gtest/gtest.h>

#include <cstdint>

#include "engine/platform/memory_for_test.h"

namespace unis {
namespace {

// The turns of components on the test's own thread, as if it were an lcore with `kComponents`.
class LcoreNapTest : public MemoryTest {
 protected:
  static constexpr int kComponents = 2;
  LcoreNapTest() {
    for (int i = 0; i < kComponents; ++i) nap_.Join();
    nap_.set_slack(100'000);
  }
  ~LcoreNapTest() override {
    for (int i = 0; i < kComponents; ++i) nap_.Leave();
  }
  void Turn(bool handled, std::int64_t idle_ns = LcoreNap::kUntilGiven) {
    nap_.AfterTurn(handled, [idle_ns] { return idle_ns; });
  }

  LcoreNap nap_;
};

TEST_F(LcoreNapTest, TheSchedulerLooksBetweenAPacketAndTheNapAfterIt) {
  constexpr auto kLookEvery = 5us;
  constexpr int kSent = 20;
  int unseen = 0;
  for (int i = 0; i < kSent; ++i) {
    auto looked = TestClock::now();
    Turn(false);
    const auto sent = TestClock::now();
    Turn(true);
    for (const std::uint64_t naps = nap_.naps(); nap_.naps() == naps;) {
      if (TestClock::now() - looked >= kLookEvery) looked = TestClock::now();
      Turn(false);
      Turn(false);
    }
    if (looked < sent) ++unseen;
  }
  EXPECT_LT(unseen, kSent / 2) << "the host may take the CPU in between now and then";
}

}  // namespace
}  // namespace unis
