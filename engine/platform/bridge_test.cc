#include "engine/platform/bridge.h"

#include <gtest/gtest.h>
#include <rte_service.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "engine/platform/memif_for_test.h"

namespace unis {
namespace {

class BridgeTest : public MemifTest {
 protected:
  void Fill(rte_ring* ring, std::uint32_t count) {
    for (std::uint32_t i = 0; i < count; ++i) {
      const std::array<std::uint8_t, 4> bytes = {static_cast<std::uint8_t>(i),
                                                 static_cast<std::uint8_t>(i >> 8), 0, 0};
      ASSERT_EQ(rte_ring_sp_enqueue(ring, Packet(bytes)), 0);
    }
  }
};

TEST_F(BridgeTest, CarriesPacketsInOrderAndLeavesInTheRingWhatTheMemifHasNoRoomFor) {
  rte_ring* const ring = MakeRing("from", 1024);
  const auto ends = Connect(Config("out", 2048));
  ASSERT_NE(ends, nullptr);
  Receive(ends->program);
  Fill(ring, 1000);
  Bridges bridge(*memory_);
  RingEnd from(ring);
  bridge.Add(from, *ends->engine.port());
  ASSERT_TRUE(bridge.RunOn(kServiceLcores[0]).ok());
  ASSERT_TRUE(Eventually([&] { return rte_ring_count(ring) == 1000 - 256; }));
  bridge.Do([] {});
  bridge.Do([] {});
  EXPECT_EQ(rte_ring_count(ring), 1000U - 256) << "the memif is full";
  EXPECT_EQ(ends->engine.port()->sent.value(), 256U);
  for (std::uint32_t expected = 0; expected < 1000; ++expected) {
    rte_mbuf* packet = nullptr;
    ASSERT_TRUE(Eventually([&] { return ends->program.Receive(&packet, 1) == 1; })) << expected;
    const auto* bytes = rte_pktmbuf_mtod(packet, const std::uint8_t*);
    ASSERT_EQ(bytes[0] | bytes[1] << 8, static_cast<int>(expected));
    rte_pktmbuf_free(packet);
  }
  bridge.Halt();
  EXPECT_EQ(ends->engine.port()->sent.value(), 1000U);
  EXPECT_EQ(ends->engine.port()->received.value(), 0U);
  EXPECT_EQ(rte_ring_count(ring), 0U);
}

TEST_F(BridgeTest, TakesFromAMemifWhatTheRingHasRoomFor) {
  rte_ring* const ring = MakeRing("to", 128);
  const auto ends = Connect(Config("in", 2048));
  ASSERT_NE(ends, nullptr);
  Bridges bridge(*memory_);
  RingEnd to(ring);
  bridge.Add(*ends->engine.port(), to);
  ASSERT_TRUE(bridge.RunOn(kServiceLcores[0]).ok());
  std::uint32_t sent = 0;
  ASSERT_TRUE(Eventually([&] { return (sent += Send(ends->program, 1)) == 200; }));
  ASSERT_TRUE(Eventually([&] { return rte_ring_count(ring) == 127; }));
  const Occupancy waiting = ends->engine.occupancy(MemifDirection::kToServer);
  EXPECT_TRUE(Eventually([&] { return waiting.Packets() == 73; })) << waiting.Packets();
  // At once: the bridge goes on meanwhile.
  std::array<rte_mbuf*, 127> packets;
  ASSERT_EQ(rte_ring_sc_dequeue_bulk(ring, reinterpret_cast<void**>(packets.data()), 127, nullptr),
            127U);
  rte_pktmbuf_free_bulk(packets.data(), 127);
  EXPECT_TRUE(Eventually([&] { return rte_ring_count(ring) == 73; }));
  bridge.Halt();
  EXPECT_EQ(ends->engine.port()->received.value(), 200U);
  EXPECT_EQ(ends->engine.port()->sent.value(), 0U);
  Discard(ring);
}

// 31 functions over memif need 62, and DPDK has room for 64 services, the engine's others among
// them.
TEST_F(BridgeTest, HoweverManyTheyAreOneService) {
  const auto ends = Connect(Config("one", 2048));
  ASSERT_NE(ends, nullptr);
  Bridges bridges(*memory_);
  for (int i = 0; i < 64; ++i)
    bridges.Add(ends_.emplace_back(MakeRing("ring" + std::to_string(i), 64)), *ends->engine.port());
  const std::uint32_t before = rte_service_get_count();
  EXPECT_TRUE(bridges.RunOn(kServiceLcores[0]).ok());
  EXPECT_EQ(rte_service_get_count(), before + 1);
  Receive(ends->program);
  Fill(rings_.front().get(), 1);
  Fill(rings_.back().get(), 1);
  EXPECT_TRUE(Eventually([&] { return ends->engine.port()->sent.value() == 2; }));
  EXPECT_EQ(Receive(ends->program), 2U);
}

// An mbuf that the memif fills may have been a stamped packet's before.
TEST_F(BridgeTest, TheTimeOfEntryOfWhatComesFromAMemifIsUnknown) {
  rte_ring* const ring = MakeRing("to", 128);
  const auto ends = Connect(Config("in", 2048));
  ASSERT_NE(ends, nullptr);
  std::vector<rte_mbuf*> all(memory_->size());
  ASSERT_EQ(rte_pktmbuf_alloc_bulk(memory_->pool(), all.data(), memory_->size()), 0);
  for (rte_mbuf* packet : all) memory_->Stamp(packet) = 4711;
  rte_pktmbuf_free_bulk(all.data(), memory_->size());
  Bridges bridge(*memory_);
  RingEnd to(ring);
  bridge.Add(*ends->engine.port(), to);
  ASSERT_TRUE(bridge.RunOn(kServiceLcores[0]).ok());
  ASSERT_EQ(Send(ends->program, 20), 20U);
  ASSERT_TRUE(Eventually([&] { return rte_ring_count(ring) == 20; }));
  void* packet = nullptr;
  while (rte_ring_sc_dequeue(ring, &packet) == 0) {
    EXPECT_EQ(memory_->Stamp(static_cast<rte_mbuf*>(packet)), 0U);
    rte_pktmbuf_free(static_cast<rte_mbuf*>(packet));
  }
}

}  // namespace
}  // namespace unis
