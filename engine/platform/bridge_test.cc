#include "engine/platform/bridge.h"

#include <gtest/gtest.h>
#include <rte_service.h>

#include <array>
#include <cstring>
#include <deque>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "engine/platform/memif_for_test.h"
#include "engine/platform/payload_stamp.h"

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
  void Add(Bridges& bridges, LinkEnd& from, LinkEnd& to) {
    bridges.Add(from, {{.to = &to, .carried = &carried_.emplace_back(), .lost = &lost_}},
                *Classifier::Create({{}}));
  }

  std::deque<Carried> carried_;
  Counter lost_;
};

TEST_F(BridgeTest, CarriesPacketsInOrderAndLeavesInTheRingWhatTheMemifHasNoRoomFor) {
  rte_ring* const ring = MakeRing("from", 1024);
  const auto ends = Connect(Config("out", 2048));
  ASSERT_NE(ends, nullptr);
  Receive(ends->program);
  Fill(ring, 1000);
  RingEnd from(ring);  // outlives what reads and writes it
  Bridges bridge(*memory_);
  Add(bridge, from, *ends->engine.port());
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
  RingEnd to(ring);  // outlives what reads and writes it
  Bridges bridge(*memory_);
  Add(bridge, *ends->engine.port(), to);
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
    Add(bridges, ends_.emplace_back(MakeRing("ring" + std::to_string(i), 64)),
        *ends->engine.port());
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
TEST_F(BridgeTest, TheTimeOfEntryOfWhatComesFromAMemifIsInItsPayload) {
  rte_ring* const ring = MakeRing("to", 128);
  const auto ends = Connect(Config("in", 2048));
  ASSERT_NE(ends, nullptr);
  std::vector<rte_mbuf*> all(memory_->size());
  ASSERT_EQ(rte_pktmbuf_alloc_bulk(memory_->pool(), all.data(), memory_->size()), 0);
  for (rte_mbuf* packet : all) memory_->Stamp(packet) = 4711;
  rte_pktmbuf_free_bulk(all.data(), memory_->size());
  RingEnd to(ring);  // outlives what reads and writes it
  Bridges bridge(*memory_);
  Add(bridge, *ends->engine.port(), to);
  ASSERT_TRUE(bridge.RunOn(kServiceLcores[0]).ok());
  std::array<std::uint8_t, 60> stamped{};
  const PayloadStamp stamp{.cycles = 815};
  std::memcpy(stamped.data() + PayloadStamp::kAt, &stamp, sizeof(stamp));
  ASSERT_EQ(Send(ends->program, 20), 20U);
  ASSERT_EQ(Send(ends->program, 20, stamped), 20U);
  ASSERT_TRUE(Eventually([&] { return rte_ring_count(ring) == 40; }));
  void* packet = nullptr;
  for (int i = 0; rte_ring_sc_dequeue(ring, &packet) == 0; ++i) {
    EXPECT_EQ(memory_->Stamp(static_cast<rte_mbuf*>(packet)), i < 20 ? 0U : 815U);
    rte_pktmbuf_free(static_cast<rte_mbuf*>(packet));
  }
}

// ------------------------------------------------------------------ branches

FlowMatch To(std::uint16_t port) {
  FlowMatch match;
  match.dst_port = port;
  match.protocol = 17;
  return match;
}

// A ring `from` that is emptied into others.
class SplitTest : public BridgeTest {
 protected:
  void SetUp() override {
    BridgeTest::SetUp();
    from_ = MakeRing("from", 1024);
    from_end_ = &ends_.emplace_back(from_);
    bridges_ = std::make_unique<Bridges>(*memory_);
  }
  void TearDown() override {
    bridges_.reset();
    for (const Ring& ring : rings_) Discard(ring.get());
    BridgeTest::TearDown();
  }
  Bridges::Branch Branch(const std::string& name, std::uint32_t slots, std::uint32_t weight = 0,
                         bool copy = false) {
    return {.to = &ends_.emplace_back(MakeRing(name, slots)),
            .carried = &carried_.emplace_back(),
            .lost = &lost_,
            .weight = weight,
            .copy = copy};
  }
  void Split(std::vector<Bridges::Branch> branches,
             const std::vector<std::vector<FlowMatch>>& matches) {
    bridges_->Add(*from_end_, std::move(branches), *Classifier::Create(matches));
    ASSERT_TRUE(bridges_->RunOn(kServiceLcores[0]).ok());
  }
  // UDP packets to `port`, of `flows` flows in turn.
  void Send(std::uint32_t count, std::uint16_t port, std::uint32_t flows = 64) {
    const Frames frames = MakeFrames({.flows = flows}, {To(port)});
    for (std::uint32_t i = 0; i < count; ++i) {
      const auto bytes = frames.Bytes(frames[i % frames.size()]);
      rte_mbuf* packet =
          Packet({reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()});
      memory_->Stamp(packet) = 4711;
      ASSERT_EQ(rte_ring_sp_enqueue(from_, packet), 0);
    }
  }
  // Source port and address of a packet: its flow here.
  static std::uint64_t FlowOf(const rte_mbuf* packet) {
    std::uint64_t flow = 0;
    for (const unsigned at : {26U, 27U, 28U, 29U, 30U, 31U, 34U, 35U})
      flow = flow << 8 | *rte_pktmbuf_mtod_offset(packet, const std::uint8_t*, at);
    return flow;
  }
  std::vector<std::uint64_t> FlowsIn(const Bridges::Branch& branch) {
    std::vector<std::uint64_t> flows;
    for (void* packet = nullptr; rte_ring_sc_dequeue(RingOf(branch.to), &packet) == 0;) {
      flows.push_back(FlowOf(static_cast<rte_mbuf*>(packet)));
      EXPECT_EQ(memory_->Stamp(static_cast<rte_mbuf*>(packet)), 4711U);
      rte_pktmbuf_free(static_cast<rte_mbuf*>(packet));
    }
    return flows;
  }
  static std::uint32_t In(const Bridges::Branch& branch) {
    return rte_ring_count(RingOf(branch.to));
  }
  // A few iterations: what can move has moved.
  void Rest() {
    for (int i = 0; i < 3; ++i) bridges_->Do([] {});
  }

  rte_ring* from_ = nullptr;
  LinkEnd* from_end_ = nullptr;
  std::unique_ptr<Bridges> bridges_;
};

TEST_F(SplitTest, APacketTakesTheFirstBranchThatItMatches) {
  const auto web = Branch("web", 1024), dns = Branch("dns", 1024), rest = Branch("rest", 1024);
  Split({web, dns, rest}, {{To(80)}, {To(80), To(53)}, {}});
  Send(100, 80);
  Send(70, 53);
  Send(30, 443);
  ASSERT_TRUE(Eventually([&] { return In(web) + In(dns) + In(rest) == 200; }));
  EXPECT_EQ(In(web), 100U);
  EXPECT_EQ(In(dns), 70U);
  EXPECT_EQ(FlowsIn(rest).size(), 30U) << "with the time of their entry";
  EXPECT_EQ(dns.carried->packets.value(), 70U);
}

TEST_F(SplitTest, FlowsStayTogetherAndHaveTheSharesOfTheirWeights) {
  const auto three = Branch("three", 1024, 3), one = Branch("one", 1024, 1);
  Split({three, one}, {{}, {}});
  for (int round = 0; round < 2; ++round) {
    Send(400, 80, 200);
    ASSERT_TRUE(Eventually([&] { return rte_ring_count(from_) == 0; }));
  }
  Rest();
  const auto of_three = FlowsIn(three), of_one = FlowsIn(one);
  ASSERT_EQ(of_three.size() + of_one.size(), 800U);
  const std::set<std::uint64_t> left(of_three.begin(), of_three.end());
  const std::set<std::uint64_t> right(of_one.begin(), of_one.end());
  EXPECT_EQ(left.size() + right.size(), 200U) << "no flow is on both";
  EXPECT_NEAR(static_cast<double>(left.size()), 150, 25);
}

TEST_F(SplitTest, WhatMustWaitWaitsBeforeTheSplitAndNothingIsLost) {
  const auto small = Branch("small", 64), large = Branch("large", 1024);
  Split({small, large}, {{To(80)}, {}});
  Send(100, 80);
  Send(100, 443);
  ASSERT_TRUE(Eventually([&] { return In(small) == 63; }));
  Rest();
  EXPECT_EQ(In(large), 0U);
  EXPECT_EQ(rte_ring_count(from_), 137U);
  const auto taken = FlowsIn(small).size();
  ASSERT_TRUE(Eventually([&] { return rte_ring_count(from_) == 0; }));
  Rest();
  EXPECT_EQ(taken + In(small), 100U);
  EXPECT_EQ(In(large), 100U);
  EXPECT_EQ(lost_.value(), 0U);
}

TEST_F(SplitTest, ACopyIsOfEveryPacketAndDroppedWhereThereIsNoRoomButThePacketNever) {
  const auto way = Branch("way", 1024), tap = Branch("tap", 64, 0, true);
  Split({way, tap}, {{}});
  Send(50, 80);
  ASSERT_TRUE(Eventually([&] { return In(way) == 50; }));
  Rest();
  EXPECT_EQ(In(tap), 50U);
  EXPECT_EQ(bridges_->copied(), 50U);
  Send(500, 80);
  ASSERT_TRUE(Eventually([&] { return In(way) == 550; }));
  Rest();
  EXPECT_EQ(In(tap), 63U);
  EXPECT_EQ(bridges_->copied(), 63U);
  EXPECT_EQ(bridges_->copies_dropped(), 487U);
  EXPECT_EQ(tap.carried->dropped.value(), 487U);
  EXPECT_EQ(lost_.value(), 0U);
  // Of its own buffers: what becomes of a copy is nothing to the packet.
  EXPECT_EQ(memory_->InUse(), 613U);
  EXPECT_EQ(FlowsIn(tap), [&] {
    auto flows = FlowsIn(way);
    flows.resize(63);
    return flows;
  }());
}

// A function behind it is dead: the others go on.
TEST_F(SplitTest, WhatIsForAClosedBranchIsDroppedAndCountedAndTheOthersGoOn) {
  const auto dead = Branch("dead", 64, 1), way = Branch("way", 1024, 1);
  const auto tap = Branch("tap", 1024, 0, true);
  dead.to->closed = tap.to->closed = true;
  Split({dead, way, tap}, {{}, {}});
  Send(400, 80, 200);
  ASSERT_TRUE(Eventually([&] { return rte_ring_count(from_) == 0; }));
  Rest();
  EXPECT_EQ(In(dead), 0U);
  EXPECT_GT(In(way), 100U);
  EXPECT_EQ(dead.carried->dropped.value(), 400 - In(way));
  EXPECT_EQ(lost_.value(), 400 - In(way)) << "no copies";
  EXPECT_EQ(bridges_->copied(), 0U);
  EXPECT_EQ(bridges_->copies_dropped(), 400U);
  dead.to->closed = tap.to->closed = false;
  Send(100, 80);
  ASSERT_TRUE(Eventually([&] { return In(tap) == 100; }));
  EXPECT_GT(In(dead), 0U);
}

// Two rings into one, which neither must overfill.
TEST_F(SplitTest, ManyMergeIntoOne) {
  rte_ring* const second = MakeRing("second", 1024);
  const auto to = Branch("to", 64);
  auto again = to;
  again.carried = &carried_.emplace_back();
  bridges_->Add(ends_.emplace_back(second), {again}, *Classifier::Create({{}}));
  Split({to}, {{}});
  Send(200, 80);
  from_ = second;
  Send(200, 443);
  std::uint32_t taken = 0;
  ASSERT_TRUE(Eventually([&] {
    EXPECT_LE(In(to), 63U);
    taken += static_cast<std::uint32_t>(FlowsIn(to).size());
    return taken == 400;
  }));
  EXPECT_EQ(to.carried->packets.value(), 200U);
  EXPECT_EQ(again.carried->packets.value(), 200U);
  EXPECT_EQ(lost_.value(), 0U);
}

}  // namespace
}  // namespace unis
