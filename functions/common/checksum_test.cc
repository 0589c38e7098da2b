#include "functions/common/checksum.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace unis::functions {
namespace {

std::uint16_t FullChecksum(std::vector<std::uint8_t> bytes, std::size_t at) {
  StoreBe16(&bytes[at], 0);
  return static_cast<std::uint16_t>(~OnesSum(bytes));
}

TEST(OnesSum, IsThatOfRfc1071) {
  const std::vector<std::uint8_t> example{0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7};
  EXPECT_EQ(OnesSum(example), 0xddf2);  // section 3 of the RFC
  EXPECT_EQ(OnesSum(std::vector<std::uint8_t>{0x12, 0x34, 0x56}), 0x1234 + 0x5600);
  EXPECT_EQ(OnesSum({}), 0);
}

TEST(OnesSum, DoesNotOverflow) {
  EXPECT_EQ(OnesSum(std::vector<std::uint8_t>(65535, 0xff)), 0xff00);
  EXPECT_EQ(OnesSum(std::vector<std::uint8_t>(65534, 0xff)), 0xffff);
}

TEST(ChecksumChange, KeepsTheCornerCaseOfRfc1624) {
  ChecksumChange change;
  change.Replace16(0x5555, 0x3285);
  EXPECT_EQ(change.Apply(0xdd2f), 0x0000);  // section 4 of the RFC, where RFC 1141 gives 0xffff
}

// Bytes 0-1 stand for the checksum, the rest is what it covers. The extremes are drawn often.
class RandomChange : public testing::TestWithParam<unsigned> {};

TEST_P(RandomChange, EqualsFullRecomputation) {
  std::mt19937 random(GetParam());
  const auto word = [&random] {
    static constexpr std::uint16_t kEdges[] = {0x0000, 0x0001, 0xfffe, 0xffff, 0x8000};
    return random() % 3 == 0 ? kEdges[random() % 5] : static_cast<std::uint16_t>(random());
  };
  for (int i = 0; i < 50'000; ++i) {
    std::vector<std::uint8_t> bytes(2 + 2 * (3 + random() % 20) + random() % 2);
    for (std::size_t at = 2; at + 1 < bytes.size(); at += 2) StoreBe16(&bytes[at], word());
    bytes[2] = 0x45;  // every real header and pseudo-header has a word that is not zero
    StoreBe16(&bytes[0], FullChecksum(bytes, 0));
    ChecksumChange change;
    const std::uint16_t new16 = word();
    change.Replace16(LoadBe16(&bytes[4]), new16);
    StoreBe16(&bytes[4], new16);
    const std::uint32_t new32 = static_cast<std::uint32_t>(word()) << 16 | word();
    change.Replace32(LoadBe32(&bytes[4]), new32);
    StoreBe32(&bytes[4], new32);
    ASSERT_EQ(change.Apply(LoadBe16(&bytes[0])), FullChecksum(bytes, 0));
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomChange, testing::Values(1, 2, 3));

TEST(ChecksumChange, LeavesUdpWithoutChecksumAlone) {
  ChecksumChange change;
  change.Replace32(0x0a000001, 0xcb007101);
  EXPECT_EQ(change.ApplyUdp(0), 0);
}

TEST(ChecksumChange, NeverMakesAUdpChecksumZero) {
  for (std::uint32_t checksum = 1; checksum <= 0xffff; ++checksum) {
    ChecksumChange change;
    change.Replace16(0x5555, 0x3285);
    ASSERT_NE(change.ApplyUdp(static_cast<std::uint16_t>(checksum)), 0);
  }
}

}  // namespace
}  // namespace unis::functions
