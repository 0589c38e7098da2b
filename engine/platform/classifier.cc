#include "engine/platform/classifier.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <rte_ip.h>
#include <rte_jhash.h>
#include <rte_net.h>
#include <rte_tcp.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <limits>
#include <string>

#include "engine/platform/packet_memory.h"

namespace unis {
namespace {

// What rte_acl looks at, in network byte order. It reads the first field alone, then words.
struct FlowKey {
  std::uint8_t protocol;
  std::uint8_t pad[3];
  rte_be32_t src, dst;
  rte_be16_t src_port, dst_port;
};

enum Field : std::uint8_t { kProtocol, kSrc, kDst, kSrcPort, kDstPort, kFields };
RTE_ACL_RULE_DEF(AclRule, kFields);

constexpr rte_acl_field_def Define(std::uint8_t type, std::uint8_t size, Field field,
                                   std::uint8_t input, std::size_t offset) {
  return {.type = type,
          .size = size,
          .field_index = field,
          .input_index = input,
          .offset = static_cast<std::uint32_t>(offset)};
}

constexpr std::array<rte_acl_field_def, kFields> kDefinitions = {
    Define(RTE_ACL_FIELD_TYPE_BITMASK, 1, kProtocol, 0, offsetof(FlowKey, protocol)),
    Define(RTE_ACL_FIELD_TYPE_MASK, 4, kSrc, 1, offsetof(FlowKey, src)),
    Define(RTE_ACL_FIELD_TYPE_MASK, 4, kDst, 2, offsetof(FlowKey, dst)),
    Define(RTE_ACL_FIELD_TYPE_RANGE, 2, kSrcPort, 3, offsetof(FlowKey, src_port)),
    Define(RTE_ACL_FIELD_TYPE_RANGE, 2, kDstPort, 3, offsetof(FlowKey, dst_port)),
};

void SetPorts(rte_acl_field& field, const std::optional<std::uint16_t>& port) {
  field.value.u16 = port.value_or(0);
  field.mask_range.u16 = port.value_or(std::numeric_limits<std::uint16_t>::max());
}

AclRule MakeRule(const FlowMatch& match, std::uint32_t chain, std::int32_t priority) {
  AclRule rule{};
  rule.data = {.category_mask = 1, .priority = priority, .userdata = chain + 1};  // 0: no match
  rule.field[kProtocol].value.u8 = match.protocol.value_or(0);
  rule.field[kProtocol].mask_range.u8 = match.protocol ? 0xff : 0;
  const auto set_prefix = [&rule](Field field, const std::optional<Prefix>& prefix) {
    rule.field[field].value.u32 = prefix ? prefix->address : 0;
    rule.field[field].mask_range.u32 = prefix ? prefix->length : 0;
  };
  set_prefix(kSrc, match.src);
  set_prefix(kDst, match.dst);
  SetPorts(rule.field[kSrcPort], match.src_port);
  SetPorts(rule.field[kDstPort], match.dst_port);
  return rule;
}

// False for what is not IPv4. Ports are 0 where a packet has none: fragments, ICMP.
bool ReadKey(const rte_mbuf* packet, FlowKey& key) noexcept {
  rte_net_hdr_lens lengths{};
  const std::uint32_t type = rte_net_get_ptype(
      packet, &lengths, RTE_PTYPE_L2_MASK | RTE_PTYPE_L3_MASK | RTE_PTYPE_L4_MASK);
  if (!RTE_ETH_IS_IPV4_HDR(type)) return false;
  const auto* ip = rte_pktmbuf_mtod_offset(packet, const rte_ipv4_hdr*, lengths.l2_len);
  key = {.protocol = ip->next_proto_id,
         .pad = {},
         .src = ip->src_addr,
         .dst = ip->dst_addr,
         .src_port = 0,
         .dst_port = 0};
  const std::uint32_t l4 = type & RTE_PTYPE_L4_MASK;
  const bool has_ports =
      l4 == RTE_PTYPE_L4_TCP || l4 == RTE_PTYPE_L4_UDP || l4 == RTE_PTYPE_L4_SCTP;
  const std::uint32_t offset = lengths.l2_len + lengths.l3_len;
  if (has_ports && offset + 4 <= rte_pktmbuf_data_len(packet)) {
    const auto* ports = rte_pktmbuf_mtod_offset(packet, const rte_be16_t*, offset);
    key.src_port = ports[0];
    key.dst_port = ports[1];
  }
  return true;
}

}  // namespace

absl::StatusOr<Classifier> Classifier::Create(const std::vector<std::vector<FlowMatch>>& chains) {
  Classifier classifier;
  const auto open =
      std::find_if(chains.begin(), chains.end(), [](const auto& m) { return m.empty(); });
  if (open != chains.end())
    classifier.catch_all_ = static_cast<std::int32_t>(open - chains.begin());
  std::vector<AclRule> rules;
  for (auto chain = chains.begin(); chain != open; ++chain) {
    for (const FlowMatch& match : *chain) {
      rules.push_back(MakeRule(match, static_cast<std::uint32_t>(chain - chains.begin()),
                               RTE_ACL_MAX_PRIORITY - static_cast<std::int32_t>(rules.size())));
    }
  }
  if (rules.empty()) return classifier;
  // Of two tables with one name rte_acl makes one.
  static std::atomic<unsigned> made{0};
  const std::string name = fmt::format("unis_classifier_{}", made++);
  const rte_acl_param param{.name = name.c_str(),
                            .socket_id = SOCKET_ID_ANY,
                            .rule_size = sizeof(AclRule),
                            .max_rule_num = static_cast<std::uint32_t>(rules.size())};
  classifier.acl_.reset(rte_acl_create(&param));
  rte_acl_config config{};
  config.num_categories = 1;
  config.num_fields = kFields;
  std::copy(kDefinitions.begin(), kDefinitions.end(), config.defs);
  if (!classifier.acl_ ||
      rte_acl_add_rules(classifier.acl_.get(), reinterpret_cast<const rte_acl_rule*>(rules.data()),
                        static_cast<std::uint32_t>(rules.size())) != 0 ||
      rte_acl_build(classifier.acl_.get(), &config) != 0) {
    return absl::InternalError(
        fmt::format("cannot build a flow classifier of {} rules", rules.size()));
  }
  return classifier;
}

void Classifier::Classify(std::span<rte_mbuf* const> packets,
                          std::span<std::int32_t> chains) const noexcept {
  std::fill_n(chains.begin(), packets.size(), catch_all_);
  if (!acl_) return;
  std::array<FlowKey, kBurst> keys;
  std::array<const std::uint8_t*, kBurst> inputs;
  std::array<std::uint32_t, kBurst> results;
  std::array<std::uint32_t, kBurst> index;
  std::uint32_t count = 0;
  for (std::uint32_t i = 0; i < packets.size(); ++i) {
    if (!ReadKey(packets[i], keys[count])) continue;
    inputs[count] = reinterpret_cast<const std::uint8_t*>(&keys[count]);
    index[count++] = i;
  }
  rte_acl_classify(acl_.get(), inputs.data(), results.data(), count, 1);
  for (std::uint32_t i = 0; i < count; ++i) {
    if (results[i] != 0) chains[index[i]] = static_cast<std::int32_t>(results[i]) - 1;
  }
}

std::uint64_t FlowHash(const rte_mbuf* packet) noexcept {
  constexpr std::uint32_t kSeed = 0;
  FlowKey key{};
  if (ReadKey(packet, key)) return rte_jhash(&key, sizeof(key), kSeed);
  rte_net_hdr_lens lengths{};
  const std::uint32_t type =
      rte_net_get_ptype(packet, &lengths, RTE_PTYPE_L2_MASK | RTE_PTYPE_L3_MASK);
  if (!RTE_ETH_IS_IPV6_HDR(type)) return 0;
  const auto* ip = rte_pktmbuf_mtod_offset(packet, const rte_ipv6_hdr*, lengths.l2_len);
  return rte_jhash(ip->src_addr, sizeof(ip->src_addr) + sizeof(ip->dst_addr), kSeed);
}

}  // namespace unis
