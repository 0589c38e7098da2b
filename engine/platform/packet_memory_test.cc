#include "engine/platform/packet_memory.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "engine/platform/memory_for_test.h"

namespace unis {
namespace {

using PacketMemoryTest = MemoryTest;

// The default handler deadlocks among preemptible real-time threads.
TEST_F(PacketMemoryTest, IsOnTheLockFreeStack) {
  EXPECT_STREQ(rte_mempool_get_ops(memory_->pool()->ops_index)->name, "lf_stack");
  EXPECT_EQ(memory_->size(), kPackets);
}

TEST_F(PacketMemoryTest, CountsWhatIsInUse) {
  std::vector<rte_mbuf*> packets(100);
  ASSERT_EQ(rte_pktmbuf_alloc_bulk(memory_->pool(), packets.data(), 100), 0);
  EXPECT_EQ(memory_->InUse(), 100U);
  rte_pktmbuf_free_bulk(packets.data(), 40);
  EXPECT_EQ(memory_->InUse(), 60U);
  rte_pktmbuf_free_bulk(packets.data() + 40, 60);
  EXPECT_EQ(memory_->InUse(), 0U);
}

TEST_F(PacketMemoryTest, EveryPacketCanBeTaken) {
  std::vector<rte_mbuf*> packets(kPackets);
  for (rte_mbuf*& packet : packets) ASSERT_NE(packet = rte_pktmbuf_alloc(memory_->pool()), nullptr);
  EXPECT_EQ(rte_pktmbuf_alloc(memory_->pool()), nullptr);
  EXPECT_EQ(memory_->InUse(), kPackets);
  rte_pktmbuf_free_bulk(packets.data(), kPackets);
}

TEST_F(PacketMemoryTest, TheStampIsBesideTheData) {
  std::vector<std::uint8_t> bytes(2048, 0xab);
  rte_mbuf* packet = Packet(bytes);
  memory_->Stamp(packet) = 0x0123456789abcdef;
  packet->hash.rss = 0xffffffff;
  packet->vlan_tci = 0xffff;
  packet->ol_flags = 0;
  EXPECT_EQ(std::memcmp(rte_pktmbuf_mtod(packet, const void*), bytes.data(), bytes.size()), 0);
  EXPECT_EQ(memory_->Stamp(packet), 0x0123456789abcdefU);
  rte_pktmbuf_free(packet);
}

// The main thread is an lcore with a cache, the others are not.
TEST_F(PacketMemoryTest, ThreadsOfAnyKindShareItAndNoPacketIsInTwoHands) {
  std::atomic<int> taken{0}, taken_twice{0};
  const auto take_and_free = [&](std::uint64_t mark) {
    std::array<rte_mbuf*, kBurst> packets;
    for (int i = 0; i < 5'000; ++i) {
      if (rte_pktmbuf_alloc_bulk(memory_->pool(), packets.data(), kBurst) != 0) continue;
      ++taken;
      for (rte_mbuf* packet : packets) memory_->Stamp(packet) = mark;
      if (i % 8 == 0) std::this_thread::yield();
      for (rte_mbuf* packet : packets) taken_twice += memory_->Stamp(packet) == mark ? 0 : 1;
      rte_pktmbuf_free_bulk(packets.data(), kBurst);
    }
  };
  std::thread other(take_and_free, 1), another(take_and_free, 2);
  take_and_free(3);
  other.join();
  another.join();
  EXPECT_EQ(taken, 15'000) << "there are packets enough for all";
  EXPECT_EQ(taken_twice, 0);
}

TEST_F(PacketMemoryTest, CanBeMadeAgain) {
  memory_.reset();
  for (const std::uint32_t packets : {1024U, 4096U}) {
    auto memory = PacketMemory::Create(packets);
    ASSERT_TRUE(memory.ok()) << memory.status();
    EXPECT_EQ(memory->size(), packets);
  }
}

TEST_F(PacketMemoryTest, SaysWhatIsMissing) {
  memory_.reset();
  const auto memory = PacketMemory::Create(1U << 20);
  EXPECT_EQ(memory.status().code(), absl::StatusCode::kResourceExhausted);
  const std::string message(memory.status().message());
  EXPECT_NE(message.find("1048576 packets"), std::string::npos) << message;
  EXPECT_NE(message.find("hugepages"), std::string::npos) << message;
}

}  // namespace
}  // namespace unis
