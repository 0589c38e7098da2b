// A stateless packet filter: rte_acl over the IPv4 5-tuple, a whole burst at a time.
#pragma once

#include <rte_acl.h>

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string_view>
#include <vector>

#include "functions/common/burst.h"
#include "functions/common/options.h"
#include "functions/common/result.h"
#include "functions/firewall_rules.h"

namespace unis::functions {

class Firewall {
 public:
  struct Settings {
    std::filesystem::path rules_file;
    std::vector<FirewallRule> rules;
    Action otherwise = Action::kAllow;
  };
  static constexpr std::string_view kName = "firewall";
  static constexpr std::string_view kAbout =
      "Passes or drops IPv4 packets by the first rule that matches their 5-tuple. What no rule "
      "can\n"
      "be asked about (no rule matches, not IPv4, IPv4 header cut off) gets the default action. "
      "Up\n"
      "to two VLAN tags are looked through. Packets without ports, as fragments after the first,\n"
      "match as port 0.";
  static constexpr std::string_view kExample =
      "firewall --no-huge -m 128 --no-pci \\\n"
      "      --vdev net_pcap0,rx_pcap=in.pcap,tx_pcap=out.pcap -- \\\n"
      "      --rules examples/firewall.rules --default deny --exit-idle 500";

  static void AddOptions(OptionTable& table, Settings& settings);
  static Failure Check(Settings& settings);
  static Result<Firewall> Create(Settings settings);

  std::uint16_t Process(rte_mbuf** packets, std::uint16_t count, Drops& drops);
  void Report(std::FILE* out) const;

 private:
  struct FreeContext {
    void operator()(rte_acl_ctx* context) const { rte_acl_free(context); }
  };
  using Context = std::unique_ptr<rte_acl_ctx, FreeContext>;

  // What rte_acl gives for a packet. 0 is its "no rule matches".
  enum Verdict : std::uint32_t { kNoRule = 0, kAllowed = 1, kDenied = 2, kNotIpv4 = 3 };
  static constexpr int kVerdicts = 4;

  Firewall(Context context, Action otherwise);
  static Failure Compile(const std::vector<FirewallRule>& rules, rte_acl_ctx* context);
  void Classify(rte_mbuf* const* packets, std::uint16_t count, std::uint32_t* verdicts) const;

  Context context_;  // null: no rules
  bool passes_[kVerdicts];
  std::uint64_t packets_[kVerdicts] = {};
};

}  // namespace unis::functions
