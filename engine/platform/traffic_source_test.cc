#include "engine/platform/traffic_source.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "engine/platform/captures_for_test.h"
#include "engine/platform/sink.h"
#include "engine/platform/traffic_source_for_test.h"

namespace unis {
namespace {

// Passes packets between two rings on a thread of its own, and loses one of every `lose_each`.
class PassingThread {
 public:
  PassingThread(rte_ring* from, rte_ring* to, std::uint32_t lose_each)
      : thread_([=, this] {
          std::array<void*, kBurst> packets;
          std::uint32_t turn = 0;
          while (!stop_) {
            const unsigned count = rte_ring_sc_dequeue_burst(from, packets.data(), kBurst, nullptr);
            if (count == 0) std::this_thread::yield();
            for (unsigned i = 0; i < count; ++i) {
              const bool lost = ++turn % lose_each == 0;
              if (!lost && rte_ring_sp_enqueue(to, packets[i]) == 0) continue;
              rte_pktmbuf_free(static_cast<rte_mbuf*>(packets[i]));
              lost_.fetch_add(1);
            }
          }
        }) {}
  ~PassingThread() {
    stop_ = true;
    thread_.join();
  }
  std::uint64_t lost() const { return lost_; }

 private:
  std::atomic<bool> stop_{false};
  std::atomic<std::uint64_t> lost_{0};
  std::thread thread_;
};

TEST_F(TrafficSourceTest, SendsNothingUntilItIsToldTo) {
  AddChain(1024);
  std::vector<TrafficSource::List> lists;
  lists.emplace_back(Synthetic(), OneChain());
  source_.emplace(*memory_, chains_, OneChain(), std::move(lists), Rate{});
  ASSERT_TRUE(source_->RunOn(kServiceLcores[0]).ok());
  source_->Do([] {});
  source_->Do([] {});
  EXPECT_EQ(chains_[0]->offered.value(), 0U);
  source_->SetPaused(false);
  EXPECT_TRUE(Eventually([this] { return chains_[0]->offered.value() > 0; }));
}

TEST_F(TrafficSourceTest, AsFastAsPossiblePausesWhileTheRingIsFullAndDropsNothing) {
  AddChain(1024);
  Run(OneChain(), {Synthetic()}, {});
  ASSERT_TRUE(Eventually([this] { return InRing(0) > 1023 - kBurst; }));
  for (int round = 0; round < 20; ++round) {
    for (int i = 0; i < 10; ++i) source_->Do([] {});  // at least so many more turns of the source
    ASSERT_EQ(chains_[0]->dropped_ingress_full.value(), 0U);
    ASSERT_GT(Discard(RingOf(chains_[0]->ingress())), 0U);
    ASSERT_TRUE(Eventually([this] { return InRing(0) > 1023 - kBurst; })) << "it stays paused";
  }
  source_->Halt();
  EXPECT_EQ(memory_->InUse(), InRing(0));
}

// Such a ring never has room for a burst of 64.
TEST_F(TrafficSourceTest, AsFastAsPossibleAlsoIntoShortRings) {
  AddChain(64);
  Run(OneChain(), {Synthetic()}, {});
  std::uint64_t taken = 0;
  EXPECT_TRUE(Eventually([&] { return (taken += Discard(RingOf(chains_[0]->ingress()))) > 1000; }));
  EXPECT_EQ(chains_[0]->dropped_ingress_full.value(), 0U);
}

TEST_F(TrafficSourceTest, AFullChainDoesNotHoldUpTheOthers) {
  AddChain(256);
  AddChain(256);
  Run(Classifier::Create({{ToPort(80)}, {ToPort(53)}}).value(),
      {Synthetic(ToPort(80)), Synthetic(ToPort(53))}, {});
  std::uint64_t taken = 0;
  ASSERT_TRUE(Eventually([&] { return (taken += Discard(RingOf(chains_[1]->ingress()))) > 5000; }));
  EXPECT_LE(chains_[0]->offered.value(), 255U);
  EXPECT_EQ(chains_[0]->dropped_ingress_full.value() + chains_[1]->dropped_ingress_full.value(),
            0U);
}

TEST_F(TrafficSourceTest, SteersEveryPacketByTheClassifier) {
  AddChain(4096);
  AddChain(4096);
  Frames mixed;  // in runs of every length, some for no chain
  std::mt19937 random(6);
  const std::vector<Frames> kinds = {Synthetic(ToPort(80)), Synthetic(ToPort(53)),
                                     Synthetic(ToPort(22))};
  std::array<std::uint64_t, 3> expected{};
  for (std::uint32_t i = 0; i < 1000; ++i) {
    const std::size_t kind = random() % 3;
    for (std::uint32_t run = 1 + static_cast<std::uint32_t>(random() % 5); run > 0; --run) {
      const auto& frame = kinds[kind][i % kinds[kind].size()];
      mixed.Add(kinds[kind].Bytes(frame), frame.length);
      ++expected[kind];
    }
  }
  Run(Classifier::Create({{ToPort(80)}, {ToPort(53)}}).value(), {mixed}, {});
  std::array<std::uint64_t, 2> seen{};
  ASSERT_TRUE(Eventually([&] {
    for (std::size_t chain = 0; chain < 2; ++chain) {
      std::array<rte_mbuf*, kBurst> packets;
      const unsigned count =
          rte_ring_sc_dequeue_burst(RingOf(chains_[chain]->ingress()),
                                    reinterpret_cast<void**>(packets.data()), kBurst, nullptr);
      for (unsigned i = 0; i < count; ++i) {
        const auto* port = rte_pktmbuf_mtod_offset(packets[i], const std::uint8_t*, 36);
        EXPECT_EQ(port[0] << 8 | port[1], chain == 0 ? 80 : 53);
      }
      rte_pktmbuf_free_bulk(packets.data(), count);
      seen[chain] += count;
    }
    return seen[0] + seen[1] > 100'000;
  }));
  source_->Halt();
  const auto sent = static_cast<double>(chains_[0]->offered.value() + chains_[1]->offered.value() +
                                        source_->unclassified());
  const auto all = static_cast<double>(expected[0] + expected[1] + expected[2]);
  EXPECT_NEAR(static_cast<double>(chains_[0]->offered.value()) / sent,
              static_cast<double>(expected[0]) / all, 0.05);
  EXPECT_NEAR(static_cast<double>(source_->unclassified()) / sent,
              static_cast<double>(expected[2]) / all, 0.05);
}

TEST_F(TrafficSourceTest, ReplaysTheBytesOfACaptureInTheirOrder) {
  AddChain(1024);
  std::mt19937 random(7);
  std::vector<Bytes> capture;
  for (int i = 0; i < 150; ++i) capture.push_back(RandomBytes(random, 14 + random() % 2035));
  const CaptureFile file(PcapngFile(capture));
  auto frames = ReadCapture(file.path());
  ASSERT_TRUE(frames.ok()) << frames.status();
  Run(OneChain(), {*std::move(frames)}, {});
  for (std::size_t i = 0; i < 10 * capture.size(); ++i) {
    void* taken = nullptr;
    ASSERT_TRUE(Eventually(
        [&] { return rte_ring_sc_dequeue(RingOf(chains_[0]->ingress()), &taken) == 0; }));
    auto* packet = static_cast<rte_mbuf*>(taken);
    const Bytes& expected = capture[i % capture.size()];
    ASSERT_EQ(packet->pkt_len, expected.size());
    ASSERT_EQ(packet->data_len, expected.size());
    ASSERT_EQ(std::memcmp(rte_pktmbuf_mtod(packet, const void*), expected.data(), expected.size()),
              0)
        << "frame " << i;
    ASSERT_NE(memory_->Stamp(packet), 0U);
    rte_pktmbuf_free(packet);
  }
}

// ------------------------------------------------------------------ from a port

TEST_F(TrafficSourceTest, TakesThePacketsOfAPort) {
  AddChain(256);
  auto port = EthPort::Open("net_null_source,size=100", memory_->pool());
  ASSERT_TRUE(port.ok()) << port.status();
  source_.emplace(*memory_, chains_, OneChain(), std::make_shared<EthPort>(*std::move(port)));
  ASSERT_TRUE(source_->RunOn(kServiceLcores[0]).ok());
  source_->SetPaused(false);
  void* taken = nullptr;
  ASSERT_TRUE(
      Eventually([&] { return rte_ring_sc_dequeue(RingOf(chains_[0]->ingress()), &taken) == 0; }));
  auto* packet = static_cast<rte_mbuf*>(taken);
  EXPECT_EQ(packet->pkt_len, 100U);
  EXPECT_NE(memory_->Stamp(packet), 0U);
  rte_pktmbuf_free(packet);
  ASSERT_TRUE(Eventually([&] { return chains_[0]->dropped_ingress_full.value() > 0; }));
  source_->Halt();
  EXPECT_EQ(chains_[0]->offered.value(), 1 + InRing(0) + chains_[0]->dropped_ingress_full.value());
}

// ------------------------------------------------------------------ and the sink

TEST_F(TrafficSourceTest, EveryPacketIsAccountedFor) {
  AddChain(512);
  AddChain(256);
  std::array<std::uint64_t, 2> lost{};  // by the threads, over all rates
  for (const Rate rate : {Rate{}, Rate{.pps = 2e6}, Rate{.bps = 3e9}}) {
    const std::uint64_t before = chains_[0]->delivered.value() + chains_[1]->delivered.value();
    Sink sink(*memory_, chains_, nullptr);
    PassingThread one(RingOf(chains_[0]->ingress()), RingOf(chains_[0]->ends().egresses[0]), 7);
    PassingThread two(RingOf(chains_[1]->ingress()), RingOf(chains_[1]->ends().egresses[0]), 1000);
    const std::array<std::uint64_t, 2> offered = {chains_[0]->offered.value(),
                                                  chains_[1]->offered.value()};
    ASSERT_TRUE(sink.RunOn(kServiceLcores[1]).ok());
    Run(Classifier::Create({{ToPort(80)}, {ToPort(53)}}).value(),
        {Synthetic(ToPort(80)), Synthetic(ToPort(53)), Synthetic(ToPort(1))}, rate);
    ASSERT_TRUE(Eventually([&] {
      return chains_[0]->delivered.value() + chains_[1]->delivered.value() > before + 20'000;
    }));
    source_->SetPaused(true);
    source_->Do([] {});
    ASSERT_TRUE(Eventually([this] { return memory_->InUse() == 0; })) << memory_->InUse();
    source_.reset();
    sink.Halt();
    const std::array<const PassingThread*, 2> threads = {&one, &two};
    for (std::size_t i = 0; i < 2; ++i) {
      const Chain& chain = *chains_[i];
      lost[i] += threads[i]->lost();
      EXPECT_GT(chain.offered.value(), offered[i]);
      EXPECT_EQ(chain.offered.value(),
                chain.delivered.value() + chain.dropped_ingress_full.value() + lost[i]);
      EXPECT_EQ(chain.delivered_bytes.value(), 60 * chain.delivered.value());
      EXPECT_EQ(chain.latency.Count(), chain.delivered.value());
      EXPECT_EQ(InRings(chain), 0U);
    }
  }
}

}  // namespace
}  // namespace unis
