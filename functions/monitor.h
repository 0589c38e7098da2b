// Counts packets and bytes of every flow, IPv4 and IPv6, and passes all of them on.
#pragma once

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "functions/common/burst.h"
#include "functions/common/flow_table.h"
#include "functions/common/options.h"
#include "functions/common/result.h"

namespace unis::functions {

struct Ipv6FlowKey {
  std::uint8_t source[16];
  std::uint8_t destination[16];
  std::uint16_t source_port;
  std::uint16_t destination_port;
  std::uint32_t protocol;
  std::uint8_t unused[8];  // to 48 bytes, which rte_hash compares with vector instructions
  bool operator==(const Ipv6FlowKey&) const = default;
};
static_assert(sizeof(Ipv4FlowKey) == 16 && sizeof(Ipv6FlowKey) == 48);

struct Traffic {
  std::uint64_t packets = 0;
  std::uint64_t bytes = 0;

  void Count(const rte_mbuf* packet) {
    ++packets;
    bytes += packet->pkt_len;
  }
};

// The flows of one IP version.
template <class Key>
class FlowCounters {
 public:
  struct Flow {
    Key key;
    Traffic traffic;
  };

  FlowCounters(FlowTable<Key> table) : table_(std::move(table)), flows_(table_.capacity()) {}

  void Count(const Key* keys, rte_mbuf* const* packets, std::uint16_t count, Traffic& other);
  const std::vector<Flow>& flows() const { return flows_; }  // those with packets are in use

 private:
  FlowTable<Key> table_;
  std::vector<Flow> flows_;
};

class Monitor {
 public:
  struct CloseFile {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  struct Settings {
    std::uint32_t max_flows = 65536;
    std::uint32_t top = 10;
    std::filesystem::path csv_file;
    std::unique_ptr<std::FILE, CloseFile> csv;
  };
  static constexpr std::string_view kName = "monitor";
  static constexpr std::string_view kAbout =
      "Counts packets and bytes (frames without FCS) of every flow and passes all packets on. A "
      "flow\n"
      "is one direction of an IPv4 or IPv6 5-tuple; packets without ports, as fragments after the\n"
      "first, count as ports 0. VLAN tags are looked through.";
  static constexpr std::string_view kExample =
      "monitor --no-huge -m 128 --no-pci \\\n"
      "      --vdev net_pcap0,rx_pcap=in.pcap,tx_pcap=out.pcap -- \\\n"
      "      --top 5 --csv flows.csv --exit-idle 500";

  static void AddOptions(OptionTable& table, Settings& settings);
  static Failure Check(Settings& settings);
  static Result<Monitor> Create(Settings settings);

  std::uint16_t Process(rte_mbuf** packets, std::uint16_t count, Drops& drops);
  void Report(std::FILE* out) const;

 private:
  // A flow ready to be printed.
  struct Row {
    std::string source;
    std::string destination;
    std::uint32_t protocol;
    std::uint16_t source_port;
    std::uint16_t destination_port;
    Traffic traffic;
  };

  Monitor(Settings settings, FlowTable<Ipv4FlowKey> ipv4, FlowTable<Ipv6FlowKey> ipv6)
      : settings_(std::move(settings)), ipv4_(std::move(ipv4)), ipv6_(std::move(ipv6)) {}
  std::vector<Row> Rows() const;  // most bytes first

  Settings settings_;
  FlowCounters<Ipv4FlowKey> ipv4_;
  FlowCounters<Ipv6FlowKey> ipv6_;
  Traffic other_;   // of flows that found the table full
  Traffic not_ip_;  // or with an IP header cut off
};

}  // namespace unis::functions
