#include "functions/wanopt.h"

#include <gtest/gtest.h>

#include "functions/packet_for_test.h"

namespace unis::functions {
namespace {

class WanoptTest : public PacketTest {
 protected:
  // One packet through it: did it pass?
  static bool Pass(Wanopt& wanopt, rte_mbuf* packet) {
    Drops drops;
    return wanopt.Process(&packet, 1, drops) == 1;
  }
  Wanopt compress_ = std::move(*Wanopt::Create({}));
  Wanopt expand_ = std::move(*Wanopt::Create({.mode = Wanopt::Mode::kExpand}));
};

TEST_F(WanoptTest, ThereAndBackAgain) {
  const Bytes frame = Ipv4Frame(kUdp, Bytes(1400, 'x'));
  const auto packet = Make(frame);
  ASSERT_TRUE(Pass(compress_, packet.get()));
  const Bytes small = BytesOf(packet.get());
  EXPECT_LT(small.size(), 100U);
  EXPECT_EQ(small[kEtherHeader + 9], Wanopt::kIpComp);
  EXPECT_EQ(OnesSum({&small[kEtherHeader], kIpv4MinHeader}), 0xffff);
  EXPECT_EQ(LoadBe16(&small[kEtherHeader + 2]), small.size() - kEtherHeader);
  ASSERT_TRUE(Pass(expand_, packet.get()));
  EXPECT_EQ(BytesOf(packet.get()), frame);
}

TEST_F(WanoptTest, PaddingOfTheFrameIsNotPayload) {
  Bytes frame = Ipv4Frame(kUdp, Bytes(100, 'x'));
  const Bytes unpadded = frame;
  frame.resize(frame.size() + 20, 'y');
  const auto packet = Make(frame);
  ASSERT_TRUE(Pass(compress_, packet.get()));
  ASSERT_TRUE(Pass(expand_, packet.get()));
  EXPECT_EQ(BytesOf(packet.get()), unpadded);
}

TEST_F(WanoptTest, WhatDoesNotInflateOrFitIsDropped) {
  const auto damaged = Make(Ipv4Frame(Wanopt::kIpComp, {kUdp, 0, 0, 2, 0xff, 0xff}));
  EXPECT_FALSE(Pass(expand_, damaged.get()));
  // More than a buffer holds, from a packet that says no more than others.
  auto codec = WanoptCodec::Create(12);
  Bytes small(1000);
  small.resize(codec->Deflate(Bytes(20000), small));
  small.insert(small.begin(), {kUdp, 0, 0, 2});
  const Bytes bomb = Ipv4Frame(Wanopt::kIpComp, small);
  const auto packet = Make(bomb);
  EXPECT_FALSE(Pass(expand_, packet.get()));
  EXPECT_EQ(BytesOf(packet.get()), bomb);
}

TEST_F(WanoptTest, OtherAlgorithmsAreNotOurs) {
  const Bytes frame = Ipv4Frame(Wanopt::kIpComp, {kUdp, 0, 0, 3, 1, 2, 3});
  const auto packet = Make(frame);
  EXPECT_TRUE(Pass(expand_, packet.get()));
  EXPECT_EQ(BytesOf(packet.get()), frame);
}

TEST_F(WanoptTest, APacketOfSeveralBuffersStaysAsItIs) {
  const auto first = Make(Ipv4Frame(kUdp, Bytes(200, 'x')));
  StoreBe16(Frame(first.get()) + kEtherHeader + 2, kIpv4MinHeader + 400);
  ASSERT_EQ(rte_pktmbuf_chain(first.get(), Make(Bytes(200, 'x')).release()), 0);
  EXPECT_TRUE(Pass(compress_, first.get()));
  EXPECT_EQ(first->pkt_len, kEtherHeader + kIpv4MinHeader + 400U);
}

}  // namespace
}  // namespace unis::functions
