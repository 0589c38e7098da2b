// The firewall's rule file: one rule a line, the first one that matches decides.
//
//   allow|deny SRC DST SPORT DPORT PROTO      # * matches everything
//
// SRC, DST: A.B.C.D or A.B.C.D/LENGTH. SPORT, DPORT: a port or FROM-TO; a packet without ports has
// port 0. PROTO: a number or a name (tcp, udp, icmp, …).
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

#include "functions/common/result.h"
#include "functions/common/text.h"

namespace unis::functions {

enum class Action : std::uint8_t { kAllow, kDeny };

struct PortRange {
  std::uint16_t first = 0;
  std::uint16_t last = 65535;
  bool operator==(const PortRange&) const = default;
};

struct FirewallRule {
  Action action = Action::kAllow;
  Ipv4Prefix source;
  Ipv4Prefix destination;
  PortRange source_port;
  PortRange destination_port;
  std::optional<std::uint8_t> protocol;  // absent: any
  bool operator==(const FirewallRule&) const = default;
};

Result<Action> ParseAction(std::string_view word);
Result<FirewallRule> ParseRule(std::span<const std::string_view> words);
Result<std::vector<FirewallRule>> ReadRules(const std::filesystem::path& file);

}  // namespace unis::functions
