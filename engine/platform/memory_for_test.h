// DPDK and a packet memory for each test; every packet must be back at its end.
#pragma once

#include <gtest/gtest.h>
#include <rte_mbuf.h>
#include <rte_ring.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "engine/base/eal_for_test.h"
#include "engine/base/eventually_for_test.h"
#include "engine/platform/chain.h"
#include "engine/platform/links/ring.h"
#include "engine/platform/packet_memory.h"

namespace unis {

class MemoryTest : public testing::Test {
 protected:
  static constexpr std::uint32_t kPackets = 8192;

  void SetUp() override {
    ASSERT_TRUE(StartTestEal());
    auto memory = PacketMemory::Create(kPackets);
    ASSERT_TRUE(memory.ok()) << memory.status();
    memory_.emplace(*std::move(memory));
  }
  void TearDown() override { EXPECT_EQ(memory_ ? memory_->InUse() : 0, 0U) << "packets were lost"; }

  rte_mbuf* Packet(std::span<const std::uint8_t> bytes) {
    rte_mbuf* packet = rte_pktmbuf_alloc(memory_->pool());
    char* data = rte_pktmbuf_append(packet, static_cast<std::uint16_t>(bytes.size()));
    if (!bytes.empty()) std::memcpy(data, bytes.data(), bytes.size());
    memory_->Stamp(packet) = 0;
    return packet;
  }
  // Takes what is in a ring and frees it.
  static std::uint32_t Discard(rte_ring* ring) {
    std::uint32_t total = 0;
    std::array<rte_mbuf*, kBurst> packets;
    while (const unsigned count = rte_ring_sc_dequeue_burst(
               ring, reinterpret_cast<void**>(packets.data()), kBurst, nullptr)) {
      rte_pktmbuf_free_bulk(packets.data(), count);
      total += count;
    }
    return total;
  }

  // A chain between two rings of its own, which live as long as the test.
  std::unique_ptr<Chain> MakeChain(const std::string& name, std::uint32_t slots) {
    return std::make_unique<Chain>(
        name, Chain::Ends{.ingress = &ends_.emplace_back(MakeRing(name + "_in", slots)),
                          .egresses = {&ends_.emplace_back(MakeRing(name + "_out", slots))}});
  }
  rte_ring* MakeRing(const std::string& name, std::uint32_t slots) {
    auto ring = Ring::Create(name, slots);
    EXPECT_TRUE(ring.ok()) << ring.status();
    return rings_.emplace_back(*std::move(ring)).get();
  }
  static rte_ring* RingOf(LinkEnd* end) { return dynamic_cast<RingEnd&>(*end).ring(); }
  static std::uint32_t InRings(const Chain& chain) {
    return rte_ring_count(RingOf(chain.ingress())) +
           rte_ring_count(RingOf(chain.ends().egresses[0]));
  }

  std::optional<PacketMemory> memory_;
  std::deque<Ring> rings_;
  std::deque<RingEnd> ends_;
};

}  // namespace unis
