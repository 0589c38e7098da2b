#include "engine/run/work_counter.h"

#include <gtest/gtest.h>

namespace unis {
namespace {

TEST(WorkCounterTest, IsPacketsTimesCostOfTheTime) {
  WorkCounter work(2);
  EXPECT_EQ(work.Update(0, 100, 50), 5'000U);
  EXPECT_EQ(work.Update(0, 110, 200), 7'000U);  // the first hundred stay what they cost then
  EXPECT_EQ(work.Update(1, 0, 50), 0U);
}

TEST(WorkCounterTest, OnlyGrows) {
  WorkCounter work(1);
  EXPECT_EQ(work.Update(0, 100, 10), 1'000U);
  EXPECT_EQ(work.Update(0, 40, 10), 1'000U);  // counters that were read in another order
  EXPECT_EQ(work.Update(0, 100, 0), 1'000U);
}

TEST(WorkCounterTest, GoesOnUnderAnotherNumber) {
  WorkCounter before(2), after(1);
  before.Update(1, 100, 10);
  after.Inherit(0, before, 1);
  EXPECT_EQ(after.Update(0, 100, 20), 1'000U);
  EXPECT_EQ(after.Update(0, 110, 20), 1'200U);
}

}  // namespace
}  // namespace unis
