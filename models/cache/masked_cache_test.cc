#include "models/cache/masked_cache.h"

#include <gtest/gtest.h>

#include <vector>

namespace unis::cache {
namespace {

using Lines = std::vector<std::uint64_t>;  // by owner

constexpr Geometry kGeometry{64, 4};
constexpr std::uint64_t kCore = 0x3, kDevice = 0xc;  // masks

// The i-th line of one set.
constexpr Line At(Line i) { return 64 * i; }

TEST(MaskedCacheTest, WhatADeviceWroteIsChargedToItsOwnerWhoeverPushesItOut) {
  MaskedCache cache(kGeometry, 2);
  cache.DeviceWrites(At(1), kDevice, 0);
  cache.DeviceWrites(At(2), kDevice, 1);
  EXPECT_EQ(cache.device_spills(), (Lines{0, 0}));
  cache.DeviceWrites(At(3), kDevice, 1);
  EXPECT_EQ(cache.device_spills(), (Lines{1, 0}));
  cache.Access(At(4), kDevice, 0);  // a core that may fill the device's ways
  EXPECT_EQ(cache.device_spills(), (Lines{1, 1}));
  EXPECT_EQ(cache.written_back(), (Lines{0, 0}));
  EXPECT_EQ(cache.Occupancy(), (Lines{1, 0}));
}

TEST(MaskedCacheTest, ADeviceWritesALineWhereItIsAndItStaysTheCores) {
  MaskedCache cache(kGeometry, 2);
  EXPECT_FALSE(cache.Access(At(1), kCore, 0));
  cache.DeviceWrites(At(1), kDevice, 0);
  EXPECT_EQ(cache.Occupancy(), (Lines{1, 0}));
  // It is not in the device's ways: these have room for two others.
  cache.DeviceWrites(At(2), kDevice, 1);
  cache.DeviceWrites(At(3), kDevice, 1);
  EXPECT_TRUE(cache.Access(At(1), kCore, 0));
  // It is dirty.
  cache.Access(At(4), kCore, 1);
  cache.Access(At(5), kCore, 1);
  EXPECT_EQ(cache.written_back(), (Lines{1, 0}));
  EXPECT_EQ(cache.device_spills(), (Lines{0, 0}));
}

TEST(MaskedCacheTest, AWriteBackMakesDirtyWhatIsThereAndElseGoesToMemory) {
  MaskedCache cache(kGeometry, 2);
  cache.Access(At(1), kCore, 0);
  cache.WriteBack(At(1), 0);
  EXPECT_EQ(cache.written_back(), (Lines{0, 0}));
  cache.WriteBack(At(2), 1);
  EXPECT_EQ(cache.written_back(), (Lines{0, 1}));
  cache.Access(At(3), kCore, 1);
  cache.Access(At(4), kCore, 1);
  EXPECT_EQ(cache.written_back(), (Lines{1, 1}));
}

TEST(MaskedCacheTest, WhatIsInvalidIsGoneAndNeverCounted) {
  MaskedCache cache(kGeometry, 1);
  cache.Access(At(1), kCore, 0);
  cache.WriteBack(At(1), 0);
  cache.DeviceWrites(At(2), kDevice, 0);
  for (const Line line : {At(1), At(2), At(3)}) cache.Invalidate(line);
  EXPECT_EQ(cache.Occupancy(), Lines{0});
  EXPECT_FALSE(cache.Access(At(1), kCore, 0));
  for (Line i = 4; i < 8; ++i) cache.Access(At(i), kCore | kDevice, 0);
  EXPECT_EQ(cache.written_back(), Lines{0});
  EXPECT_EQ(cache.device_spills(), Lines{0});
}

}  // namespace
}  // namespace unis::cache
