#include <gtest/gtest.h>
#include <rte_cycles.h>

#include <cmath>
#include <cstdint>
#include <thread>
#include <vector>

#include "engine/base/quantile.h"
#include "engine/platform/payload_stamp.h"
#include "engine/platform/traffic_source_for_test.h"

namespace unis {
namespace {

TEST_F(TrafficSourceTest, WhatFindsTheRingFullIsDroppedAndCounted) {
  AddChain(256);
  Run(OneChain(), {Synthetic()}, {.pps = 1e6});
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

// Where others take the CPU away for longer than a window, the median needs more of them.
constexpr std::size_t kMostRounds = 30;

// What is due when a list ends is taken from its beginning.
TEST_F(TrafficSourceTest, AShortListKeepsToItsRateToo) {
  AddChain(64);
  const Rate rate{.pps = 400e3};
  std::vector<double> ratios;
  while (ratios.size() < 5 || (ratios.size() < kMostRounds && Quantile(ratios, 0.5) <= 0.8)) {
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
  const double slow = 20e3;  // four times as much an instrumented build reaches beside others
  const Rate rates[] = {
      {.pps = slow}, {.pps = 4 * slow}, {.bps = slow * 8 * 64}, {.bps = 4 * slow * 8 * 64}};
  std::array<std::vector<double>, 4> reached;
  const auto ratio = [&](std::size_t i) {
    return Quantile(reached[i + 1], 0.5) / Quantile(reached[i], 0.5);
  };
  const auto is_four = [&](std::size_t i) { return ratio(i) > 3 && ratio(i) < 5; };
  for (std::size_t round = 0; round < 5 || (round < kMostRounds && !(is_four(0) && is_four(2)));
       ++round) {
    for (std::size_t i = 0; i < 4; ++i) {
      Run(OneChain(), {Synthetic()}, rates[i]);
      const Sent sent = SentBy(*source_, *chains_[0], 20ms);
      source_.reset();
      reached[i].push_back(sent.packets / sent.seconds);
    }
  }
  for (const std::size_t i : {0U, 2U}) EXPECT_TRUE(is_four(i)) << i << ": " << ratio(i);
}

// ------------------------------------------------------------------ when packets are due

class DueTest : public TrafficSourceTest {
 protected:
  // The stamps of what is in a ring, which it empties. What no longer fits is dropped, and what was
  // dropped is not in it: these are the first packets, without a gap.
  std::vector<double> Stamps(std::size_t chain) {
    std::vector<double> stamps;
    void* taken = nullptr;
    while (rte_ring_sc_dequeue(RingOf(chains_[chain]->ingress()), &taken) == 0) {
      auto* packet = static_cast<rte_mbuf*>(taken);
      stamps.push_back(static_cast<double>(memory_->Stamp(packet)));
      EXPECT_EQ(PayloadStamp::Read(packet), memory_->Stamp(packet)) << "these are synthetic";
      rte_pktmbuf_free(packet);
    }
    return stamps;
  }
  void Stop() {
    source_->SetPaused(true);
    source_->Do([] {});
  }
  static double Hz() { return static_cast<double>(rte_get_tsc_hz()); }
  // As when the host takes the CPU away.
  void Stall(std::chrono::milliseconds time) {
    source_->Do([time] { std::this_thread::sleep_for(time); });
  }
};

struct Gaps {
  double mean = 0;
  double variation = 0;  // coefficient of it: deviation over mean
};
Gaps GapsOf(const std::vector<double>& stamps) {
  const auto count = static_cast<double>(stamps.size() - 1);
  const double mean = (stamps.back() - stamps.front()) / count;
  double squares = 0;
  for (std::size_t i = 1; i < stamps.size(); ++i)
    squares += std::pow(stamps[i] - stamps[i - 1] - mean, 2);
  return {mean, std::sqrt(squares / count) / mean};
}

// Latency counts from there: or who is late to send would hide that packets had to wait.
TEST_F(DueTest, StampsSayWhenPacketsWereDueHoweverLateTheyAreSent) {
  AddChain(4096);
  const double pps = 50e3;
  Run(OneChain(), {Synthetic()}, {.pps = pps});
  for (int i = 0; i < 5; ++i) Stall(5ms);
  ASSERT_TRUE(Eventually([this] { return InRing(0) > 2000; }));
  Stop();
  const auto stamps = Stamps(0);
  for (std::size_t i = 1; i < stamps.size(); ++i)
    ASSERT_NEAR(stamps[i] - stamps[i - 1], Hz() / pps, 1) << "packet " << i;
}

TEST_F(DueTest, WhatWasDueInAStallIsMadeUpForAndNoMore) {
  AddChain(64);
  const double pps = 200e3;
  Run(OneChain(), {Synthetic()}, {.pps = pps});
  ASSERT_TRUE(Eventually([this] { return InRing(0) > 0; }));
  const double begin = Stamps(0).front();
  Stall(20ms);
  bool made_up = false;
  EXPECT_TRUE(Eventually([&] {
    source_->Do([&] {
      const auto sent = static_cast<double>(chains_[0]->offered.value());
      const double due = (static_cast<double>(rte_rdtsc()) - begin) / Hz() * pps + 1;
      EXPECT_LE(sent, due + 0.01) << "roundings apart";
      made_up = sent > due - kBurst;
    });
    return made_up;
  }));
}

TEST_F(DueTest, WhatWasDueInAPauseIsNot) {
  AddChain(64);
  Run(OneChain(), {Synthetic()}, {.pps = 1e6});
  ASSERT_TRUE(Eventually([this] { return InRing(0) > 0; }));
  Stop();
  (void)Stamps(0);
  std::this_thread::sleep_for(2ms);
  const auto end = static_cast<double>(rte_rdtsc());
  source_->SetPaused(false);
  ASSERT_TRUE(Eventually([this] { return InRing(0) > 50; }));
  EXPECT_GE(Stamps(0).front(), end);
}

TEST_F(DueTest, PacketsThatMayWaitAreSentTogether) {
  AddChain(64);
  Run(OneChain(), {Synthetic()}, {.pps = 10e3});
  LcoreNap& nap = LcoreNap::Of(kServiceLcores[0]);
  source_->Do([&] { nap.set_slack(350'000); });
  EXPECT_TRUE(Eventually([&] {
    const std::uint64_t naps = nap.naps(), sent = chains_[0]->offered.value();
    std::this_thread::sleep_for(20ms);
    const std::uint64_t more = chains_[0]->offered.value() - sent;
    return nap.naps() > naps + 10 && more > 2 * (nap.naps() - naps);
  })) << "a nap ends with several packets, not with one";
  source_->Do([&] { nap.set_slack(0); });
}

TEST_F(DueTest, PoissonIsPoissonInEachChain) {
  AddChain(2048);
  AddChain(2048);
  const double pps = 200e3;
  Run(Classifier::Create({{ToPort(80)}, {ToPort(53)}}).value(),
      {Synthetic(ToPort(80)), Synthetic(ToPort(53))}, {.pps = pps, .arrivals = Arrivals::kPoisson});
  ASSERT_TRUE(Eventually([this] { return InRing(0) > 2000 && InRing(1) > 2000; }));
  Stop();
  for (const std::size_t chain : {0U, 1U}) {
    const Gaps gaps = GapsOf(Stamps(chain));
    EXPECT_NEAR(gaps.mean / Hz() * pps / 2, 1, 0.12) << "5 standard errors";
    EXPECT_NEAR(gaps.variation, 1, 0.16) << "5 standard errors; 0.71 if the chains took turns";
  }
}

TEST_F(DueTest, TheRateChangesWhileItSends) {
  AddChain(2048);
  Run(OneChain(), {Synthetic()}, {});
  for (const double pps : {50e3, 200e3}) {
    source_->SetRate({.pps = pps});
    (void)Stamps(0);
    ASSERT_TRUE(Eventually([this] { return InRing(0) > 500; }));
    Stop();
    EXPECT_NEAR(GapsOf(Stamps(0)).mean, Hz() / pps, 1);
    source_->SetPaused(false);
  }
  const std::uint64_t dropped = chains_[0]->dropped_ingress_full.value();
  source_->SetRate({});
  ASSERT_TRUE(Eventually([this] { return InRing(0) > 2047 - kBurst; }));
  source_->Do([] {});
  EXPECT_EQ(chains_[0]->dropped_ingress_full.value(), dropped);
}

TEST_F(DueTest, WhatFindsNoBufferIsDroppedAndCounted) {
  AddChain(256);
  std::vector<rte_mbuf*> all;
  while (rte_mbuf* packet = rte_pktmbuf_alloc(memory_->pool())) all.push_back(packet);
  Run(OneChain(), {Synthetic()}, {.pps = 100e3});
  EXPECT_TRUE(Eventually([this] { return chains_[0]->offered.value() > 100; }));
  source_->Halt();
  EXPECT_EQ(chains_[0]->dropped_ingress_full.value(), chains_[0]->offered.value());
  rte_pktmbuf_free_bulk(all.data(), static_cast<unsigned>(all.size()));
}

}  // namespace
}  // namespace unis
