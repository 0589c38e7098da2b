// An IPv4 router: longest prefix match, TTL, header checksum, new MAC addresses.
//
// rte_lpm rather than rte_fib, whose table is smaller (16 MB at best, not 64): a secondary process
// can only use DPDK libraries that its primary has loaded too, since the lists of their objects are
// shared. The drivers that every primary loads bring rte_lpm along, but not rte_fib.
#pragma once

#include <rte_lpm.h>

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string_view>
#include <vector>

#include "functions/common/burst.h"
#include "functions/common/headers.h"
#include "functions/common/options.h"
#include "functions/common/result.h"
#include "functions/router_routes.h"

namespace unis::functions {

class Router {
 public:
  struct Settings {
    std::filesystem::path routes_file;
    std::vector<Route> routes;
  };
  static constexpr std::string_view kName = "router";
  static constexpr std::string_view kAbout =
      "Routes IPv4: finds the longest prefix that matches the destination, decrements the TTL,\n"
      "updates the header checksum and writes the MAC addresses of the route. VLAN tags stay.\n"
      "Drops and counts: not IPv4, malformed header, wrong header checksum, TTL 0 or 1, no route.\n"
      "It sends no ICMP messages and answers no ARP.";
  static constexpr std::string_view kExample =
      "router --no-huge -m 128 --no-pci \\\n"
      "      --vdev net_pcap0,rx_pcap=in.pcap,tx_pcap=out.pcap -- \\\n"
      "      --routes examples/routes.txt --exit-idle 500";

  static void AddOptions(OptionTable& table, Settings& settings);
  static Failure Check(Settings& settings);
  static Result<Router> Create(Settings settings);

  std::uint16_t Process(rte_mbuf** packets, std::uint16_t count, Drops& drops);
  void Report(std::FILE* out) const;

 private:
  struct FreeTable {
    void operator()(rte_lpm* table) const { rte_lpm_free(table); }
  };
  using Table = std::unique_ptr<rte_lpm, FreeTable>;

  enum Fate : std::uint8_t { kForward, kNotIpv4, kMalformed, kBadChecksum, kTtlExpired, kNoRoute };
  static constexpr int kFates = 6;

  Router(Table table, std::vector<NextHop> next_hops, std::uint32_t otherwise)
      : table_(std::move(table)), next_hops_(std::move(next_hops)), otherwise_(otherwise) {}
  static Fate Check(const std::uint8_t* frame, const Headers& headers);
  static void Rewrite(std::uint8_t* frame, std::uint16_t l3, const NextHop& next_hop);
  void Discard(rte_mbuf* packet, Fate fate, Drops& drops) {
    ++packets_[fate];
    drops.Add(packet);
  }

  Table table_;
  std::vector<NextHop> next_hops_;  // by the table's value; the first stands for "no route"
  std::uint32_t otherwise_;         // value of the default route, which rte_lpm does not hold
  std::uint64_t packets_[kFates] = {};
};

}  // namespace unis::functions
