#include "functions/firewall.h"

#include <fmt/format.h>
#include <rte_errno.h>
#include <rte_memory.h>

#include <algorithm>
#include <cstddef>

#include "functions/common/headers.h"
#include "functions/common/ports.h"
#include "functions/common/report.h"

namespace unis::functions {
namespace {

// rte_acl reads one byte first and then groups of four; all in network byte order.
struct AclKey {
  std::uint8_t protocol;
  std::uint8_t unused[3];
  std::uint8_t source[4];
  std::uint8_t destination[4];
  std::uint8_t source_port[2];
  std::uint8_t destination_port[2];
};
static_assert(sizeof(AclKey) == 16);

enum AclField { kProtocol, kSource, kDestination, kSourcePort, kDestinationPort, kAclFields };

RTE_ACL_RULE_DEF(AclRule, kAclFields);

rte_acl_field_def Field(AclField field, std::uint8_t type, std::uint8_t size, std::uint8_t group,
                        std::size_t offset) {
  rte_acl_field_def definition = {};
  definition.type = type;
  definition.size = size;
  definition.field_index = static_cast<std::uint8_t>(field);
  definition.input_index = group;
  definition.offset = static_cast<std::uint32_t>(offset);
  return definition;
}

rte_acl_config AclConfig() {
  rte_acl_config config = {};
  config.num_categories = 1;
  config.num_fields = kAclFields;
  config.defs[0] = Field(kProtocol, RTE_ACL_FIELD_TYPE_BITMASK, 1, 0, offsetof(AclKey, protocol));
  config.defs[1] = Field(kSource, RTE_ACL_FIELD_TYPE_MASK, 4, 1, offsetof(AclKey, source));
  config.defs[2] =
      Field(kDestination, RTE_ACL_FIELD_TYPE_MASK, 4, 2, offsetof(AclKey, destination));
  config.defs[3] =
      Field(kSourcePort, RTE_ACL_FIELD_TYPE_RANGE, 2, 3, offsetof(AclKey, source_port));
  config.defs[4] =
      Field(kDestinationPort, RTE_ACL_FIELD_TYPE_RANGE, 2, 3, offsetof(AclKey, destination_port));
  return config;
}

AclRule ToAcl(const FirewallRule& rule, std::uint32_t verdict, std::int32_t priority) {
  AclRule acl = {};
  acl.data.userdata = verdict;
  acl.data.category_mask = 1;
  acl.data.priority = priority;
  acl.field[kProtocol].value.u8 = rule.protocol.value_or(0);
  acl.field[kProtocol].mask_range.u8 = rule.protocol ? 0xff : 0;
  acl.field[kSource].value.u32 = rule.source.address;
  acl.field[kSource].mask_range.u32 = rule.source.length;
  acl.field[kDestination].value.u32 = rule.destination.address;
  acl.field[kDestination].mask_range.u32 = rule.destination.length;
  acl.field[kSourcePort].value.u16 = rule.source_port.first;
  acl.field[kSourcePort].mask_range.u16 = rule.source_port.last;
  acl.field[kDestinationPort].value.u16 = rule.destination_port.first;
  acl.field[kDestinationPort].mask_range.u16 = rule.destination_port.last;
  return acl;
}

AclKey KeyOf(const std::uint8_t* frame, const Headers& headers) {
  AclKey key = {};
  key.protocol = headers.protocol;
  std::memcpy(key.source, frame + headers.l3 + 12, 4);
  std::memcpy(key.destination, frame + headers.l3 + 16, 4);
  StoreBe16(key.source_port, headers.SourcePort(frame));
  StoreBe16(key.destination_port, headers.DestinationPort(frame));
  return key;
}

}  // namespace

void Firewall::AddOptions(OptionTable& table, Settings& settings) {
  table.AddFile("--rules",
                "the rules, one a line: allow|deny SRC DST SPORT DPORT PROTO. SRC and DST are\n"
                "A.B.C.D[/LENGTH], SPORT and DPORT a port or FROM-TO, PROTO a number or a name;\n"
                "* matches everything, # starts a comment. Required.",
                settings.rules_file);
  table.Add("--default", "allow|deny", "what to do where no rule decides. Default: allow.",
            [&settings](std::string_view value) {
              const auto action = ParseAction(value);
              if (!action) return Failure(action.error());
              settings.otherwise = *action;
              return Failure();
            });
}

Failure Firewall::Check(Settings& settings) {
  if (settings.rules_file.empty()) return Error{"--rules FILE is missing"};
  auto rules = ReadRules(settings.rules_file);
  if (!rules) return rules.error();
  if (rules->size() > RTE_ACL_MAX_PRIORITY - RTE_ACL_MIN_PRIORITY) {
    return Error{fmt::format("{} has {} rules; rte_acl takes at most {}",
                             settings.rules_file.string(), rules->size(),
                             RTE_ACL_MAX_PRIORITY - RTE_ACL_MIN_PRIORITY)};
  }
  settings.rules = std::move(*rules);
  return std::nullopt;
}

Failure Firewall::Compile(const std::vector<FirewallRule>& rules, rte_acl_ctx* context) {
  std::vector<AclRule> acl;
  acl.reserve(rules.size());
  for (const FirewallRule& rule : rules) {
    const auto priority = RTE_ACL_MAX_PRIORITY - static_cast<std::int32_t>(acl.size());
    acl.push_back(ToAcl(rule, rule.action == Action::kAllow ? kAllowed : kDenied, priority));
  }
  const rte_acl_config config = AclConfig();
  int status = rte_acl_add_rules(context, reinterpret_cast<const rte_acl_rule*>(acl.data()),
                                 static_cast<std::uint32_t>(acl.size()));
  if (status == 0) status = rte_acl_build(context, &config);
  if (status == 0) return std::nullopt;
  return Error{fmt::format("rte_acl cannot compile {} rules: {}; give EAL more memory with -m MB",
                           rules.size(), rte_strerror(-status))};
}

Result<Firewall> Firewall::Create(Settings settings) {
  if (settings.rules.empty()) return Firewall(nullptr, settings.otherwise);
  const std::string name = NameOfLcore("firewall");
  rte_acl_free(rte_acl_find_existing(name.c_str()));
  rte_acl_param parameters = {};
  parameters.name = name.c_str();
  parameters.socket_id = SOCKET_ID_ANY;
  parameters.rule_size = RTE_ACL_RULE_SZ(kAclFields);
  parameters.max_rule_num = static_cast<std::uint32_t>(settings.rules.size());
  Context context(rte_acl_create(&parameters));
  if (context == nullptr) {
    return Error{fmt::format("no memory for {} rules: {}; give EAL more with -m MB",
                             settings.rules.size(), rte_strerror(rte_errno))};
  }
  if (const Failure failure = Compile(settings.rules, context.get())) return *failure;
  return Firewall(std::move(context), settings.otherwise);
}

Firewall::Firewall(Context context, Action otherwise) : context_(std::move(context)) {
  std::ranges::fill(passes_, otherwise == Action::kAllow);
  passes_[kAllowed] = true;
  passes_[kDenied] = false;
}

void Firewall::Classify(rte_mbuf* const* packets, std::uint16_t count,
                        std::uint32_t* verdicts) const {
  AclKey keys[kBurst];
  const std::uint8_t* key_at[kBurst];
  std::uint16_t packet_of[kBurst];
  std::uint32_t found[kBurst] = {};
  std::uint16_t asked = 0;
  for (std::uint16_t i = 0; i < count; ++i) {
    const Headers headers = ParseHeaders(packets[i]);
    verdicts[i] = kNotIpv4;
    if (headers.network != Network::kIpv4) continue;
    keys[asked] = KeyOf(Frame(packets[i]), headers);
    key_at[asked] = reinterpret_cast<const std::uint8_t*>(&keys[asked]);
    packet_of[asked++] = i;
  }
  if (context_ != nullptr && asked > 0) {
    rte_acl_classify(context_.get(), key_at, found, asked, 1);
  }
  for (std::uint16_t i = 0; i < asked; ++i) verdicts[packet_of[i]] = found[i];
}

std::uint16_t Firewall::Process(rte_mbuf** packets, std::uint16_t count, Drops& drops) {
  std::uint32_t verdicts[kBurst];
  PrefetchHeaders(packets, count);
  Classify(packets, count, verdicts);
  std::uint16_t kept = 0;
  for (std::uint16_t i = 0; i < count; ++i) {
    ++packets_[verdicts[i]];
    if (passes_[verdicts[i]]) {
      packets[kept++] = packets[i];
    } else {
      drops.Add(packets[i]);
    }
  }
  return kept;
}

void Firewall::Report(std::FILE* out) const {
  PrintCounter(out, "allowed_by_rule", packets_[kAllowed]);
  PrintCounter(out, "denied_by_rule", packets_[kDenied]);
  PrintCounter(out, "no_rule_matched", packets_[kNoRule]);
  PrintCounter(out, "not_ipv4", packets_[kNotIpv4]);
}

}  // namespace unis::functions
