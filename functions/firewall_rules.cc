#include "functions/firewall_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace unis::functions {
namespace {

constexpr std::size_t kFields = 6;

bool IsAny(std::string_view word) { return word == "*" || word == "any"; }

Result<Ipv4Prefix> ParseAddresses(std::string_view word, std::string_view what) {
  if (IsAny(word)) return Ipv4Prefix{};
  return ParseIpv4Prefix(word, what);
}

Result<PortRange> ParsePorts(std::string_view word, std::string_view what) {
  if (IsAny(word)) return PortRange{};
  const std::size_t dash = word.find('-');
  const auto first = ParseNumber(word.substr(0, dash), what, 0, 65535);
  const auto last =
      dash == std::string_view::npos ? first : ParseNumber(word.substr(dash + 1), what, 0, 65535);
  if (!first || !last) {
    return Error{fmt::format("bad {} '{}': must be 0 to 65535, FROM-TO or *", what, word)};
  }
  if (*first > *last) {
    return Error{fmt::format("bad {} '{}': the first port is above the last", what, word)};
  }
  return PortRange{static_cast<std::uint16_t>(*first), static_cast<std::uint16_t>(*last)};
}

Result<std::optional<std::uint8_t>> ParseProtocol(std::string_view word) {
  using Named = std::pair<std::string_view, std::uint8_t>;
  static constexpr std::array kNames{Named{"icmp", 1},     Named{"igmp", 2},  Named{"tcp", 6},
                                     Named{"udp", 17},     Named{"gre", 47},  Named{"esp", 50},
                                     Named{"ah", 51},      Named{"ospf", 89}, Named{"sctp", 132},
                                     Named{"udplite", 136}};
  if (IsAny(word)) return std::optional<std::uint8_t>();
  const auto named = std::ranges::find(kNames, word, &Named::first);
  if (named != kNames.end()) return std::optional(named->second);
  const auto number = ParseNumber(word, "protocol", 0, 255);
  if (number) return std::optional(static_cast<std::uint8_t>(*number));
  return Error{
      fmt::format("bad protocol '{}': must be *, 0 to 255, or a name like tcp, udp, icmp", word)};
}

}  // namespace

Result<Action> ParseAction(std::string_view word) {
  if (word == "allow") return Action::kAllow;
  if (word == "deny") return Action::kDeny;
  return Error{fmt::format("bad action '{}': must be allow or deny", word)};
}

Result<FirewallRule> ParseRule(std::span<const std::string_view> words) {
  const auto action = ParseAction(words.front());
  if (!action) return action.error();
  if (words.size() != kFields) {
    return Error{
        fmt::format("a rule has {} words, ACTION SRC DST SPORT DPORT PROTO, but this line has {}, "
                    "the last '{}'",
                    kFields, words.size(), words.back())};
  }
  const auto source = ParseAddresses(words[1], "source");
  if (!source) return source.error();
  const auto destination = ParseAddresses(words[2], "destination");
  if (!destination) return destination.error();
  const auto source_port = ParsePorts(words[3], "source port");
  if (!source_port) return source_port.error();
  const auto destination_port = ParsePorts(words[4], "destination port");
  if (!destination_port) return destination_port.error();
  const auto protocol = ParseProtocol(words[5]);
  if (!protocol) return protocol.error();
  return FirewallRule{*action, *source, *destination, *source_port, *destination_port, *protocol};
}

Result<std::vector<FirewallRule>> ReadRules(const std::filesystem::path& file) {
  std::vector<FirewallRule> rules;
  const Failure failure = ReadLines(file, [&rules](auto words, unsigned) {
    const auto rule = ParseRule(words);
    if (!rule) return Failure(rule.error());
    rules.push_back(*rule);
    return Failure();
  });
  if (failure) return *failure;
  return rules;
}

}  // namespace unis::functions
