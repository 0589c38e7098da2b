#include "models/cache/way_stacks.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "models/cache/brute_force_for_test.h"

namespace unis::cache {
namespace {

constexpr std::uint32_t kSeeds = 200;

TEST(WayStacksTest, AgreesWithACacheOfEachNumberOfWays) {
  for (std::uint32_t seed = 0; seed < kSeeds; ++seed) {
    std::mt19937 dice(seed);
    const Geometry geometry{1 + static_cast<std::uint32_t>(dice() % 5),
                            1 + static_cast<std::uint32_t>(dice() % 9)};
    const Line lines = 2 + dice() % (3 * geometry.sets * geometry.ways);
    WayStacks stacks(geometry);
    std::vector<BruteForceCache> caches;
    for (std::uint32_t ways = 1; ways <= geometry.ways; ++ways) {
      caches.emplace_back(Geometry{geometry.sets, ways});
    }
    for (int i = 0; i < 2000; ++i) {
      const Line line = dice() % lines;
      const auto what = dice() % 20;
      if (what == 0) {
        stacks.Invalidate(line);
        for (auto& cache : caches) cache.Invalidate(line);
      } else if (what < 3) {
        stacks.WriteBack(line);
        for (auto& cache : caches) cache.WriteBack(line);
      } else {
        const bool store = what < 8;
        const std::uint32_t least = stacks.Access(line, store);
        for (std::uint32_t ways = 1; ways <= geometry.ways; ++ways) {
          ASSERT_EQ(caches[ways - 1].Access(line, store), least != 0 && ways >= least)
              << "seed " << seed << ", step " << i << ", ways " << ways;
        }
      }
    }
    const auto occupancy = stacks.Occupancy();
    for (std::uint32_t ways = 1; ways <= geometry.ways; ++ways) {
      EXPECT_EQ(occupancy[ways - 1], caches[ways - 1].lines()) << "seed " << seed;
    }
    // What lies thrown out but not yet counted is counted when other lines push it out, or it is
    // used.
    const std::uint32_t flush = geometry.sets * geometry.ways;
    for (Line line = 0; line < flush; ++line) {
      stacks.Access(lines + line, false);
      for (auto& cache : caches) cache.Access(lines + line, false);
    }
    const auto written_back = stacks.TakeWrittenBack();
    for (std::uint32_t ways = 1; ways <= geometry.ways; ++ways) {
      EXPECT_EQ(written_back[ways - 1], caches[ways - 1].written_back())
          << "seed " << seed << ", ways " << ways;
    }
  }
}

TEST(WayStacksTest, AScanLargerThanTheCacheNeverHits) {
  WayStacks stacks({8, 4});
  for (int round = 0; round < 10; ++round) {
    for (Line line = 0; line < 8 * 5; ++line) EXPECT_EQ(stacks.Access(line, false), 0u);
  }
}

TEST(WayStacksTest, AScanOfSomeWaysHitsWithJustThose) {
  WayStacks stacks({8, 4});
  for (Line line = 0; line < 8 * 3; ++line) stacks.Access(line, false);
  for (Line line = 0; line < 8 * 3; ++line) EXPECT_EQ(stacks.Access(line, false), 3u);
}

TEST(WayStacksTest, TakingWhatWasWrittenBackBeginsAnew) {
  WayStacks stacks({1, 1});
  stacks.Access(1, true);
  stacks.Access(2, false);
  EXPECT_EQ(stacks.TakeWrittenBack(), std::vector<std::uint64_t>{1});
  EXPECT_EQ(stacks.TakeWrittenBack(), std::vector<std::uint64_t>{0});
}

}  // namespace
}  // namespace unis::cache
