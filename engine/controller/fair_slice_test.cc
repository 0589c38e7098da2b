// Time slices of threads, set and put back by who holds them.
#include "engine/controller/fair_slice.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <string>

#include "engine/controller/held_thread.h"
#include "engine/controller/scheduling_for_test.h"
#include "engine/controller/sleeping_thread_for_test.h"
#include "engine/controller/spinners_for_test.h"

namespace unis {
namespace {

class FairSliceTest : public ControllerTest {
 protected:
  void SetUp() override {
    ControllerTest::SetUp();
    if (IsSkipped()) return;
    SetSlice(thread_.tid(), 0);
    base_ = SliceOf(thread_.tid());
    UNIS_NEED(base_ > 0, "this test needs a kernel that knows slices of threads, Linux 6.12");
  }
  static constexpr std::uint64_t kOwn = 23'000'000;
  HeldThread Take() { return HeldThread::Take("fw", getpid(), thread_.tid()).value(); }
  std::string Now() const { return SchedulingOf(thread_.tid()); }

  SleepingThread thread_;
  std::uint64_t base_ = 0;
};

TEST_F(FairSliceTest, IsSetInTheFairClassesAndKeptThroughOthers) {
  HeldThread held = Take();
  EXPECT_EQ(held.before().slice, 0ns);
  for (const int policy : {SCHED_OTHER, SCHED_BATCH}) {
    for (const auto slice : {100us, 100'000us}) {
      ASSERT_TRUE(held.SetClass(policy, 0, {.slice = slice}).ok());
      EXPECT_EQ(SliceOf(thread_.tid()), static_cast<std::uint64_t>(slice / 1ns));
      EXPECT_TRUE(held.DescribeClass().starts_with(policy == SCHED_OTHER ? "other, slice "
                                                                         : "batch, slice "));
    }
  }
  const SchedulingClass before = held.Class().value();
  ASSERT_TRUE(held.SetClass(SCHED_FIFO, 3).ok());
  ASSERT_TRUE(held.RestoreClass(before).ok());
  EXPECT_EQ(SliceOf(thread_.tid()), 100'000'000U);
  ASSERT_TRUE(held.SetClass(SCHED_OTHER, 0).ok());
  EXPECT_EQ(SliceOf(thread_.tid()), base_) << "without one it is as it was found";
}

TEST_F(FairSliceTest, IsPutBackFromAndToEveryClass) {
  for (const std::uint64_t found : {std::uint64_t{0}, kOwn}) {
    for (const int policy : {SCHED_OTHER, SCHED_BATCH, SCHED_IDLE, SCHED_FIFO}) {
      SetSlice(thread_.tid(), policy == SCHED_FIFO ? 0 : found);
      SetScheduling(thread_.tid(), policy, policy == SCHED_FIFO ? 7 : 0, 4);
      const std::string before = Now();
      for (const int last : {SCHED_OTHER, SCHED_RR, SCHED_IDLE}) {
        HeldThread held = Take();
        ASSERT_TRUE(held.SetClass(SCHED_BATCH, 0, {.slice = 50ms}).ok());
        ASSERT_EQ(SliceOf(thread_.tid()), 50'000'000U);
        if (last != SCHED_OTHER) {
          ASSERT_TRUE(held.SetClass(last, last == SCHED_RR ? 1 : 0).ok());
        }
        ASSERT_TRUE(held.Restore().ok());
        EXPECT_EQ(Now(), before) << last;
      }
      SetScheduling(thread_.tid(), SCHED_OTHER, 0, 0);
      EXPECT_EQ(SliceOf(thread_.tid()), policy == SCHED_FIFO || found == 0 ? base_ : found)
          << "nor does it wait behind the class";
    }
  }
}

TEST_F(FairSliceTest, OneThatWasNotAskedForStays) {
  SetSlice(thread_.tid(), kOwn);
  {
    HeldThread held = Take();
    EXPECT_EQ(held.before().slice, std::chrono::nanoseconds(kOwn));
    ASSERT_TRUE(held.SetClass(SCHED_BATCH, 0).ok());
    EXPECT_EQ(SliceOf(thread_.tid()), kOwn);
  }
  EXPECT_EQ(SliceOf(thread_.tid()), kOwn);
}

TEST_F(FairSliceTest, AfterAGuardHasPutTheThreadBackItIsSetAgain) {
  HeldThread held = Take();
  ASSERT_TRUE(held.SetClass(SCHED_OTHER, 0, {.slice = 50ms}).ok());
  SetSlice(thread_.tid(), 0);
  ASSERT_TRUE(held.SetClass(SCHED_OTHER, 0, {.slice = 50ms}).ok());
  EXPECT_EQ(SliceOf(thread_.tid()), 50'000'000U);
}

TEST_F(FairSliceTest, WhatTheKernelDoesNotGiveIsAnErrorAndTheClassIsSet) {
  HeldThread held = Take();
  for (const auto slice : {99us, 100'001us}) {
    const auto status = held.SetClass(SCHED_BATCH, 0, {.slice = slice});
    EXPECT_TRUE(absl::IsOutOfRange(status)) << status;
    EXPECT_NE(status.message().find("function fw"), std::string::npos) << status;
    EXPECT_TRUE(held.DescribeClass().starts_with("batch"));
  }
}

TEST(FairSlice, AKernelThatKnowsNoneIsTold) {
  EXPECT_TRUE(KnowsFairSlices(1ns).ok());
  const auto old = KnowsFairSlices(0ns);
  EXPECT_NE(old.message().find("Linux 6.12"), std::string::npos) << old;
  EXPECT_NE(old.message().find("fair_slice_ms"), std::string::npos) << old;
}

}  // namespace
}  // namespace unis
