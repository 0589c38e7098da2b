#include "engine/platform/frames.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <pcap/pcap.h>
#include <rte_ether.h>
#include <rte_ip.h>
#include <rte_mbuf_core.h>
#include <rte_udp.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <memory>
#include <random>

#include "engine/platform/payload_stamp.h"

namespace unis {
namespace {

// Enough of a frame for every header; the rest of a synthetic packet is never written.
constexpr std::size_t kHeaderBytes = 60;
static_assert(PayloadStamp::kAt + sizeof(PayloadStamp) <= kHeaderBytes);
constexpr std::uint32_t kSizesInCycle = 1021;  // prime, so that flows and sizes do not walk in step

struct Headers {
  rte_ether_hdr ether;
  rte_ipv4_hdr ip;
  rte_udp_hdr udp;
} __attribute__((packed, aligned(2)));

std::uint32_t Within(const std::optional<Prefix>& prefix, std::uint32_t fallback,
                     std::uint32_t host) {
  if (!prefix) return fallback + host;
  if (prefix->length >= 32) return prefix->address;
  const std::uint32_t host_mask = std::numeric_limits<std::uint32_t>::max() >> prefix->length;
  return (prefix->address & ~host_mask) | (host & host_mask);
}

Headers MakeHeaders(const FlowMatch& match, std::uint32_t flow, std::uint32_t length) {
  Headers h{};
  h.ether.dst_addr = {{0x02, 0, 0, 0, 0, 0x02}};
  h.ether.src_addr = {{0x02, 0, 0, 0, 0, 0x01}};
  h.ether.ether_type = htons(RTE_ETHER_TYPE_IPV4);
  h.ip.version_ihl = RTE_IPV4_VHL_DEF;
  h.ip.total_length = htons(static_cast<std::uint16_t>(length - sizeof(rte_ether_hdr)));
  h.ip.time_to_live = 64;
  h.ip.next_proto_id = match.protocol.value_or(IPPROTO_UDP);
  h.ip.src_addr = htonl(Within(match.src, RTE_IPV4(10, 0, 0, 1), flow));
  h.ip.dst_addr = htonl(Within(match.dst, RTE_IPV4(192, 168, 0, 1), flow % 251));
  h.udp.src_port = htons(match.src_port.value_or(static_cast<std::uint16_t>(1024 + flow % 60000)));
  h.udp.dst_port = htons(match.dst_port.value_or(80));
  h.udp.dgram_len =
      htons(static_cast<std::uint16_t>(length - sizeof(rte_ether_hdr) - sizeof(rte_ipv4_hdr)));
  h.ip.hdr_checksum = rte_ipv4_cksum(&h.ip);
  return h;  // UDP without a checksum, as IPv4 allows: most of the payload is not written
}

std::uint32_t DrawSize(const SyntheticTraffic& traffic, std::mt19937& random) {
  if (traffic.mix == SizeMix::kFixed) return traffic.size;
  const auto shares = SharesOf(traffic.mix);
  return shares[Pick(shares, static_cast<std::uint32_t>(random() % TotalWeight(shares)))].bytes;
}

}  // namespace

void Frames::Add(std::span<const std::byte> bytes, std::uint16_t length, bool stamped) {
  frames_.push_back({.offset = bytes_.size(),
                     .stored = static_cast<std::uint16_t>(bytes.size()),
                     .length = length,
                     .stamped = stamped});
  bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  bytes_.resize(RTE_ALIGN(bytes_.size(), std::size_t{RTE_CACHE_LINE_SIZE}));
}

Frames MakeFrames(const SyntheticTraffic& traffic, const std::vector<FlowMatch>& matches) {
  std::mt19937 random(64);
  std::vector<std::uint32_t> sizes;
  const bool fixed = traffic.mix == SizeMix::kFixed;
  for (std::uint32_t i = 0; i < (fixed ? 1 : kSizesInCycle); ++i)
    sizes.push_back(DrawSize(traffic, random));
  const std::uint32_t count = fixed ? traffic.flows : std::max(traffic.flows, 4 * kSizesInCycle);
  Frames frames;
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint32_t length = sizes[i % sizes.size()] - kFcs;
    const std::uint32_t flow = i % traffic.flows, of = std::max<std::uint32_t>(1, matches.size());
    const FlowMatch match = matches.empty() ? FlowMatch{} : matches[flow % of];
    const Headers headers = MakeHeaders(match, flow / of, length);
    std::array<std::byte, kHeaderBytes> bytes{};
    std::memcpy(bytes.data(), &headers, sizeof(headers));
    const bool stamped = headers.ip.next_proto_id == IPPROTO_UDP;  // others have headers there
    const PayloadStamp stamp;
    if (stamped) std::memcpy(bytes.data() + PayloadStamp::kAt, &stamp, sizeof(stamp));
    frames.Add(bytes, static_cast<std::uint16_t>(length), stamped);
  }
  return frames;
}

absl::StatusOr<Frames> ReadCapture(const std::filesystem::path& file, std::size_t* too_long) {
  std::array<char, PCAP_ERRBUF_SIZE> error{};
  const std::unique_ptr<pcap_t, decltype(&pcap_close)> capture(
      pcap_open_offline(file.c_str(), error.data()), &pcap_close);
  if (!capture) {
    return absl::InvalidArgumentError(
        fmt::format("cannot read capture {}: {}", file.string(), error.data()));
  }
  if (const int link = pcap_datalink(capture.get()); link != DLT_EN10MB) {
    const char* name = pcap_datalink_val_to_name(link);
    return absl::InvalidArgumentError(
        fmt::format("capture {} is not of Ethernet frames (link type {}{}{}); convert it first",
                    file.string(), link, name == nullptr ? "" : " ", name == nullptr ? "" : name));
  }
  constexpr std::size_t kRoom = RTE_MBUF_DEFAULT_DATAROOM;
  Frames frames;
  std::size_t left_out = 0;
  pcap_pkthdr* header = nullptr;
  const u_char* data = nullptr;
  int result = 0;
  while ((result = pcap_next_ex(capture.get(), &header, &data)) == 1) {
    if (header->caplen > kRoom || header->caplen < sizeof(rte_ether_hdr)) {
      ++left_out;
      continue;
    }
    frames.Add(std::as_bytes(std::span(data, header->caplen)),
               static_cast<std::uint16_t>(header->caplen));
  }
  if (result == PCAP_ERROR) {
    return absl::InvalidArgumentError(
        fmt::format("capture {} is damaged: {}", file.string(), pcap_geterr(capture.get())));
  }
  if (frames.size() == 0) {
    return absl::InvalidArgumentError(
        fmt::format("capture {} holds no frame that fits {} bytes", file.string(), kRoom));
  }
  if (too_long != nullptr) *too_long = left_out;
  return frames;
}

}  // namespace unis
