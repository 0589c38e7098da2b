#include "models/cache/core.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <set>
#include <vector>

#include "models/cache/brute_force_for_test.h"

namespace unis::cache {
namespace {

TEST(PrivateCacheTest, AgreesWithTheSimplestCache) {
  for (std::uint32_t seed = 0; seed < 100; ++seed) {
    std::mt19937 dice(seed);
    const Geometry geometry{1 + static_cast<std::uint32_t>(dice() % 4),
                            1 + static_cast<std::uint32_t>(dice() % 6)};
    PrivateCache cache(geometry);
    BruteForceCache simple(geometry);
    std::uint64_t written_back = 0;
    for (int i = 0; i < 2000; ++i) {
      const Line line = dice() % (2 * geometry.sets * geometry.ways + 1);
      if (dice() % 20 == 0) {
        cache.Invalidate(line);
        simple.Invalidate(line);
        EXPECT_FALSE(cache.Holds(line));
        continue;
      }
      const bool store = dice() % 3 == 0;
      const PrivateCache::Outcome outcome = cache.Access(line, store);
      ASSERT_EQ(outcome.hit, simple.Access(line, store)) << "seed " << seed << ", step " << i;
      EXPECT_TRUE(cache.Holds(line));
      written_back += outcome.victim && outcome.victim->dirty;
      ASSERT_EQ(written_back, simple.written_back()) << "seed " << seed << ", step " << i;
    }
  }
}

TEST(CoreTest, ALineIsWhereItWasLastLeft) {
  Core core({1, 1}, {1, 2});
  const auto access = [&](Line line) { return core.Access(line, false, [](Line) {}); };
  EXPECT_EQ(access(1), Core::Level::kBelow);
  EXPECT_EQ(access(1), Core::Level::kL1);
  EXPECT_EQ(access(2), Core::Level::kBelow);
  EXPECT_EQ(access(1), Core::Level::kL2);
  core.Invalidate(1);
  EXPECT_EQ(access(1), Core::Level::kBelow);
}

// What was stored goes to the last level when it leaves, and nothing else does. Twice where L2 has
// an older copy that is dirty too.
TEST(CoreTest, EveryStoreArrivesBelow) {
  std::mt19937 dice(1);
  Core core({4, 2}, {4, 3});
  std::set<Line> stored, unwritten;
  const auto access = [&](Line line, bool store) {
    core.Access(line, store, [&](Line victim) {
      EXPECT_TRUE(stored.contains(victim)) << victim << " was written back and is clean";
      unwritten.erase(victim);
    });
  };
  for (int i = 0; i < 20'000; ++i) {
    const Line line = dice() % 100;
    const bool store = line % 4 == 0;
    access(line, store);
    if (!store) continue;
    stored.insert(line);
    unwritten.insert(line);
  }
  for (Line line = 1000; line < 1200; ++line) access(line, false);
  EXPECT_EQ(unwritten, std::set<Line>());
}

}  // namespace
}  // namespace unis::cache
