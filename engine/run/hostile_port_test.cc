// A function writes what it likes into the memory of its port: whoever reads that goes on, answers,
// and touches nobody else's memory or threads.
#include <array>

#include "engine/base/dice_for_test.h"
#include "engine/base/fuzz_for_test.h"
#include "engine/run/run_for_test.h"

namespace unis {
namespace {

using Clock = std::chrono::steady_clock;

// Zeros, ones, all bits, numbers that mean something elsewhere; or just a small one.
std::uint64_t Lie(Dice& dice) {
  const std::array<std::uint64_t, 8> lies = {0,
                                             1,
                                             kPlatformLcore + 1,
                                             UINT32_MAX,
                                             UINT64_MAX,
                                             std::uint64_t{1} << 63,
                                             static_cast<std::uint64_t>(getpid()),
                                             dice.Between(0, 1 << 20)};
  return lies[dice.Between(0, lies.size() - 1)];
}

TEST_F(RunTest, WhatAPortTellsIsBelievedByNobody) {
  BringUp();
  const std::uint64_t seed = FuzzSeed();
  SCOPED_TRACE(testing::Message() << "UNIS_FUZZ_SEED=" << seed);
  Dice dice(seed);
  unis_port_shm* const shm = PortOf("a");
  const auto end = Clock::now() + FuzzTime();
  while (Clock::now() < end) {
    auto* const words = reinterpret_cast<std::uint64_t*>(shm);
    for (std::size_t i = 0; i < sizeof(*shm) / sizeof(*words); ++i)
      __atomic_store_n(&words[i], Lie(dice), __ATOMIC_RELAXED);
    (void)Stats();
    run_->Look();
    v1::TraceRequest trace;
    trace.set_duration_ns(1'000'000);
    (void)run_->Trace(trace);
    v1::SettleRequest settle;
    settle.set_timeout_ns(1'000'000);
    EXPECT_TRUE(run_->Settle(settle).ok());
  }
  functions_[0].End();
  ASSERT_TRUE(Detach("a").ok());
  ASSERT_TRUE(Attach("a", Spawn("a", 0)).ok()) << "who comes after it is as good as any";
  const auto window = MeasureTraffic(100, v1::POLICY_RR);
  ASSERT_TRUE(window.ok()) << window.status();
  EXPECT_GT(window->delivered(), 0U);
}

}  // namespace
}  // namespace unis
