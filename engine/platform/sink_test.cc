#include "engine/platform/sink.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "engine/platform/memory_for_test.h"

namespace unis {
namespace {

class SinkTest : public MemoryTest {
 protected:
  void SetUp() override {
    MemoryTest::SetUp();
    for (const char* name : {"web", "dns"}) chains_.push_back(MakeChain(name, 4096));
  }
  void TearDown() override {
    MemoryTest::TearDown();
    chains_.clear();
  }
  // Packets of `size` bytes for the last ring of a chain, stamped `age` cycles ago.
  void Deliver(std::size_t chain, std::uint32_t count, std::size_t size, std::uint64_t age) {
    const std::vector<std::uint8_t> bytes(size);
    for (std::uint32_t i = 0; i < count; ++i) {
      rte_mbuf* packet = Packet(bytes);
      memory_->Stamp(packet) = age == 0 ? 0 : TscClock::Cycles() - age;
      ASSERT_EQ(rte_ring_sp_enqueue(RingOf(chains_[chain]->ends().egresses[0]), packet), 0);
    }
  }
  bool Empty() const { return InRings(*chains_[0]) + InRings(*chains_[1]) == 0; }

  Chains chains_;
  // Only once EAL knows how fast the TSC counts.
  static TscClock Clock() { return {}; }
};

TEST_F(SinkTest, CountsAndFreesTheLastRingOfEveryChain) {
  Deliver(0, 1000, 60, 1);
  Deliver(1, 77, 1514, 1);
  Sink sink(*memory_, chains_, nullptr);
  ASSERT_TRUE(sink.RunOn(kServiceLcores[0]).ok());
  ASSERT_TRUE(Eventually([this] { return Empty(); }));
  sink.Halt();
  EXPECT_EQ(chains_[0]->delivered.value(), 1000U);
  EXPECT_EQ(chains_[0]->delivered_bytes.value(), 60'000U);
  EXPECT_EQ(chains_[1]->delivered.value(), 77U);
  EXPECT_EQ(chains_[1]->delivered_bytes.value(), 77U * 1514);
  EXPECT_EQ(chains_[0]->dropped_sink.value(), 0U);
  EXPECT_EQ(memory_->InUse(), 0U);
}

TEST_F(SinkTest, RecordsHowLongPacketsWereUnderWay) {
  const std::uint64_t age = Clock().hz() / 10;
  Deliver(0, 100, 60, age);
  Deliver(0, 50, 60, 0);  // not known when these came in
  Sink sink(*memory_, chains_, nullptr);
  const std::uint64_t begin = TscClock::Cycles();
  ASSERT_TRUE(sink.RunOn(kServiceLcores[0]).ok());
  ASSERT_TRUE(Eventually([this] { return Empty(); }));
  sink.Halt();
  const std::uint64_t most = TscClock::Cycles() - begin + 2 * age;
  const LatencyHistogram& latency = chains_[0]->latency;
  EXPECT_EQ(latency.Count(), 100U);
  // Buckets of two digits: within 1 %.
  EXPECT_GT(static_cast<double>(latency.ValueAtPercentile(0)),
            0.99 * static_cast<double>(Clock().ToNs(age)));
  EXPECT_LT(static_cast<double>(latency.ValueAtPercentile(100)),
            1.01 * static_cast<double>(Clock().ToNs(most)));
  EXPECT_EQ(chains_[1]->latency.Count(), 0U);
}

TEST_F(SinkTest, SendsOutOfAPortAndCountsWhatThatRefuses) {
  auto port = EthPort::Open("net_ring_sink", memory_->pool());  // holds 1023 packets
  ASSERT_TRUE(port.ok()) << port.status();
  const auto shared = std::make_shared<EthPort>(*std::move(port));
  Deliver(0, 2000, 100, 1);
  Sink sink(*memory_, chains_, shared);
  ASSERT_TRUE(sink.RunOn(kServiceLcores[0]).ok());
  ASSERT_TRUE(Eventually([this] { return Empty(); }));
  sink.Halt();
  EXPECT_EQ(chains_[0]->delivered.value(), 1023U);
  EXPECT_EQ(chains_[0]->dropped_sink.value(), 2000U - 1023);
  EXPECT_EQ(chains_[0]->delivered_bytes.value(), 1023U * 100);
  EXPECT_EQ(memory_->InUse(), 1023U);
  rte_mbuf* packet = nullptr;
  while (shared->Receive(&packet, 1) == 1) rte_pktmbuf_free(packet);
}

}  // namespace
}  // namespace unis
