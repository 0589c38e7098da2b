// Source NAT with port translation: many hosts inside share one public address.
#pragma once

#include <cstdint>
#include <cstdio>
#include <optional>
#include <string_view>
#include <vector>

#include "functions/common/burst.h"
#include "functions/common/headers.h"
#include "functions/common/options.h"
#include "functions/common/result.h"
#include "functions/common/text.h"
#include "functions/nat_table.h"

namespace unis::functions {

class Nat {
 public:
  struct Settings {
    std::optional<std::uint32_t> public_address;
    // Private address space, RFC 1918.
    std::vector<Ipv4Prefix> inside{{0x0a000000, 8}, {0xac100000, 12}, {0xc0a80000, 16}};
    std::uint32_t max_flows = 65536;
    std::uint64_t idle_timeout_s = 300;  // RFC 4787, REQ-5
  };
  static constexpr std::string_view kName = "nat";
  static constexpr std::string_view kAbout =
      "Source NAT of TCP, UDP and ICMP echo. A packet from inside to outside gets the public "
      "address\n"
      "and a public port (ICMP: identifier) of its flow's own; a packet to the public address "
      "goes\n"
      "back to the flow's inside host if it comes from the flow's other end. Checksums are "
      "updated,\n"
      "not made anew; MAC addresses, TTL and VLAN tags stay. The addresses tell which way a "
      "packet\n"
      "goes, not the port that it came from: between two ports it translates both ways.\n"
      "Drops and counts: to the public address but of no flow; table or ports full; fragments and\n"
      "other protocols and ICMP types (where it would have to translate); headers cut off.\n"
      "Passes unchanged: everything else, as ARP, IPv6, inside to inside, outside to outside.";
  static constexpr std::string_view kExample =
      "nat --no-huge -m 128 --no-pci \\\n"
      "      --vdev net_pcap0,rx_pcap=in.pcap,tx_pcap=out.pcap -- \\\n"
      "      --public 203.0.113.1 --inside 192.168.0.0/16 --exit-idle 500";

  static void AddOptions(OptionTable& table, Settings& settings);
  static Failure Check(Settings& settings);
  static Result<Nat> Create(Settings settings);

  std::uint16_t Process(rte_mbuf** packets, std::uint16_t count, Drops& drops);
  void Report(std::FILE* out) const;

 private:
  // What becomes of a packet.
  enum Fate : std::uint8_t {
    kOutbound,
    kInbound,
    kPass,
    kNoMapping,
    kTableFull,
    kFragment,
    kUnsupported,
    kMalformed,
  };
  static constexpr int kFates = 8;

  Nat(Settings settings, NatTable table)
      : table_(std::move(table)),
        inside_(std::move(settings.inside)),
        public_address_(*settings.public_address) {}
  bool IsInside(std::uint32_t address) const;
  Fate Classify(const std::uint8_t* frame, const Headers& headers) const;
  Fate TranslateOutbound(std::uint8_t* frame, const Headers& headers, const NatFlow* flow) const;
  Fate TranslateInbound(std::uint8_t* frame, const Headers& headers);

  NatTable table_;
  std::vector<Ipv4Prefix> inside_;
  std::uint32_t public_address_;
  std::uint64_t packets_[kFates] = {};
};

}  // namespace unis::functions
