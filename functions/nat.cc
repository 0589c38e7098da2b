#include "functions/nat.h"

#include <fmt/format.h>
#include <rte_cycles.h>

#include <algorithm>

#include "functions/common/checksum.h"
#include "functions/common/report.h"

namespace unis::functions {
namespace {

constexpr std::uint32_t kTcpHeader = 20, kUdpHeader = 8, kIcmpHeader = 8;  // bytes, at least
constexpr std::uint32_t kTcpChecksumAt = 16, kUdpChecksumAt = 6, kIcmpChecksumAt = 2;
constexpr std::uint32_t kIcmpIdentifierAt = 4;
constexpr std::uint8_t kEchoReply = 0, kEchoRequest = 8;

std::uint16_t IcmpIdentifier(const std::uint8_t* frame, const Headers& headers) {
  return LoadBe16(frame + headers.l4 + kIcmpIdentifierAt);
}

// An echo request has one number only; it takes the place of the source port.
Ipv4FlowKey OutboundKey(const std::uint8_t* frame, const Headers& headers) {
  const bool echo = headers.protocol == kIcmp;
  return {LoadBe32(frame + headers.l3 + kIpv4SourceAt),
          LoadBe32(frame + headers.l3 + kIpv4DestinationAt),
          echo ? IcmpIdentifier(frame, headers) : headers.SourcePort(frame),
          echo ? std::uint16_t{0} : headers.DestinationPort(frame), headers.protocol};
}

void StoreAndNote32(std::uint8_t* at, std::uint32_t value, ChecksumChange& change) {
  change.Replace32(LoadBe32(at), value);
  StoreBe32(at, value);
}

void StoreAndNote16(std::uint8_t* at, std::uint16_t value, ChecksumChange& change) {
  change.Replace16(LoadBe16(at), value);
  StoreBe16(at, value);
}

// Writes one end of a flow: the address at `address_at` of the IP header, and its port, at
// `port_at` of the TCP or UDP header, or the identifier of an ICMP echo.
void WriteEnd(std::uint8_t* frame, const Headers& headers, std::uint32_t address_at,
              std::uint32_t port_at, std::uint32_t address, std::uint16_t port) {
  std::uint8_t* const ip = frame + headers.l3;
  std::uint8_t* const l4 = frame + headers.l4;
  ChecksumChange change;
  StoreAndNote32(ip + address_at, address, change);
  StoreBe16(ip + kIpv4ChecksumAt, change.Apply(LoadBe16(ip + kIpv4ChecksumAt)));
  if (headers.protocol == kIcmp) {  // its checksum has no pseudo-header: addresses do not count
    ChecksumChange identifier;
    StoreAndNote16(l4 + kIcmpIdentifierAt, port, identifier);
    StoreBe16(l4 + kIcmpChecksumAt, identifier.Apply(LoadBe16(l4 + kIcmpChecksumAt)));
    return;
  }
  StoreAndNote16(l4 + port_at, port, change);
  if (headers.protocol == kTcp) {
    StoreBe16(l4 + kTcpChecksumAt, change.Apply(LoadBe16(l4 + kTcpChecksumAt)));
  } else {
    StoreBe16(l4 + kUdpChecksumAt, change.ApplyUdp(LoadBe16(l4 + kUdpChecksumAt)));
  }
}

}  // namespace

void Nat::AddOptions(OptionTable& table, Settings& settings) {
  table.Add("--public", "IP", "the public address. Required.", [&settings](std::string_view value) {
    const auto address = ParseIpv4(value, "value of --public");
    if (!address) return Failure(address.error());
    settings.public_address = *address;
    return Failure();
  });
  table.Add("--inside", "PREFIX,...",
            "addresses that are inside. Default: 10.0.0.0/8,172.16.0.0/12,192.168.0.0/16.",
            [&settings](std::string_view value) {
              settings.inside.clear();
              for (const std::string_view word : Split(value, ',')) {
                const auto prefix = ParseIpv4Prefix(word, "value of --inside");
                if (!prefix) return Failure(prefix.error());
                settings.inside.push_back(*prefix);
              }
              return Failure();
            });
  table.AddNumber("--max-flows", "N",
                  "flows at a time; the packets of one more are dropped. Each protocol has 64512\n"
                  "public ports. Default: 65536.",
                  FlowTable<Ipv4FlowKey>::kMinCapacity, FlowTable<Ipv4FlowKey>::kMaxCapacity,
                  settings.max_flows);
  table.AddNumber("--idle-timeout", "S",
                  "a flow without packets for S seconds may be forgotten and its port be used\n"
                  "again; the state of TCP connections is not followed. Default: 300.",
                  1, 86'400, settings.idle_timeout_s);
}

Failure Nat::Check(Settings& settings) {
  if (!settings.public_address) return Error{"--public IP is missing"};
  return std::nullopt;
}

Result<Nat> Nat::Create(Settings settings) {
  auto table = NatTable::Create({settings.max_flows, settings.idle_timeout_s * rte_get_tsc_hz()});
  if (!table) return table.error();
  return Nat(std::move(settings), std::move(*table));
}

bool Nat::IsInside(std::uint32_t address) const {
  return std::ranges::any_of(inside_,
                             [address](const Ipv4Prefix& p) { return p.Contains(address); });
}

Nat::Fate Nat::Classify(const std::uint8_t* frame, const Headers& headers) const {
  if (headers.network == Network::kMalformed) return kMalformed;
  if (headers.network != Network::kIpv4) return kPass;
  const std::uint32_t source = LoadBe32(frame + headers.l3 + kIpv4SourceAt);
  const std::uint32_t destination = LoadBe32(frame + headers.l3 + kIpv4DestinationAt);
  const bool inbound = destination == public_address_;
  if (!inbound && (!IsInside(source) || IsInside(destination))) return kPass;
  if (headers.fragment) return kFragment;
  std::uint32_t needed = 0;
  switch (headers.protocol) {
    case kTcp:
      needed = kTcpHeader;
      break;
    case kUdp:
      needed = kUdpHeader;
      break;
    case kIcmp:
      needed = kIcmpHeader;
      break;
    default:
      return kUnsupported;
  }
  if (headers.l4_length < needed) return kMalformed;
  if (headers.protocol == kIcmp && frame[headers.l4] != (inbound ? kEchoReply : kEchoRequest)) {
    return kUnsupported;
  }
  return inbound ? kInbound : kOutbound;
}

Nat::Fate Nat::TranslateOutbound(std::uint8_t* frame, const Headers& headers,
                                 const NatFlow* flow) const {
  if (flow == nullptr) return kTableFull;
  WriteEnd(frame, headers, kIpv4SourceAt, 0, public_address_, flow->public_port);
  return kOutbound;
}

Nat::Fate Nat::TranslateInbound(std::uint8_t* frame, const Headers& headers) {
  const bool echo = headers.protocol == kIcmp;
  const NatFlow* const flow = table_.FindReply(
      headers.protocol, echo ? IcmpIdentifier(frame, headers) : headers.DestinationPort(frame),
      LoadBe32(frame + headers.l3 + kIpv4SourceAt),
      echo ? std::uint16_t{0} : headers.SourcePort(frame));
  if (flow == nullptr) return kNoMapping;
  WriteEnd(frame, headers, kIpv4DestinationAt, 2, flow->key.source, flow->key.source_port);
  return kInbound;
}

std::uint16_t Nat::Process(rte_mbuf** packets, std::uint16_t count, Drops& drops) {
  Headers headers[kBurst];
  Fate fates[kBurst];
  Ipv4FlowKey keys[kBurst];
  NatFlow* flows[kBurst];
  std::uint16_t outbound = 0;
  PrefetchHeaders(packets, count);
  table_.BeginBurst(rte_rdtsc());
  for (std::uint16_t i = 0; i < count; ++i) {
    const std::uint8_t* const frame = Frame(packets[i]);
    headers[i] = ParseHeaders(packets[i]);
    fates[i] = Classify(frame, headers[i]);
    if (fates[i] == kOutbound) keys[outbound++] = OutboundKey(frame, headers[i]);
  }
  table_.LookupBurst(keys, outbound, flows);
  std::uint16_t kept = 0;
  // In the order of arrival: a reply may stand behind the packet that makes its flow.
  for (std::uint16_t i = 0, next = 0; i < count; ++i) {
    std::uint8_t* const frame = Frame(packets[i]);
    Fate fate = fates[i];
    if (fate == kOutbound) {
      if (flows[next] == nullptr) flows[next] = table_.FindOrAdd(keys[next]);
      fate = TranslateOutbound(frame, headers[i], flows[next++]);
    } else if (fate == kInbound) {
      fate = TranslateInbound(frame, headers[i]);
    }
    ++packets_[fate];
    if (fate <= kPass) {
      packets[kept++] = packets[i];
    } else {
      drops.Add(packets[i]);
    }
  }
  return kept;
}

void Nat::Report(std::FILE* out) const {
  PrintCounter(out, "translated_outbound", packets_[kOutbound]);
  PrintCounter(out, "translated_inbound", packets_[kInbound]);
  PrintCounter(out, "passed", packets_[kPass]);
  PrintCounter(out, "no_mapping", packets_[kNoMapping]);
  PrintCounter(out, "table_full", packets_[kTableFull]);
  PrintCounter(out, "fragment", packets_[kFragment]);
  PrintCounter(out, "unsupported", packets_[kUnsupported]);
  PrintCounter(out, "malformed", packets_[kMalformed]);
  PrintCounter(out, "flows", table_.active());
  PrintCounter(out, "flows_expired", table_.expired());
}

}  // namespace unis::functions
