#include "engine/platform/lcore_nap.h"

#include <gtest/gtest.h>
#include <sys/prctl.h>

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

TEST_F(LcoreNapTest, AllHaveATurnBetweenAPacketAndTheNapAfterIt) {
  for (int i = 0; i < 20; ++i) {
    Turn(true);
    const std::uint64_t naps = nap_.naps();
    int turns = 0;
    for (; nap_.naps() == naps; ++turns) Turn(false);
    EXPECT_GE(turns, 2 * kComponents) << "one to be asked, and one to look";
  }
}

// As when the host has taken the CPU several times.
TEST_F(LcoreNapTest, ATimerThatWasLateForbidsNapsForAWhileOnly) {
  constexpr std::int64_t kLong = 400'000, kShort = 90'000;  // ns
  const auto naps_in = [this](int rounds, std::int64_t idle_ns) {
    const std::uint64_t before = nap_.naps();
    for (int i = 0; i < rounds * kComponents; ++i) Turn(false, idle_ns);
    return nap_.naps() - before;
  };
  ASSERT_TRUE(Eventually([&] { return naps_in(10, kLong) > 0; }));
  prctl(PR_SET_TIMERSLACK, 10'000'000);  // ns; the first nap has set it to the least
  EXPECT_TRUE(Eventually([&] {
    (void)naps_in(100, kLong);
    return naps_in(100, kShort) == 0;
  }));
  prctl(PR_SET_TIMERSLACK, 1);
  EXPECT_TRUE(Eventually([&] { return naps_in(1'000, kShort) > 0; }));
}

}  // namespace
}  // namespace unis
