// Deep packet inspection: every pattern of a rule file against the payload of every packet, by
// itself.
#pragma once

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

#include "functions/common/burst.h"
#include "functions/common/options.h"
#include "functions/common/result.h"
#include "functions/dpi_matcher.h"
#include "functions/dpi_rules.h"

namespace unis::functions {

class Dpi {
 public:
  struct Settings {
    std::filesystem::path rules_file;
    std::vector<DpiRule> rules;
    std::optional<DpiMatcher> matcher;
  };
  static constexpr std::string_view kName = "dpi";
  static constexpr std::string_view kAbout =
      "Looks for regular expressions in what TCP and UDP carry, and behind the IP header of other\n"
      "protocols. Every rule that matches is counted. The first drop or forward rule of the file\n"
      "that matches decides; without one the packet passes. A packet is looked at by itself: what\n"
      "is spread over several, or over fragments, is not found, nor what is compressed or\n"
      "encrypted. IPv4 and IPv6, up to two VLAN tags.\n"
      "Passes and counts, without a look: not IP, headers cut off, fragments after the first,\n"
      "packets that carry nothing.";
  static constexpr std::string_view kExample =
      "dpi --no-huge -m 128 --no-pci \\\n"
      "      --vdev net_pcap0,rx_pcap=in.pcap,tx_pcap=out.pcap -- \\\n"
      "      --rules examples/dpi.rules --exit-idle 500";

  static void AddOptions(OptionTable& table, Settings& settings);
  static Failure Check(Settings& settings);
  static Result<Dpi> Create(Settings settings);

  std::uint16_t Process(rte_mbuf** packets, std::uint16_t count, Drops& drops);
  void Report(std::FILE* out) const;

 private:
  enum Sight : std::uint8_t { kScanned, kEmpty, kNotIp, kMalformed, kFragment };
  static constexpr int kSights = 5;

  explicit Dpi(Settings settings);
  // What there is to scan of a packet, in one piece.
  Sight Look(const rte_mbuf* packet, std::span<const std::uint8_t>& payload);
  // Counts what matches. True: the packet passes.
  bool Judge(std::span<const std::uint8_t> payload);

  DpiMatcher matcher_;
  std::vector<DpiRule> rules_;
  std::vector<std::uint64_t> matches_;  // packets, by rule
  std::vector<std::uint8_t> joined_;    // a packet that came in several buffers
  std::uint64_t packets_[kSights] = {};
  std::uint64_t matched_ = 0, dropped_ = 0, payload_bytes_ = 0;
};

}  // namespace unis::functions
