#include "functions/wanopt_codec.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "functions/packet_for_test.h"

namespace unis::functions {
namespace {

TEST(WanoptCodec, WhatWasDeflatedComesBackAtEveryLevel) {
  std::mt19937 random(1);
  for (int level = WanoptCodec::kFastest; level <= WanoptCodec::kHighestLevel; ++level) {
    auto codec = WanoptCodec::Create(level);
    ASSERT_TRUE(codec.ok());
    for (const std::size_t size : {std::size_t{1}, std::size_t{64}, std::size_t{1480}}) {
      Bytes data(size);
      for (auto& byte : data) byte = static_cast<std::uint8_t>(random() % 3);
      Bytes deflated(size + 64), back(size);
      const std::size_t length = codec->Deflate(data, deflated);
      ASSERT_GT(length, 0U);
      EXPECT_EQ(codec->Inflate({deflated.data(), length}, back), static_cast<std::ptrdiff_t>(size));
      EXPECT_EQ(back, data);
      if (size == 1480) {
        EXPECT_LT(length, size / 2);
      }
    }
  }
}

TEST(WanoptCodec, GivesUpWhereThereIsNoGain) {
  std::mt19937 random(2);
  for (const int level : {0, 1, 6, 12}) {
    auto codec = WanoptCodec::Create(level);
    for (int round = 0; round < 100; ++round) {
      Bytes noise(1000), out(999 + 50, 0xee);
      for (auto& byte : noise) byte = static_cast<std::uint8_t>(random());
      EXPECT_EQ(codec->Deflate(noise, {out.data(), 999}), 0U);
      for (std::size_t i = 999; i < out.size(); ++i) ASSERT_EQ(out[i], 0xee) << "overrun";
    }
  }
}

TEST(WanoptCodec, DamageAndTooMuchAreSeen) {
  auto codec = WanoptCodec::Create(6);
  const Bytes data(1000, 'a');
  Bytes deflated(100), back(1000);
  const std::size_t length = codec->Deflate(data, deflated);
  EXPECT_EQ(codec->Inflate({deflated.data(), length}, {back.data(), 999}), WanoptCodec::kTooLong);
  EXPECT_EQ(codec->Inflate({deflated.data(), length - 1}, back), WanoptCodec::kDamaged);
  EXPECT_EQ(codec->Inflate(Bytes{0xff, 0xff}, back), WanoptCodec::kDamaged);
}

// What comes from outside must not lead it astray.
TEST(WanoptCodec, NoiseNeverCrashes) {
  std::mt19937 random(3);
  auto codec = WanoptCodec::Create(1);
  Bytes back(2000);
  for (int i = 0; i < 20'000; ++i) {
    Bytes noise(1 + random() % 200);
    for (auto& byte : noise) byte = static_cast<std::uint8_t>(random());
    EXPECT_LE(codec->Inflate(noise, back), 2000);
  }
}

}  // namespace
}  // namespace unis::functions
