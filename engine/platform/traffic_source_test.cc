#include "engine/platform/traffic_source.h"

#include <gtest/gtest.h>
#include <rte_cycles.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "engine/base/quantile.h"
#include "engine/platform/captures_for_test.h"
#include "engine/platform/memory_for_test.h"
#include "engine/platform/sink.h"

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

class TrafficSourceTest : public MemoryTest {
 protected:
  void TearDown() override {
    source_.reset();
    for (const auto& chain : chains_) {
      Discard(chain->ingress());
      Discard(chain->egress());
    }
    MemoryTest::TearDown();
    chains_.clear();
  }

  void AddChain(std::uint32_t ring_size) {
    chains_.push_back(MakeChain("chain" + std::to_string(chains_.size()), ring_size));
  }
  static FlowMatch ToPort(std::uint16_t port) {
    return {.src = {}, .dst = {}, .src_port = {}, .dst_port = port, .protocol = {}};
  }
  static Frames Synthetic(const FlowMatch& match = {}) {
    return MakeFrames({.mix = SizeMix::kFixed, .size = 64, .flows = 100}, match);
  }
  static Classifier OneChain() { return Classifier::Create({{}}).value(); }
  void Run(Classifier classifier, std::vector<Frames> lists, Rate rate) {
    std::vector<TrafficSource::List> classified;
    for (Frames& frames : lists) classified.emplace_back(std::move(frames), classifier);
    source_.emplace(*memory_, chains_, std::move(classifier), std::move(classified), rate);
    ASSERT_TRUE(source_->RunOn(kServiceLcores[0]).ok());
    source_->SetPaused(false);
  }
  std::uint32_t InRing(std::size_t chain) const {
    return rte_ring_count(chains_[chain]->ingress());
  }

  Chains chains_;
  std::optional<TrafficSource> source_;
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
    ASSERT_GT(Discard(chains_[0]->ingress()), 0U);
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
  EXPECT_TRUE(Eventually([&] { return (taken += Discard(chains_[0]->ingress())) > 1000; }));
  EXPECT_EQ(chains_[0]->dropped_ingress_full.value(), 0U);
}

TEST_F(TrafficSourceTest, AFullChainDoesNotHoldUpTheOthers) {
  AddChain(256);
  AddChain(256);
  Run(Classifier::Create({{ToPort(80)}, {ToPort(53)}}).value(),
      {Synthetic(ToPort(80)), Synthetic(ToPort(53))}, {});
  std::uint64_t taken = 0;
  ASSERT_TRUE(Eventually([&] { return (taken += Discard(chains_[1]->ingress())) > 5000; }));
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
      const unsigned count = rte_ring_sc_dequeue_burst(
          chains_[chain]->ingress(), reinterpret_cast<void**>(packets.data()), kBurst, nullptr);
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
    ASSERT_TRUE(
        Eventually([&] { return rte_ring_sc_dequeue(chains_[0]->ingress(), &taken) == 0; }));
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

// ------------------------------------------------------------------ with a rate

TEST_F(TrafficSourceTest, WhatFindsTheRingFullIsDroppedAndCounted) {
  AddChain(256);
  Run(OneChain(), {Synthetic()}, {.pps = 1e6, .bps = 0});
  ASSERT_TRUE(Eventually([this] { return chains_[0]->dropped_ingress_full.value() > 1000; }));
  source_->Halt();
  EXPECT_EQ(InRing(0), 255U);
  EXPECT_EQ(chains_[0]->offered.value(), chains_[0]->dropped_ingress_full.value() + InRing(0));
  EXPECT_EQ(memory_->InUse(), 255U);
}

// What a source sends in a while, and how long that was, both read on its own thread.
struct Sent {
  double packets = 0, seconds = 0;
};
Sent SentBy(TrafficSource& source, const Chain& chain, std::chrono::milliseconds time) {
  std::uint64_t packets = 0, cycles = 0;
  source.Do([&] {
    packets = chain.offered.value();
    cycles = rte_rdtsc();
  });
  std::this_thread::sleep_for(time);
  source.Do([&] {
    packets = chain.offered.value() - packets;
    cycles = rte_rdtsc() - cycles;
  });
  return {static_cast<double>(packets),
          static_cast<double>(cycles) / static_cast<double>(rte_get_tsc_hz())};
}

// A stalled source catches up on 1 ms and no more: the rate is a bound, and met without stalls.
// A list is sent from its end no further in one turn: what the turn had left is not lost.
TEST_F(TrafficSourceTest, AShortListKeepsToItsRateToo) {
  AddChain(64);
  const Rate rate{.pps = 400e3, .bps = 0};
  std::vector<double> ratios;
  for (int round = 0; round < 5; ++round) {
    double reached[2];
    for (const std::uint32_t flows : {1U, 256U}) {
      Run(OneChain(), {MakeFrames({.flows = flows}, {})}, rate);
      const Sent sent = SentBy(*source_, *chains_[0], 20ms);
      source_.reset();
      reached[flows == 1 ? 0 : 1] = static_cast<double>(sent.packets) / sent.seconds;
    }
    ratios.push_back(reached[0] / reached[1]);
  }
  EXPECT_GT(Quantile(ratios, 0.5), 0.8);
}

TEST_F(TrafficSourceTest, KeepsToItsRate) {
  AddChain(64);
  const double slow = 100e3;
  const Rate rates[] = {{.pps = slow, .bps = 0},
                        {.pps = 4 * slow, .bps = 0},
                        {.pps = 0, .bps = slow * 8 * 64},
                        {.pps = 0, .bps = 4 * slow * 8 * 64}};
  std::array<std::vector<double>, 4> reached;
  for (int round = 0; round < 5; ++round) {
    for (std::size_t i = 0; i < 4; ++i) {
      Run(OneChain(), {Synthetic()}, rates[i]);
      const Sent sent = SentBy(*source_, *chains_[0], 20ms);
      source_.reset();
      const double pps = i % 2 == 0 ? slow : 4 * slow;
      // Whatever had been saved up when the time began, and a burst that was on its way.
      EXPECT_LE(sent.packets, pps * (sent.seconds + 1e-3) + 2 * kBurst);
      reached[i].push_back(sent.packets / sent.seconds);
    }
  }
  for (const std::size_t i : {0U, 2U}) {
    const double ratio = Quantile(reached[i + 1], 0.5) / Quantile(reached[i], 0.5);
    EXPECT_GT(ratio, 3) << i;
    EXPECT_LT(ratio, 5) << i;
  }
}

TEST_F(TrafficSourceTest, APauseIsNotMadeUpFor) {
  AddChain(64);
  Run(OneChain(), {Synthetic()}, {.pps = 1e6, .bps = 0});
  ASSERT_TRUE(Eventually([this] { return chains_[0]->offered.value() > 0; }));
  source_->SetPaused(true);
  source_->Do([] {});
  std::this_thread::sleep_for(20ms);  // 20,000 packets
  source_->SetPaused(false);
  const Sent sent = SentBy(*source_, *chains_[0], 1ms);
  EXPECT_LE(sent.packets, 1e6 * (sent.seconds + 1e-3) + 2 * kBurst);
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
  ASSERT_TRUE(Eventually([&] { return rte_ring_sc_dequeue(chains_[0]->ingress(), &taken) == 0; }));
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
  for (const Rate rate : {Rate{}, Rate{.pps = 2e6, .bps = 0}, Rate{.pps = 0, .bps = 3e9}}) {
    const std::uint64_t before = chains_[0]->delivered.value() + chains_[1]->delivered.value();
    Sink sink(*memory_, chains_, nullptr);
    PassingThread one(chains_[0]->ingress(), chains_[0]->egress(), 7);
    PassingThread two(chains_[1]->ingress(), chains_[1]->egress(), 1000);
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
