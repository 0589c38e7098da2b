#include "engine/run/placement.h"

#include <gtest/gtest.h>

#include <set>

namespace unis {
namespace {

using Lcores = std::vector<unsigned>;

TEST(PlacementTest, TheFewerLcoresTheMoreIsShared) {
  struct Case {
    Lcores lcores;
    std::size_t cores;
    unsigned source, sink;
    Lcores schedulers;
  };
  const std::vector<Case> cases = {
      {{5}, 1, 5, 5, {5}},
      {{5}, 3, 5, 5, {5}},
      {{5, 6}, 1, 5, 6, {6}},
      {{5, 6}, 2, 5, 6, {6}},
      {{5, 6, 7}, 2, 5, 6, {7}},
      {{5, 6, 7, 8}, 1, 5, 6, {8}},
      {{5, 6, 7, 8}, 2, 5, 6, {8, 7}},
      {{5, 6, 7, 8}, 9, 5, 6, {8, 7}},
      {{5, 6, 7, 8, 9, 10}, 3, 5, 6, {10, 9, 8}},
  };
  for (const Case& wanted : cases) {
    const Placement placement = PlaceComponents(wanted.lcores, wanted.cores);
    EXPECT_EQ(placement.source, wanted.source);
    EXPECT_EQ(placement.sink, wanted.sink) << wanted.lcores.size() << " lcores";
    EXPECT_EQ(placement.schedulers, wanted.schedulers) << wanted.lcores.size() << " lcores";
  }
}

TEST(PlacementTest, WhereThereIsWorkForAllNoLcoreIsIdleAndNoSchedulerSharesTheSinks) {
  for (std::size_t count = 3; count < 12; ++count) {
    Lcores lcores(count);
    for (std::size_t i = 0; i < count; ++i) lcores[i] = static_cast<unsigned>(10 + i);
    const Placement placement = PlaceComponents(lcores, count);
    std::set<unsigned> used(placement.schedulers.begin(), placement.schedulers.end());
    EXPECT_FALSE(used.contains(placement.sink)) << count;
    used.insert({placement.source, placement.sink});
    EXPECT_EQ(used.size(), count);
  }
}

}  // namespace
}  // namespace unis
