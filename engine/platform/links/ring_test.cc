#include "engine/platform/links/ring.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "engine/platform/memory_for_test.h"

namespace unis {
namespace {

using RingTest = MemoryTest;

TEST_F(RingTest, HasItsNameOneProducerAndOneConsumer) {
  const auto ring = Ring::Create("web.in", 2048);
  ASSERT_TRUE(ring.ok()) << ring.status();
  EXPECT_EQ(rte_ring_lookup("web.in"), ring->get());
  EXPECT_EQ(rte_ring_get_capacity(ring->get()), 2047U);
  EXPECT_TRUE(rte_ring_is_prod_single(ring->get()));
  EXPECT_TRUE(rte_ring_is_cons_single(ring->get()));
}

TEST_F(RingTest, ItsLinkCountsItsPackets) {
  auto ring = Ring::Create("ring", 64);
  ASSERT_TRUE(ring.ok()) << ring.status();
  const Occupancy link = ring->occupancy();
  const Ring moved = *std::move(ring);  // the link is of the ring, wherever its owner is
  EXPECT_EQ(link.capacity(), 63U);
  EXPECT_TRUE(link.readable());
  const std::uint8_t byte = 0;
  for (std::uint32_t sent = 0; sent < 63; ++sent) {
    EXPECT_EQ(link.Packets(), sent);
    ASSERT_EQ(rte_ring_sp_enqueue(moved.get(), Packet(std::span(&byte, 1))), 0);
  }
  EXPECT_EQ(link.Packets(), 63U);
  EXPECT_EQ(Discard(moved.get()), 63U);
  EXPECT_EQ(link.Packets(), 0U);
}

// A function of the group can write all of it.
TEST_F(RingTest, ItsLinkIsAsItWasMadeWhateverStandsInItsMemory) {
  const auto ring = Ring::Create("ring", 64);
  ASSERT_TRUE(ring.ok()) << ring.status();
  ring->get()->capacity = 1U << 30;
  EXPECT_EQ(ring->occupancy().capacity(), 63U);
}

TEST_F(RingTest, EmptyFreesWhatWaits) {
  auto ring = Ring::Create("ring", 64);
  ASSERT_TRUE(ring.ok()) << ring.status();
  const std::uint8_t byte = 0;
  for (int i = 0; i < 5; ++i) rte_ring_sp_enqueue(ring->get(), Packet(std::span(&byte, 1)));
  ring->Empty();
  EXPECT_EQ(memory_->InUse(), 0U);
}

TEST_F(RingTest, SaysWhatItCannotMake) {
  const auto odd = Ring::Create("odd", 1000).status();
  EXPECT_EQ(odd.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(odd.message().find("ring odd of 1000 slots"), std::string::npos) << odd;
  const auto first = Ring::Create("name", 64);
  ASSERT_TRUE(first.ok());
  EXPECT_FALSE(Ring::Create("name", 64).ok()) << "two rings of one name";
}

}  // namespace
}  // namespace unis
