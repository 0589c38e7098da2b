#include "engine/run/work_counter.h"

#include <gtest/gtest.h>

namespace unis {
namespace {

TEST(WorkCounterTest, IsPacketsTimesCostOfTheTime) {
  WorkCounter work;
  EXPECT_EQ(work.Update("a", 100, 50), 5'000U);
  EXPECT_EQ(work.Update("a", 110, 200), 7'000U);  // the first hundred stay what they cost then
  EXPECT_EQ(work.Update("b", 0, 50), 0U);
}

TEST(WorkCounterTest, OnlyGrows) {
  WorkCounter work;
  EXPECT_EQ(work.Update("a", 100, 10), 1'000U);
  EXPECT_EQ(work.Update("a", 40, 10), 1'000U);  // counters that were read in another order
  EXPECT_EQ(work.Update("a", 100, 0), 1'000U);
}

TEST(WorkCounterTest, AFunctionThatWasForgottenBeginsAtNothing) {
  WorkCounter work;
  work.Update("a", 100, 10);
  work.Forget("a");
  EXPECT_EQ(work.Update("a", 10, 20), 200U);
}

}  // namespace
}  // namespace unis
