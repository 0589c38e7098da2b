#include "functions/wanopt.h"

#include <fmt/format.h>

#include <algorithm>

#include "functions/common/checksum.h"
#include "functions/common/report.h"

namespace unis::functions {
namespace {

constexpr std::size_t kLongestPayload = 65535;  // bytes

}  // namespace

void Wanopt::AddOptions(OptionTable& table, Settings& settings) {
  table.Add("--mode", "compress|expand", "which end of the way this is. Default: compress.",
            [&settings](std::string_view value) {
              if (value != "compress" && value != "expand") {
                return Failure(Error{
                    fmt::format("bad value of --mode '{}': must be compress or expand", value)});
              }
              settings.mode = value == "expand" ? Mode::kExpand : Mode::kCompress;
              return Failure();
            });
  table.AddNumber("--level", "N",
                  "how hard to look for what repeats, from 0 (fastest) to 12. Default: 0.",
                  WanoptCodec::kFastest, WanoptCodec::kHighestLevel, settings.level);
  table.AddNumber(
      "--min-payload", "BYTES",
      "payloads that are shorter are not tried, transport header included. Default: 64.",
      kIpCompHeader + 2, kLongestPayload, settings.min_payload);
}

Result<Wanopt> Wanopt::Create(Settings settings) {
  auto codec = WanoptCodec::Create(settings.level);
  if (!codec) return codec.error();
  return Wanopt(settings, std::move(*codec));
}

Wanopt::Wanopt(const Settings& settings, WanoptCodec codec)
    : codec_(std::move(codec)),
      mode_(settings.mode),
      min_payload_(settings.min_payload),
      scratch_(kLongestPayload) {}

void Wanopt::Replace(rte_mbuf* packet, const Headers& headers, std::uint8_t protocol,
                     std::span<const std::uint8_t> payload) {
  std::uint8_t* const frame = Frame(packet);
  std::uint8_t* const ip = frame + headers.l3;
  const auto total = static_cast<std::uint16_t>(headers.l4 - headers.l3 + payload.size());
  ChecksumChange change;
  change.Replace16(LoadBe16(ip + kIpv4LengthAt), total);
  const std::uint16_t ttl_and_protocol = LoadBe16(ip + kIpv4TtlAt);
  ip[kIpv4ProtocolAt] = protocol;
  change.Replace16(ttl_and_protocol, LoadBe16(ip + kIpv4TtlAt));
  StoreBe16(ip + kIpv4LengthAt, total);
  StoreBe16(ip + kIpv4ChecksumAt, change.Apply(LoadBe16(ip + kIpv4ChecksumAt)));
  std::memcpy(frame + headers.l4, payload.data(), payload.size());
  bytes_before_ += headers.l4_length;
  bytes_after_ += payload.size();
  packet->data_len = static_cast<std::uint16_t>(headers.l4 + payload.size());
  packet->pkt_len = packet->data_len;
  packet->packet_type = 0;  // what a NIC said of it no longer holds
}

Wanopt::Fate Wanopt::Compress(rte_mbuf* packet) {
  const std::uint8_t* const frame = Frame(packet);
  const Headers headers = ParseHeaders(packet);
  if (headers.network == Network::kMalformed) return kMalformed;
  if (headers.network != Network::kIpv4) return kNotIpv4;
  if (IsCut(packet, headers)) return kMalformed;
  if (headers.fragment) return kFragment;
  if (headers.protocol == kEsp || headers.protocol == kAh || headers.protocol == kIpComp) {
    return kOpaque;
  }
  if (packet->nb_segs > 1) return kSegmented;
  if (headers.l4_length < min_payload_) return kTooShort;
  // Shorter than before by a byte at least, with its header.
  const std::size_t length = codec_.Deflate(
      {frame + headers.l4, headers.l4_length},
      std::span(scratch_).subspan(kIpCompHeader, headers.l4_length - kIpCompHeader - 1));
  if (length == 0) return kNoGain;
  scratch_[0] = headers.protocol;
  scratch_[1] = 0;
  StoreBe16(&scratch_[2], kDeflate);
  Replace(packet, headers, kIpComp, std::span(scratch_).first(kIpCompHeader + length));
  return kCompressed;
}

Wanopt::Fate Wanopt::Expand(rte_mbuf* packet) {
  const std::uint8_t* const frame = Frame(packet);
  const Headers headers = ParseHeaders(packet);
  if (headers.network != Network::kIpv4 || headers.protocol != kIpComp || headers.fragment ||
      headers.l4_length < kIpCompHeader || LoadBe16(frame + headers.l4 + 2) != kDeflate) {
    return kNotOurs;
  }
  if (IsCut(packet, headers)) return kCorrupt;
  if (packet->nb_segs > 1) return kSegmented;
  // No longer than its buffer, nor than an IPv4 packet can be.
  const std::size_t room = std::min<std::size_t>(
      packet->data_len - headers.l4 + std::size_t{rte_pktmbuf_tailroom(packet)},
      kLongestPayload - (headers.l4 - headers.l3));
  const std::ptrdiff_t length =
      codec_.Inflate({frame + headers.l4 + kIpCompHeader, headers.l4_length - kIpCompHeader},
                     std::span(scratch_).first(room));
  if (length < 0) return length == WanoptCodec::kTooLong ? kNoRoom : kCorrupt;
  const auto expanded = std::span(scratch_).first(static_cast<std::size_t>(length));
  Replace(packet, headers, frame[headers.l4], expanded);
  return kExpanded;
}

std::uint16_t Wanopt::Process(rte_mbuf** packets, std::uint16_t count, Drops& drops) {
  PrefetchHeaders(packets, count);
  std::uint16_t kept = 0;
  for (std::uint16_t i = 0; i < count; ++i) {
    const Fate fate = mode_ == Mode::kCompress ? Compress(packets[i]) : Expand(packets[i]);
    ++packets_[fate];
    if (fate < kCorrupt) {
      packets[kept++] = packets[i];
    } else {
      drops.Add(packets[i]);
    }
  }
  return kept;
}

void Wanopt::Report(std::FILE* out) const {
  PrintCounter(out, "compressed", packets_[kCompressed]);
  PrintCounter(out, "expanded", packets_[kExpanded]);
  PrintCounter(out, "payload_bytes_before", bytes_before_);
  PrintCounter(out, "payload_bytes_after", bytes_after_);
  PrintCounter(out, "no_gain", packets_[kNoGain]);
  PrintCounter(out, "too_short", packets_[kTooShort]);
  PrintCounter(out, "opaque", packets_[kOpaque]);
  PrintCounter(out, "fragment", packets_[kFragment]);
  PrintCounter(out, "segmented", packets_[kSegmented]);
  PrintCounter(out, "malformed", packets_[kMalformed]);
  PrintCounter(out, "not_ipv4", packets_[kNotIpv4]);
  PrintCounter(out, "not_compressed", packets_[kNotOurs]);
  PrintCounter(out, "corrupt", packets_[kCorrupt]);
  PrintCounter(out, "no_room", packets_[kNoRoom]);
}

}  // namespace unis::functions
