// What a packet carries behind its transport header.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "functions/common/headers.h"

namespace unis::functions {

inline constexpr std::uint32_t kTcpHeaderBytes = 20, kUdpHeaderBytes = 8;  // at least
inline constexpr std::uint32_t kTcpOffsetAt = 12;

// Of an IPv4 or IPv6 packet that is no later fragment: TCP's and UDP's data, and of other protocols
// all that follows the IP header. All that is there, whatever UDP's own length says. Nothing: the
// transport header is cut off or contradicts itself.
inline std::optional<std::span<const std::uint8_t>> PayloadOf(const std::uint8_t* frame,
                                                              const Headers& headers) {
  std::uint32_t header = 0;
  if (headers.protocol == kTcp) {
    if (headers.l4_length < kTcpHeaderBytes) return std::nullopt;
    header = (frame[headers.l4 + kTcpOffsetAt] >> 4) * 4u;
    if (header < kTcpHeaderBytes) return std::nullopt;
  } else if (headers.protocol == kUdp) {
    header = kUdpHeaderBytes;
  }
  if (headers.l4_length < header) return std::nullopt;
  return std::span(frame + headers.l4 + header, headers.l4_length - header);
}

}  // namespace unis::functions
