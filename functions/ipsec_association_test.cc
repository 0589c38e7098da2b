#include "functions/ipsec_association.h"

#include <gtest/gtest.h>

#include "functions/packet_for_test.h"

namespace unis::functions {
namespace {

constexpr std::uint32_t kEspAt = kEtherHeader + kIpv4MinHeader, kVectorAt = kEspAt + 8;
using enum OutboundAssociation::Outcome;

class AssociationTest : public PacketTest {
 protected:
  void SetUp() override {
    PacketTest::SetUp();
    cipher_.emplace(std::move(*GcmCipher::Create()));
  }
  OutboundAssociation Create(bool extended, std::uint64_t sequence, std::uint64_t nonce = 1) {
    AssociationConfig config = SyntheticAssociations(1)[0];
    config.extended_sequence = extended;
    auto association = OutboundAssociation::Create(config, *cipher_, nonce, sequence);
    EXPECT_TRUE(association.ok()) << association.error().message;
    return std::move(*association);
  }

  std::optional<GcmCipher> cipher_;
};

// Test case 4 of the GCM specification (McGrew, Viega), which RFC 4106's algorithm is.
TEST_F(AssociationTest, TheCipherIsGcm) {
  AssociationKey key{.key = {0xfe, 0xff, 0xe9, 0x92, 0x86, 0x65, 0x73, 0x1c, 0x6d, 0x6a, 0x8f, 0x94,
                             0x67, 0x30, 0x83, 0x08}};
  GcmKey expanded;
  cipher_->Expand(key, expanded);
  const Bytes nonce{0xca, 0xfe, 0xba, 0xbe, 0xfa, 0xce, 0xdb, 0xad, 0xde, 0xca, 0xf8, 0x88};
  const Bytes aad{0xfe, 0xed, 0xfa, 0xce, 0xde, 0xad, 0xbe, 0xef, 0xfe, 0xed,
                  0xfa, 0xce, 0xde, 0xad, 0xbe, 0xef, 0xab, 0xad, 0xda, 0xd2};
  Bytes text{0xd9, 0x31, 0x32, 0x25, 0xf8, 0x84, 0x06, 0xe5, 0xa5, 0x59, 0x09, 0xc5,
             0xaf, 0xf5, 0x26, 0x9a, 0x86, 0xa7, 0xa9, 0x53, 0x15, 0x34, 0xf7, 0xda,
             0x2e, 0x4c, 0x30, 0x3d, 0x8a, 0x31, 0x8a, 0x72, 0x1c, 0x3c, 0x0c, 0x95,
             0x95, 0x68, 0x09, 0x53, 0x2f, 0xcf, 0x0e, 0x24, 0x49, 0xa6, 0xb5, 0x25,
             0xb1, 0x6a, 0xed, 0xf5, 0xaa, 0x0d, 0xe6, 0x57, 0xba, 0x63, 0x7b, 0x39};
  Bytes tag(16);
  cipher_->Encrypt(expanded,
                   {text.data(), text.size(), nonce.data(), aad.data(), aad.size(), tag.data()});
  EXPECT_EQ(text[0], 0x42);
  EXPECT_EQ(text.back(), 0x91);
  EXPECT_EQ(tag, Bytes({0x5b, 0xc9, 0x4f, 0xbc, 0x32, 0x21, 0xa5, 0xdb, 0x94, 0xfa, 0xe9, 0x5a,
                        0xe7, 0x12, 0x1a, 0x47}));
}

TEST_F(AssociationTest, SequenceNumbersAndVectorsCountApart) {
  OutboundAssociation association = Create(false, 7, 0xfffffffe);
  for (std::uint32_t i = 0; i < 3; ++i) {
    const auto packet = Make(Ipv4Frame(kUdp, Bytes(30)));
    ASSERT_EQ(association.Seal(packet.get(), kEtherHeader, *cipher_), kSealed);
    const Bytes sent = BytesOf(packet.get());
    EXPECT_EQ(LoadBe32(&sent[kEspAt + 4]), 7 + i);
    EXPECT_EQ(LoadBe32(&sent[kVectorAt]), i < 2 ? 0U : 1U);
    EXPECT_EQ(LoadBe32(&sent[kVectorAt + 4]), 0xfffffffe + i);
    EXPECT_EQ(OnesSum({&sent[kEtherHeader], kIpv4MinHeader}), 0xffff);
  }
}

TEST_F(AssociationTest, SequenceNumbersBeginAtOne) {
  for (const std::uint64_t sequence : {0u, 1u}) {
    OutboundAssociation association = Create(false, sequence);
    const auto packet = Make(Ipv4Frame(kUdp, Bytes(30)));
    ASSERT_EQ(association.Seal(packet.get(), kEtherHeader, *cipher_), kSealed);
    EXPECT_EQ(LoadBe32(Frame(packet.get()) + kEspAt + 4), 1U);
  }
}

TEST_F(AssociationTest, WhatANicFailedToDecryptIsSealed) {
  OutboundAssociation association = Create(false, 1);
  const auto packet = Make(Ipv4Frame(kUdp, Bytes(30)));
  packet->ol_flags |= RTE_MBUF_F_RX_SEC_OFFLOAD | RTE_MBUF_F_RX_SEC_OFFLOAD_FAILED;
  EXPECT_EQ(association.Seal(packet.get(), kEtherHeader, *cipher_), kSealed);
  EXPECT_EQ(packet->ol_flags & RTE_MBUF_F_RX_SEC_OFFLOAD_FAILED, 0U);
}

// RFC 4303, section 3.3.3: they must not begin again.
TEST_F(AssociationTest, TheLastSequenceNumberIsTheEnd) {
  const Bytes frame = Ipv4Frame(kUdp, Bytes(30));
  OutboundAssociation association = Create(false, 0xfffffffe);
  EXPECT_EQ(association.Seal(Make(frame).get(), kEtherHeader, *cipher_), kSealed);
  EXPECT_EQ(association.Seal(Make(frame).get(), kEtherHeader, *cipher_), kExhausted);
  EXPECT_EQ(association.Seal(Make(frame).get(), kEtherHeader, *cipher_), kExhausted);
  OutboundAssociation extended = Create(true, 0xfffffffe);
  EXPECT_EQ(extended.Seal(Make(frame).get(), kEtherHeader, *cipher_), kSealed);
  const auto packet = Make(frame);
  EXPECT_EQ(extended.Seal(packet.get(), kEtherHeader, *cipher_), kSealed);
  EXPECT_EQ(LoadBe32(Frame(packet.get()) + kEspAt + 4), 0xffffffff);
  const auto next = Make(frame);
  EXPECT_EQ(extended.Seal(next.get(), kEtherHeader, *cipher_), kSealed);
  EXPECT_EQ(LoadBe32(Frame(next.get()) + kEspAt + 4), 0U) << "the low half of 2^32";
}

TEST_F(AssociationTest, ABufferThatIsFullIsNotOverrun) {
  OutboundAssociation association = Create(true, 1);
  const Bytes frame = Ipv4Frame(kUdp, Bytes(100));
  for (std::uint32_t headroom = 0; headroom < 60; ++headroom) {
    const auto packet = Make(frame);
    packet->data_off = static_cast<std::uint16_t>(headroom);
    packet->data_len = static_cast<std::uint16_t>(frame.size());
    packet->pkt_len = packet->data_len;
    std::memcpy(Frame(packet.get()), frame.data(), frame.size());
    const auto outcome = association.Seal(packet.get(), kEtherHeader, *cipher_);
    EXPECT_EQ(outcome, headroom < OutboundAssociation::kHeadBytes ? kNoRoom : kSealed) << headroom;
  }
  bool sealed = false, refused = false;
  for (std::uint32_t tailroom = 0; tailroom < 60; ++tailroom) {
    const std::uint32_t inner = RTE_MBUF_DEFAULT_DATAROOM - tailroom - kEtherHeader;
    const auto packet = Make(Ipv4Frame(kUdp, Bytes(inner - kIpv4MinHeader)));
    ASSERT_EQ(rte_pktmbuf_tailroom(packet.get()), tailroom);
    if (association.Seal(packet.get(), kEtherHeader, *cipher_) == kSealed) {
      sealed = true;
      EXPECT_EQ(packet->data_len, kEtherHeader + OutboundAssociation::kHeadBytes + inner +
                                      OutboundAssociation::TailBytes(inner));
      EXPECT_LE(packet->data_off + packet->data_len, packet->buf_len);
    } else {
      refused = true;
    }
  }
  EXPECT_TRUE(sealed && refused);
}

}  // namespace
}  // namespace unis::functions
