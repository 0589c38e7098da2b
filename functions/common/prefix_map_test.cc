#include "functions/common/prefix_map.h"

#include <gtest/gtest.h>

#include <random>

namespace unis::functions {
namespace {

TEST(PrefixMap, EmptyHoldsNothing) {
  const PrefixMap map({});
  EXPECT_EQ(map.Find(0), PrefixMap::kNone);
  EXPECT_EQ(map.Find(0xffffffff), PrefixMap::kNone);
}

TEST(PrefixMap, TheWholeSpaceAndItsEnds) {
  const PrefixMap map({{{0, 0}, 7}, {{0xffffffff, 32}, 8}, {{0, 32}, 9}});
  EXPECT_EQ(map.Find(0), 9U);
  EXPECT_EQ(map.Find(1), 7U);
  EXPECT_EQ(map.Find(0xfffffffe), 7U);
  EXPECT_EQ(map.Find(0xffffffff), 8U);
}

TEST(PrefixMap, BehindAnInnerPrefixTheOuterHoldsAgain) {
  const PrefixMap map({{{0x0a000000, 8}, 1}, {{0x0a010000, 16}, 2}, {{0x0a01ff00, 24}, 3}});
  EXPECT_EQ(map.Find(0x09ffffff), PrefixMap::kNone);
  EXPECT_EQ(map.Find(0x0a000000), 1U);
  EXPECT_EQ(map.Find(0x0a010000), 2U);
  EXPECT_EQ(map.Find(0x0a01ffff), 3U);
  EXPECT_EQ(map.Find(0x0a020000), 1U);
  EXPECT_EQ(map.Find(0x0b000000), PrefixMap::kNone);
}

// Against a look at every prefix.
TEST(PrefixMap, FindsTheLongestOfRandomPrefixes) {
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    std::vector<PrefixMap::Entry> entries;
    for (std::uint32_t i = 0; i < random() % 40; ++i) {
      Ipv4Prefix prefix{static_cast<std::uint32_t>(random()),
                        static_cast<std::uint8_t>(random() % 33)};
      if (random() % 2 == 0) prefix.address &= 0xc0000003;  // so that they lie within one another
      prefix.address &= prefix.Mask();
      const auto same = [&](const PrefixMap::Entry& e) { return e.prefix == prefix; };
      if (std::ranges::none_of(entries, same)) entries.push_back({prefix, i});
    }
    const PrefixMap map(entries);
    for (int i = 0; i < 200; ++i) {
      auto address = static_cast<std::uint32_t>(random());
      if (i % 2 == 0 && !entries.empty()) {
        address = entries[random() % entries.size()].prefix.address + random() % 3 - 1;
      }
      const PrefixMap::Entry* longest = nullptr;
      for (const PrefixMap::Entry& entry : entries) {
        if (!entry.prefix.Contains(address)) continue;
        if (longest == nullptr || entry.prefix.length > longest->prefix.length) longest = &entry;
      }
      ASSERT_EQ(map.Find(address), longest == nullptr ? PrefixMap::kNone : longest->value);
    }
  }
}

}  // namespace
}  // namespace unis::functions
