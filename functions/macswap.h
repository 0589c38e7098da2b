// Swaps the MAC addresses of every packet, and works as hard at it as it is told: the paper's
// synthetic function.
#pragma once

#include <cstdio>
#include <string_view>

#include "functions/common/burst.h"
#include "functions/common/options.h"
#include "functions/common/result.h"
#include "functions/macswap_cost.h"

namespace unis::functions {

class Macswap {
 public:
  struct Settings {
    PacketCost cost;
    std::uint32_t stages = 1;
    std::uint32_t sleep_us = 0;
  };
  static constexpr std::string_view kName = "macswap";
  static constexpr std::string_view kAbout =
      "Swaps source and destination MAC address of every packet and imitates a processing cost.";
  static constexpr std::string_view kExample =
      "macswap --no-huge -m 128 --no-pci \\\n"
      "      --vdev net_pcap0,rx_pcap=in.pcap,tx_pcap=out.pcap -- --cost light --exit-idle 500";

  static void AddOptions(OptionTable& table, Settings& settings);
  static Failure Check(Settings&) { return std::nullopt; }
  static Result<Macswap> Create(Settings settings);

  std::uint16_t Process(rte_mbuf** packets, std::uint16_t count, Drops& drops);
  void Report(std::FILE*) const {}

 private:
  explicit Macswap(Settings settings)
      : cost_(std::move(settings.cost)),
        free_of_cost_(cost_.IsZero()),
        stages_(settings.stages),
        sleep_us_(settings.sleep_us) {}
  void Stage(rte_mbuf** packets, std::uint16_t count);

  PacketCost cost_;
  bool free_of_cost_;
  std::uint32_t stages_;
  std::uint32_t sleep_us_;
  std::uint32_t chain_ = 1;  // of ImitateWork, from packet to packet
};

}  // namespace unis::functions
