// An IPsec gateway's way out: IPv4 packets into ESP tunnels, by their destination.
#pragma once

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <string_view>
#include <vector>

#include "functions/common/burst.h"
#include "functions/common/headers.h"
#include "functions/common/options.h"
#include "functions/common/prefix_map.h"
#include "functions/common/result.h"
#include "functions/ipsec_association.h"
#include "functions/ipsec_policy.h"

namespace unis::functions {

class Ipsec {
 public:
  struct Settings {
    std::filesystem::path policy_file;
    std::vector<PolicyLine> policy;
    std::uint32_t synthetic = 0;  // associations; 0: the policy's
    Bypassed otherwise = Bypassed::kDiscard;
    std::uint32_t mtu = 65535;  // bytes
  };
  static constexpr std::string_view kName = "ipsec";
  static constexpr std::string_view kAbout =
      "Encrypts IPv4 packets into ESP tunnels (RFC 4303, AES-GCM as in RFC 4106), the way out of\n"
      "a gateway. The longest prefix of the policy that holds the destination decides: protect\n"
      "puts the packet, without the frame's padding, into a tunnel; bypass passes it as it is;\n"
      "discard drops it. What no prefix holds, and what is not IPv4, gets the default. MAC\n"
      "addresses and VLAN tags stay. The outer header has DSCP, ECN and the DF bit of the inner\n"
      "one, TTL 64; the inner packet stays as it is. No IKE: keys are in the file, sequence\n"
      "numbers begin at 1 with each start, so the other end has to begin anew too.\n"
      "Initialisation vectors (IVs) count from the clock's nanoseconds at the start, and one that\n"
      "comes twice under a key gives its packets away: have a key in one running program only,\n"
      "and new keys when the clock was set back, which repeats IVs.\n"
      "Drops and counts: headers or packet cut off; what would be longer than --mtu or than its\n"
      "buffer, or came in several; what comes after the last sequence number.";
  static constexpr std::string_view kExample =
      "ipsec --no-huge -m 128 --no-pci \\\n"
      "      --vdev net_pcap0,rx_pcap=in.pcap,tx_pcap=out.pcap -- \\\n"
      "      --policy examples/ipsec.policy --exit-idle 500";

  static void AddOptions(OptionTable& table, Settings& settings);
  static Failure Check(Settings& settings);
  static Result<Ipsec> Create(Settings settings);

  std::uint16_t Process(rte_mbuf** packets, std::uint16_t count, Drops& drops);
  void Report(std::FILE* out) const;

 private:
  enum Fate : std::uint8_t {
    kProtect,
    kBypass,
    kDiscard,
    kNotIpv4,
    kMalformed,
    kTooBig,
    kExhausted,
  };
  static constexpr int kFates = 7;
  // What the map of prefixes has for these; below are positions of associations.
  static constexpr std::uint32_t kToBypass = PrefixMap::kNone - 1, kToDiscard = kToBypass - 1;

  struct Order {  // for one packet
    Fate fate;
    std::uint16_t l3 = 0;
    std::uint32_t association = 0;
  };

  Ipsec(const Settings& settings, GcmCipher cipher, PrefixMap policy,
        std::vector<OutboundAssociation> associations);
  static PrefixMap MapOf(const std::vector<PolicyLine>& policy);
  // Cuts the frame's padding off a packet that is to be protected.
  Order Decide(rte_mbuf* packet) const;
  std::uint32_t Lookup(const std::uint8_t* frame, const Headers& headers) const;
  Fate Execute(rte_mbuf* packet, const Order& order);
  bool Passes(Fate fate) const {
    return fate <= kBypass || (fate == kNotIpv4 && otherwise_ == Bypassed::kBypass);
  }

  GcmCipher cipher_;
  PrefixMap policy_;
  std::vector<OutboundAssociation> associations_;
  bool synthetic_;
  Bypassed otherwise_;
  std::uint32_t mtu_;
  std::uint64_t packets_[kFates] = {};
};

}  // namespace unis::functions
