// The one place that reads packet headers. It finds where the network and transport headers are and
// never looks beyond the bytes it was given: captures with a short snap length, frames cut by a NIC
// and lies in length fields end here.
#pragma once

#include <rte_mbuf.h>

#include <cstdint>

#include "functions/common/bytes.h"

namespace unis::functions {

inline constexpr std::uint16_t kEtherIpv4 = 0x0800;
inline constexpr std::uint16_t kEtherIpv6 = 0x86dd;
inline constexpr std::uint16_t kEtherVlan = 0x8100;  // IEEE 802.1Q
inline constexpr std::uint16_t kEtherQinQ = 0x88a8;  // IEEE 802.1ad
inline constexpr std::uint32_t kEtherHeader = 14;    // bytes, as are the others
inline constexpr std::uint32_t kVlanTag = 4;
inline constexpr std::uint32_t kIpv4MinHeader = 20;
inline constexpr std::uint32_t kIpv4LengthAt = 2, kIpv4FragmentAt = 6, kIpv4TtlAt = 8,
                               kIpv4ProtocolAt = 9, kIpv4ChecksumAt = 10, kIpv4SourceAt = 12,
                               kIpv4DestinationAt = 16;
inline constexpr std::uint32_t kIpv6Header = 40;
inline constexpr int kMaxVlanTags = 2;
inline constexpr int kMaxIpv6Extensions = 8;  // a chain of any length would let a packet stall us

inline constexpr std::uint8_t kIcmp = 1, kTcp = 6, kUdp = 17, kDccp = 33, kEsp = 50, kAh = 51,
                              kIcmp6 = 58, kSctp = 132, kUdpLite = 136;

enum class Network : std::uint8_t {
  kOther,      // neither IPv4 nor IPv6
  kMalformed,  // says it is IP, but its header is cut off or contradicts itself
  kIpv4,
  kIpv6,
};

struct Headers {
  Network network = Network::kOther;
  std::uint8_t protocol = 0;    // of the transport header, behind IPv6 extensions
  bool fragment = false;        // any fragment, also the first
  bool later_fragment = false;  // not the first: there is no transport header
  std::uint16_t l3 = 0;         // offset of the IP header from the start of the frame, bytes
  std::uint16_t l4 = 0;  // offset of what follows the IP header and its options or extensions
  // Bytes there that may be read: no padding behind the IP packet, none if it is a later fragment.
  std::uint32_t l4_length = 0;

  // Port numbers of protocols that start with them; 0 where there are none.
  std::uint16_t SourcePort(const std::uint8_t* frame) const {
    return HasPorts() ? LoadBe16(frame + l4) : std::uint16_t{0};
  }
  std::uint16_t DestinationPort(const std::uint8_t* frame) const {
    return HasPorts() ? LoadBe16(frame + l4 + 2) : std::uint16_t{0};
  }

 private:
  bool HasPorts() const {
    return l4_length >= 4 && (protocol == kTcp || protocol == kUdp || protocol == kSctp ||
                              protocol == kDccp || protocol == kUdpLite);
  }
};

inline void ParseIpv4(const std::uint8_t* frame, std::uint32_t length, Headers& headers) {
  headers.network = Network::kMalformed;
  const std::uint32_t l3 = headers.l3;
  if (length < l3 + kIpv4MinHeader) return;
  const std::uint32_t header = (frame[l3] & 0xfu) * 4;
  const std::uint32_t total = LoadBe16(frame + l3 + kIpv4LengthAt);
  if (frame[l3] >> 4 != 4 || header < kIpv4MinHeader || total < header || length < l3 + header) {
    return;
  }
  headers.network = Network::kIpv4;
  headers.protocol = frame[l3 + kIpv4ProtocolAt];
  const std::uint16_t fragment = LoadBe16(frame + l3 + kIpv4FragmentAt);
  headers.fragment = (fragment & 0x3fff) != 0;  // more fragments, or an offset
  headers.later_fragment = (fragment & 0x1fff) != 0;
  headers.l4 = static_cast<std::uint16_t>(l3 + header);
  if (!headers.later_fragment) {
    const std::uint32_t end = l3 + total < length ? l3 + total : length;
    headers.l4_length = end - headers.l4;
  }
}

// Not in line: IPv6 extension chains are rare and would bloat the loops around it.
void ParseIpv6(const std::uint8_t* frame, std::uint32_t length, Headers& headers);

inline Headers ParseHeaders(const std::uint8_t* frame, std::uint32_t length) {
  Headers headers;
  if (length < kEtherHeader) return headers;
  std::uint32_t type_at = kEtherHeader - 2;
  std::uint16_t type = LoadBe16(frame + type_at);
  for (int tags = 0; type == kEtherVlan || type == kEtherQinQ; ++tags) {
    type_at += kVlanTag;
    if (tags == kMaxVlanTags || length < type_at + 2) return headers;
    type = LoadBe16(frame + type_at);
  }
  headers.l3 = static_cast<std::uint16_t>(type_at + 2);
  if (type == kEtherIpv4) {
    ParseIpv4(frame, length, headers);
  } else if (type == kEtherIpv6) {
    ParseIpv6(frame, length, headers);
  }
  return headers;
}

// Headers that do not fit into the first segment count as cut off: drivers put at least the first
// 128 bytes there.
inline Headers ParseHeaders(const rte_mbuf* packet) {
  return ParseHeaders(rte_pktmbuf_mtod(packet, const std::uint8_t*), packet->data_len);
}

// Bytes of an IPv4 packet, as its header says.
inline std::uint32_t Ipv4Length(const std::uint8_t* frame, const Headers& headers) {
  return LoadBe16(frame + headers.l3 + kIpv4LengthAt);
}

// The frame ends before the IPv4 packet in it: what is cut off cannot be put back.
inline bool IsCut(const rte_mbuf* packet, const Headers& headers) {
  const std::uint8_t* const frame = rte_pktmbuf_mtod(packet, const std::uint8_t*);
  return headers.l3 + Ipv4Length(frame, headers) > packet->pkt_len;
}

inline std::uint8_t* Frame(rte_mbuf* packet) { return rte_pktmbuf_mtod(packet, std::uint8_t*); }

}  // namespace unis::functions
