#include "functions/common/headers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <vector>

namespace unis::functions {
namespace {

using Bytes = std::vector<std::uint8_t>;

// On the heap and exactly as long as the frame, so that the address sanitizer sees any byte read
// beyond its end.
Headers Parse(const Bytes& frame) {
  const auto exact = std::make_unique<std::uint8_t[]>(frame.size());
  std::ranges::copy(frame, exact.get());
  const Headers headers = ParseHeaders(exact.get(), static_cast<std::uint32_t>(frame.size()));
  headers.SourcePort(exact.get());
  headers.DestinationPort(exact.get());
  return headers;
}

void Append16(Bytes& frame, unsigned value) {
  frame.push_back(static_cast<std::uint8_t>(value >> 8));
  frame.push_back(static_cast<std::uint8_t>(value));
}

Bytes Ethernet(unsigned type, std::initializer_list<unsigned> tags = {}) {
  Bytes frame(12, 0x02);
  for (const unsigned tag : tags) {
    Append16(frame, tag);
    Append16(frame, 100);
  }
  Append16(frame, type);
  return frame;
}

struct Ipv4Fields {
  std::uint8_t protocol = kUdp;
  unsigned words = 5;     // IHL
  unsigned fragment = 0;  // flags and offset
  unsigned payload = 8;   // bytes, by the total length
};

void AppendIpv4(Bytes& frame, const Ipv4Fields& fields) {
  const std::size_t at = frame.size();
  frame.resize(at + fields.words * 4);
  frame[at] = static_cast<std::uint8_t>(0x40 | fields.words);
  StoreBe16(&frame[at + 2], static_cast<std::uint16_t>(fields.words * 4 + fields.payload));
  StoreBe16(&frame[at + 6], static_cast<std::uint16_t>(fields.fragment));
  frame[at + 9] = fields.protocol;
}

void AppendPorts(Bytes& frame) {
  Append16(frame, 1111);
  Append16(frame, 2222);
  Append16(frame, 8);
  Append16(frame, 0);
}

Bytes Ipv4Packet(const Ipv4Fields& fields, std::initializer_list<unsigned> tags = {}) {
  Bytes frame = Ethernet(kEtherIpv4, tags);
  AppendIpv4(frame, fields);
  AppendPorts(frame);
  return frame;
}

TEST(Headers, FindsPortsBehindTagsAndOptions) {
  for (const unsigned words : {5u, 6u, 15u}) {
    for (const std::initializer_list<unsigned>& tags :
         {std::initializer_list<unsigned>{}, {kEtherVlan}, {kEtherQinQ, kEtherVlan}}) {
      const Bytes frame = Ipv4Packet({.words = words}, tags);
      const Headers headers = Parse(frame);
      ASSERT_EQ(headers.network, Network::kIpv4);
      EXPECT_EQ(headers.l3, 14 + 4 * tags.size());
      EXPECT_EQ(headers.l4, headers.l3 + 4 * words);
      EXPECT_EQ(headers.l4_length, 8u);
      EXPECT_EQ(headers.SourcePort(frame.data()), 1111);
      EXPECT_EQ(headers.DestinationPort(frame.data()), 2222);
    }
  }
}

TEST(Headers, GivesUpAfterTwoTags) {
  const Bytes frame = Ipv4Packet({}, {kEtherVlan, kEtherVlan, kEtherVlan});
  EXPECT_EQ(Parse(frame).network, Network::kOther);
}

TEST(Headers, KnowsMalformedIpv4) {
  Bytes wrong_version = Ipv4Packet({});
  wrong_version[14] = 0x65;
  EXPECT_EQ(Parse(wrong_version).network, Network::kMalformed);
  Bytes short_header = Ipv4Packet({});
  short_header[14] = 0x44;
  EXPECT_EQ(Parse(short_header).network, Network::kMalformed);
  Bytes short_total = Ipv4Packet({});
  StoreBe16(&short_total[16], 19);
  EXPECT_EQ(Parse(short_total).network, Network::kMalformed);
}

TEST(Headers, LaterFragmentsHaveNoPorts) {
  const Bytes frame = Ipv4Packet({.fragment = 5});
  const Headers headers = Parse(frame);
  EXPECT_TRUE(headers.later_fragment);
  EXPECT_EQ(headers.l4_length, 0u);
  EXPECT_EQ(headers.SourcePort(frame.data()), 0);
}

TEST(Headers, FirstFragmentsHavePorts) {
  const Bytes frame = Ipv4Packet({.fragment = 0x2000});
  const Headers headers = Parse(frame);
  EXPECT_TRUE(headers.fragment);
  EXPECT_FALSE(headers.later_fragment);
  EXPECT_EQ(headers.DestinationPort(frame.data()), 2222);
}

TEST(Headers, DontFragmentIsNoFragment) {
  EXPECT_FALSE(Parse(Ipv4Packet({.fragment = 0x4000})).fragment);
}

TEST(Headers, PaddingIsNoTransportHeader) {
  const Bytes frame = Ipv4Packet({.payload = 3});  // eight bytes follow, five of them padding
  const Headers headers = Parse(frame);
  EXPECT_EQ(headers.l4_length, 3u);
  EXPECT_EQ(headers.SourcePort(frame.data()), 0);
}

TEST(Headers, OnlyProtocolsWithPortsHaveThem) {
  const Bytes frame = Ipv4Packet({.protocol = kIcmp});
  EXPECT_EQ(Parse(frame).SourcePort(frame.data()), 0);
}

void AppendIpv6(Bytes& frame, std::uint8_t next, unsigned payload) {
  const std::size_t at = frame.size();
  frame.resize(at + kIpv6Header);
  frame[at] = 0x60;
  StoreBe16(&frame[at + 4], static_cast<std::uint16_t>(payload));
  frame[at + 6] = next;
}

TEST(Headers, WalksIpv6Extensions) {
  Bytes frame = Ethernet(kEtherIpv6);
  AppendIpv6(frame, 0, 8 + 16 + 8 + 12 + 8);
  frame.insert(frame.end(), {43, 0, 0, 0, 0, 0, 0, 0});                          // hop by hop
  frame.insert(frame.end(), {44, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0});  // routing
  frame.insert(frame.end(), {51, 0, 0, 1, 0, 0, 0, 7});                // fragment, the first
  frame.insert(frame.end(), {kUdp, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0});  // authentication
  AppendPorts(frame);
  const Headers headers = Parse(frame);
  EXPECT_EQ(headers.network, Network::kIpv6);
  EXPECT_EQ(headers.protocol, kUdp);
  EXPECT_TRUE(headers.fragment);
  EXPECT_FALSE(headers.later_fragment);
  EXPECT_EQ(headers.SourcePort(frame.data()), 1111);
  EXPECT_EQ(headers.DestinationPort(frame.data()), 2222);
}

TEST(Headers, EndlessIpv6ChainEnds) {
  Bytes frame = Ethernet(kEtherIpv6);
  AppendIpv6(frame, 60, 8 * 200);
  for (int i = 0; i < 200; ++i) frame.insert(frame.end(), {60, 0, 0, 0, 0, 0, 0, 0});
  const Headers headers = Parse(frame);
  EXPECT_EQ(headers.network, Network::kIpv6);
  EXPECT_EQ(headers.l4_length, 0u);
}

TEST(Headers, EveryTruncationIsSafeAndMonotonous) {
  Bytes ipv6 = Ethernet(kEtherIpv6, {kEtherVlan});
  AppendIpv6(ipv6, 44, 16);
  ipv6.insert(ipv6.end(), {kTcp, 0, 0, 1, 0, 0, 0, 7});
  AppendPorts(ipv6);
  for (const Bytes& whole : {Ipv4Packet({.words = 7}, {kEtherQinQ, kEtherVlan}), ipv6}) {
    for (std::size_t length = 0; length <= whole.size(); ++length) {
      const Bytes cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length));
      const Headers headers = Parse(cut);
      ASSERT_LE(headers.l4 + headers.l4_length, length) << length;
    }
  }
}

TEST(Headers, NoiseIsSafe) {
  std::mt19937 random(3);
  constexpr std::uint16_t kTypes[] = {kEtherIpv4, kEtherIpv6, kEtherVlan, kEtherQinQ};
  for (int i = 0; i < 200'000; ++i) {
    Bytes frame(random() % 120);
    for (std::uint8_t& byte : frame) byte = static_cast<std::uint8_t>(random());
    if (frame.size() > 14) {
      StoreBe16(&frame[12], kTypes[random() % 4]);
      frame[14] = static_cast<std::uint8_t>(random() % 2 != 0 ? 0x45 : 0x60);
    }
    if (frame.size() > 20 && random() % 2 != 0) frame[20] = 44;
    const Headers headers = Parse(frame);
    ASSERT_LE(headers.l4 + headers.l4_length, frame.size());
  }
}

}  // namespace
}  // namespace unis::functions
