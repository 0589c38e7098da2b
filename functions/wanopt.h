// A WAN optimiser: IPv4 payloads compressed on the way out and expanded at the other end, in the
// format of IPComp with DEFLATE (RFC 3173, RFC 2394), so that other ends than ours can read it.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string_view>
#include <vector>

#include "functions/common/burst.h"
#include "functions/common/headers.h"
#include "functions/common/options.h"
#include "functions/common/result.h"
#include "functions/wanopt_codec.h"

namespace unis::functions {

class Wanopt {
 public:
  enum class Mode : std::uint8_t { kCompress, kExpand };
  struct Settings {
    Mode mode = Mode::kCompress;
    int level = WanoptCodec::kFastest;
    std::uint32_t min_payload = 64;  // bytes
  };
  static constexpr std::string_view kName = "wanopt";
  static constexpr std::string_view kAbout =
      "Compresses what IPv4 packets carry behind their IP header, each packet by itself. One that\n"
      "gets shorter leaves as IP protocol 108 (IPComp, RFC 3173): a header of 4 bytes (the "
      "protocol\n"
      "that it had, 0, and 2 for DEFLATE in two bytes), then raw DEFLATE. Total length, protocol "
      "and\n"
      "header checksum are updated, padding of the frame is cut; addresses, options and VLAN tags\n"
      "stay. With --mode expand it is the other end, and puts back what was there.\n"
      "Passes unchanged, and counts: not IPv4, headers or packet cut off, fragments, ESP, AH and\n"
      "IPComp, payloads that are short or do not shrink, packets of several buffers.\n"
      "Drops and counts, in mode expand: what does not inflate, or does not fit into its buffer.";
  static constexpr std::string_view kExample =
      "wanopt --no-huge -m 128 --no-pci \\\n"
      "      --vdev net_pcap0,rx_pcap=in.pcap,tx_pcap=out.pcap -- \\\n"
      "      --level 6 --exit-idle 500";
  static constexpr std::uint8_t kIpComp = 108;
  static constexpr std::uint32_t kIpCompHeader = 4;  // bytes
  static constexpr std::uint16_t kDeflate = 2;       // compression parameter index, RFC 2394

  static void AddOptions(OptionTable& table, Settings& settings);
  static Failure Check(Settings&) { return std::nullopt; }
  static Result<Wanopt> Create(Settings settings);

  std::uint16_t Process(rte_mbuf** packets, std::uint16_t count, Drops& drops);
  void Report(std::FILE* out) const;

 private:
  enum Fate : std::uint8_t {
    kCompressed,
    kExpanded,
    kNotIpv4,
    kMalformed,
    kFragment,
    kOpaque,
    kTooShort,
    kNoGain,
    kSegmented,
    kNotOurs,
    kCorrupt,
    kNoRoom,
  };
  static constexpr int kFates = 12;

  Wanopt(const Settings& settings, WanoptCodec codec);
  Fate Compress(rte_mbuf* packet);
  Fate Expand(rte_mbuf* packet);
  // Writes another protocol and payload; length and checksum follow. There is room for it.
  void Replace(rte_mbuf* packet, const Headers& headers, std::uint8_t protocol,
               std::span<const std::uint8_t> payload);

  WanoptCodec codec_;
  Mode mode_;
  std::uint32_t min_payload_;
  std::vector<std::uint8_t> scratch_;  // of the longest payload
  std::uint64_t packets_[kFates] = {};
  std::uint64_t bytes_before_ = 0, bytes_after_ = 0;  // of payloads that were changed
};

}  // namespace unis::functions
