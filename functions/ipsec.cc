#include "functions/ipsec.h"

#include <fmt/format.h>
#include <rte_hash_crc.h>

#include <chrono>
#include <utility>

#include "functions/common/report.h"

namespace unis::functions {
namespace {

constexpr std::uint32_t kMostSynthetic = 1u << 20;
constexpr std::uint32_t kLeastMtu = 68;  // RFC 791

std::uint64_t NanosecondsNow() {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                        std::chrono::system_clock::now().time_since_epoch())
                                        .count());
}

std::vector<AssociationConfig> AssociationsOf(const Ipsec::Settings& settings) {
  if (settings.synthetic > 0) return SyntheticAssociations(settings.synthetic);
  std::vector<AssociationConfig> all;
  for (const PolicyLine& line : settings.policy) {
    if (const auto* one = std::get_if<AssociationConfig>(&line.action)) all.push_back(*one);
  }
  return all;
}

}  // namespace

void Ipsec::AddOptions(OptionTable& table, Settings& settings) {
  table.AddFile(
      "--policy",
      "what to do with packets to a prefix, one a line: protect PREFIX SPI FROM TO\n"
      "ALGORITHM KEY [esn], bypass PREFIX or discard PREFIX. FROM and TO are the tunnel's\n"
      "ends, ALGORITHM is aes-128-gcm or aes-256-gcm, KEY is hexadecimal with the salt of\n"
      "4 bytes at its end, esn asks for sequence numbers of 64 bits; # starts a comment.\n"
      "Required, or --synthetic.",
      settings.policy_file);
  table.AddNumber(
      "--synthetic", "N",
      "for measuring, instead of a policy: N associations, from 192.0.2.1 to\n"
      "198.51.100.1, with keys that anybody can compute. Addresses and ports choose one\n"
      "for each packet.",
      1, kMostSynthetic, settings.synthetic);
  table.Add("--default", "bypass|discard", "what to do where no prefix decides. Default: discard.",
            [&settings](std::string_view value) {
              const auto action = ParseBypassed(value);
              if (!action) return Failure(action.error());
              settings.otherwise = *action;
              return Failure();
            });
  table.AddNumber("--mtu", "BYTES",
                  "IPv4 packets that would be longer than this are dropped. Default: 65535.",
                  kLeastMtu, 65535, settings.mtu);
}

Failure Ipsec::Check(Settings& settings) {
  if (settings.synthetic > 0) {
    if (settings.policy_file.empty()) return std::nullopt;
    return Error{"--policy and --synthetic exclude each other"};
  }
  if (settings.policy_file.empty()) return Error{"--policy FILE is missing, or --synthetic N"};
  auto policy = ReadPolicy(settings.policy_file);
  if (!policy) return policy.error();
  settings.policy = std::move(*policy);
  return std::nullopt;
}

PrefixMap Ipsec::MapOf(const std::vector<PolicyLine>& policy) {
  std::vector<PrefixMap::Entry> entries;
  std::uint32_t association = 0;
  for (const PolicyLine& line : policy) {
    const auto* bypassed = std::get_if<Bypassed>(&line.action);
    entries.push_back({line.prefix, bypassed == nullptr              ? association++
                                    : *bypassed == Bypassed::kBypass ? kToBypass
                                                                     : kToDiscard});
  }
  return PrefixMap(std::move(entries));
}

Result<Ipsec> Ipsec::Create(Settings settings) {
  auto cipher = GcmCipher::Create();
  if (!cipher) return cipher.error();
  const std::uint64_t now = NanosecondsNow();
  std::vector<OutboundAssociation> associations;
  for (const AssociationConfig& config : AssociationsOf(settings)) {
    auto association = OutboundAssociation::Create(config, *cipher, now);
    if (!association) return association.error();
    associations.push_back(std::move(*association));
  }
  return Ipsec(settings, std::move(*cipher), MapOf(settings.policy), std::move(associations));
}

Ipsec::Ipsec(const Settings& settings, GcmCipher cipher, PrefixMap policy,
             std::vector<OutboundAssociation> associations)
    : cipher_(std::move(cipher)),
      policy_(std::move(policy)),
      associations_(std::move(associations)),
      synthetic_(settings.synthetic > 0),
      otherwise_(settings.otherwise),
      mtu_(settings.mtu) {}

std::uint32_t Ipsec::Lookup(const std::uint8_t* frame, const Headers& headers) const {
  const std::uint32_t destination = LoadBe32(frame + headers.l3 + kIpv4DestinationAt);
  if (!synthetic_) return policy_.Find(destination);
  std::uint32_t hash = rte_hash_crc_4byte(destination, 0);
  hash = rte_hash_crc_4byte(LoadBe32(frame + headers.l3 + kIpv4SourceAt), hash);
  hash = rte_hash_crc_4byte(
      static_cast<std::uint32_t>(headers.SourcePort(frame)) << 16 | headers.DestinationPort(frame),
      hash);
  return static_cast<std::uint32_t>(hash * associations_.size() >> 32);
}

Ipsec::Order Ipsec::Decide(rte_mbuf* packet) const {
  const std::uint8_t* const frame = Frame(packet);
  const Headers headers = ParseHeaders(packet);
  if (headers.network == Network::kMalformed) return {kMalformed};
  if (headers.network != Network::kIpv4) return {kNotIpv4};
  const std::uint32_t found = Lookup(frame, headers);
  if (found == kToDiscard) return {kDiscard};
  if (found == kToBypass) return {kBypass};
  if (found == PrefixMap::kNone) return {otherwise_ == Bypassed::kBypass ? kBypass : kDiscard};
  if (IsCut(packet, headers)) return {kMalformed};
  const std::uint32_t inner = Ipv4Length(frame, headers);
  const std::uint32_t outer =
      OutboundAssociation::kHeadBytes + inner + OutboundAssociation::TailBytes(inner);
  if (packet->nb_segs > 1 || outer > mtu_) return {kTooBig};
  rte_pktmbuf_trim(packet, static_cast<std::uint16_t>(packet->pkt_len - headers.l3 - inner));
  return {kProtect, headers.l3, found};
}

Ipsec::Fate Ipsec::Execute(rte_mbuf* packet, const Order& order) {
  if (order.fate != kProtect) return order.fate;
  using enum OutboundAssociation::Outcome;
  switch (associations_[order.association].Seal(packet, order.l3, cipher_)) {
    case kSealed:
      return Fate::kProtect;
    case kNoRoom:
      return Fate::kTooBig;
    default:
      return Fate::kExhausted;
  }
}

std::uint16_t Ipsec::Process(rte_mbuf** packets, std::uint16_t count, Drops& drops) {
  Order orders[kBurst];
  PrefetchHeaders(packets, count);
  for (std::uint16_t i = 0; i < count; ++i) {
    orders[i] = Decide(packets[i]);
    if (orders[i].fate == kProtect) associations_[orders[i].association].Prefetch();
  }
  std::uint16_t kept = 0;
  for (std::uint16_t i = 0; i < count; ++i) {
    const Fate fate = Execute(packets[i], orders[i]);
    ++packets_[fate];
    if (Passes(fate)) {
      packets[kept++] = packets[i];
    } else {
      drops.Add(packets[i]);
    }
  }
  return kept;
}

void Ipsec::Report(std::FILE* out) const {
  PrintCounter(out, "protected", packets_[kProtect]);
  PrintCounter(out, "bypassed", packets_[kBypass]);
  PrintCounter(out, "discarded", packets_[kDiscard]);
  PrintCounter(out, "not_ipv4", packets_[kNotIpv4]);
  PrintCounter(out, "malformed", packets_[kMalformed]);
  PrintCounter(out, "too_big", packets_[kTooBig]);
  PrintCounter(out, "sequence_exhausted", packets_[kExhausted]);
  PrintCounter(out, "associations", associations_.size());
}

}  // namespace unis::functions
