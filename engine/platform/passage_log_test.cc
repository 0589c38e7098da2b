#include "engine/platform/passage_log.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "engine/platform/payload_stamp.h"
#include "engine/platform/sink.h"
#include "engine/platform/traffic_source_for_test.h"
#include "ports/unis_ports/passages_for_test.h"

namespace unis {
namespace {

class PassageLogTest : public TrafficSourceTest {
 protected:
  static constexpr std::uint64_t kPeriod = 1'000;

  void SetUp() override {
    TrafficSourceTest::SetUp();
    auto log = PassageLog::Create();
    ASSERT_TRUE(log.ok()) << log.status();
    log_ = *std::move(log);
    reader_.emplace(&log_->shm());
  }
  // Into the last ring of a chain.
  void Deliver(std::size_t chain, const std::vector<std::uint64_t>& stamps) {
    for (const std::uint64_t stamp : stamps) {
      rte_mbuf* const packet = Packet(std::vector<std::uint8_t>(60));
      if (stamp != 0) PassagesForTest::Stamp(packet, stamp);
      ASSERT_EQ(rte_ring_sp_enqueue(RingOf(chains_[chain]->ends().egresses[0]), packet), 0);
    }
  }
  // What a sink on this thread's behalf has noted of what is in the last rings.
  std::vector<unis_passage> Sunk() {
    Sink sink(*memory_, chains_, nullptr, log_);
    pid_t tid = 0;
    EXPECT_TRUE(sink.RunOn(kServiceLcores[0]).ok());
    EXPECT_TRUE(Eventually([this] {
      std::uint32_t left = 0;
      for (const auto& chain : chains_) left += InRings(*chain);
      return left == 0;
    }));
    sink.Do([&] { tid = gettid(); });
    sink.Halt();
    std::vector<unis_passage> noted;
    for (std::uint64_t i = 0; i < reader_->Written(tid); ++i)
      noted.push_back(reader_->Log(tid)->passages[i % UNIS_PASSAGES_KEPT]);
    return noted;
  }
  // With a source without a rate, which is paused when it has sent `packets`.
  void SendAbout(std::uint64_t packets, pid_t& tid) {
    std::vector<TrafficSource::List> lists;
    lists.emplace_back(Synthetic(), OneChain());
    source_.emplace(*memory_, chains_, OneChain(), std::move(lists), Rate{}, log_);
    ASSERT_TRUE(source_->RunOn(kServiceLcores[0]).ok());
    source_->SetPaused(false);
    ASSERT_TRUE(Eventually([&] { return chains_[0]->offered.value() >= packets; }));
    source_->Do([&] { tid = gettid(); });
    source_->Halt();
  }

  std::shared_ptr<PassageLog> log_;
  std::optional<PassagesForTest> reader_;
};

TEST_F(PassageLogTest, IsFoundAmongTheOpenFilesOfTheProcess) {
  unis_passages* const found = PassagesForTest::Find();
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->version, std::uint32_t{UNIS_PASSAGES_VERSION});
  PassagesForTest(found).Begin(1, 2, 3);
  EXPECT_EQ(log_->shm().looks, 3U);
  EXPECT_EQ(munmap(found, sizeof(*found)), 0);
  log_.reset();
  EXPECT_EQ(PassagesForTest::Find(), nullptr);
}

TEST_F(PassageLogTest, TheSinkNotesTheFirstPacketOfEachPeriod) {
  AddChain(1024), AddChain(1024);
  reader_->Begin(10'000, kPeriod);
  Deliver(0, {9'999, 0, 10'010, 10'020, 0, 12'100, 0});
  Deliver(1, {10'015});
  const std::uint64_t before = rte_rdtsc();
  const auto noted = Sunk();
  ASSERT_EQ(noted.size(), 3U);
  EXPECT_EQ(noted[0].stamp, 10'010U);
  EXPECT_EQ(noted[1].stamp, 12'100U);
  EXPECT_EQ(noted[2].stamp, 10'015U) << "each chain for itself";
  EXPECT_EQ(noted[0].port, 0U);
  EXPECT_EQ(noted[2].port, 1U);
  EXPECT_EQ(noted[0].packets, 7U);
  for (const unis_passage& passage : noted) {
    EXPECT_EQ(passage.kind, UNIS_RECEIVED);
    EXPECT_LT(before, passage.begin);
    EXPECT_LT(passage.begin, passage.end);
  }
}

TEST_F(PassageLogTest, NobodyLooksBehindTheReaderThatIsGone) {
  AddChain(1024);
  reader_->Begin(10'000, kPeriod, 1, rte_rdtsc());
  Deliver(0, {10'010, 12'100});
  EXPECT_EQ(Sunk().size(), 0U);
  EXPECT_EQ(log_->shm().looks, 0U);
}

TEST_F(PassageLogTest, NothingIsNotedWhileNobodyLooks) {
  AddChain(1024);
  reader_->Begin(10'000, kPeriod);
  reader_->End();
  Deliver(0, {10'010, 12'100});
  EXPECT_EQ(Sunk().size(), 0U);
  pid_t tid = 0;
  ASSERT_NO_FATAL_FAILURE(SendAbout(200, tid));
  for (const unis_passage_log& log : log_->shm().logs) EXPECT_EQ(log.tid, 0);
}

// As they come out of its ring: of each period the first, which has the mark and the stamp that was
// noted.
TEST_F(PassageLogTest, TheSourceNotesWhatItSends) {
  AddChain(512);
  const std::uint64_t origin = rte_rdtsc(), period = 20'000;
  reader_->Begin(origin, period);
  __atomic_store_n(&log_->shm().mark, PayloadStamp::kMagic, __ATOMIC_RELEASE);
  pid_t tid = 0;
  ASSERT_NO_FATAL_FAILURE(SendAbout(448, tid));
  std::vector<std::uint64_t> expected;
  rte_mbuf* packet = nullptr;
  while (rte_ring_sc_dequeue(RingOf(chains_[0]->ingress()), reinterpret_cast<void**>(&packet)) ==
         0) {
    const std::uint64_t stamp = PayloadStamp::Read(packet);
    rte_pktmbuf_free(packet);
    if (expected.empty() || (stamp - origin) / period > (expected.back() - origin) / period)
      expected.push_back(stamp);
  }
  ASSERT_EQ(reader_->Written(tid), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const unis_passage& passage = reader_->Log(tid)->passages[i];
    EXPECT_EQ(passage.stamp, expected[i]);
    EXPECT_EQ(passage.kind, UNIS_SENT);
    EXPECT_GT(passage.packets, 0U);
    EXPECT_LE(passage.stamp, passage.begin);
    EXPECT_LT(passage.begin, passage.end);
  }
}

TEST_F(PassageLogTest, WhatALinkDoesNotTakeWasNotSent) {
  PassageWriter writer(log_);
  reader_->Begin(10'000, kPeriod);
  std::vector<rte_mbuf*> packets;
  for (const std::uint64_t stamp : {10'010, 11'010, 12'010, 13'010}) {
    packets.push_back(Packet(std::vector<std::uint8_t>(60)));
    PassagesForTest::Stamp(packets.back(), stamp);
  }
  unis_sampler sampler{};
  EXPECT_EQ(writer.Sent(sampler, 0, packets, [] { return std::uint16_t{2}; }), 2);
  EXPECT_EQ(reader_->Written(), 2U);
  EXPECT_EQ(writer.Sent(sampler, 0, std::span(packets).subspan(2), [] { return 0; }), 0);
  EXPECT_EQ(reader_->Written(), 2U);
  EXPECT_EQ(writer.Sent(sampler, 0, std::span(packets).subspan(2), [] { return 2; }), 2);
  ASSERT_EQ(reader_->Written(), 4U);
  EXPECT_EQ(reader_->Log()->passages[2].stamp, 12'010U);
  for (rte_mbuf* const packet : packets) rte_pktmbuf_free(packet);
}

TEST_F(PassageLogTest, ComponentsOfOneThreadShareItsLog) {
  PassageWriter one(log_), two(log_);
  reader_->Begin(10'000, kPeriod, 2);
  rte_mbuf* const packet = Packet(std::vector<std::uint8_t>(60));
  PassagesForTest::Stamp(packet, 10'010);
  unis_sampler sent{}, received{};
  one.Sent(sent, 3, std::span(&packet, 1), [] { return 1; });
  const std::uint64_t begin = rte_rdtsc(), end = begin + 1;
  two.Received(received, 3, std::span(&packet, 1), begin, end);
  const std::uint64_t after = rte_rdtsc();
  ASSERT_EQ(reader_->Written(), 2U);
  const unis_passage& sent_one = reader_->Log()->passages[0];
  EXPECT_EQ(sent_one.kind, UNIS_SENT);
  EXPECT_GT(sent_one.own, 0);
  const unis_passage& received_one = reader_->Log()->passages[1];
  EXPECT_EQ(received_one, (unis_passage{.stamp = 10'010,
                                        .begin = begin,
                                        .end = end,
                                        .kind = UNIS_RECEIVED,
                                        .own = received_one.own,
                                        .packets = 1,
                                        .port = 3}));
  EXPECT_LE(received_one.own, after - end);
  EXPECT_GT(received_one.own, 0);
  rte_pktmbuf_free(packet);
}

}  // namespace
}  // namespace unis
