#include "functions/common/headers.h"

#include <algorithm>

namespace unis::functions {
namespace {

constexpr std::uint8_t kHopByHop = 0, kRouting = 43, kFragment = 44, kAuthentication = 51,
                       kDestinationOptions = 60;

bool IsExtension(std::uint8_t protocol) {
  return protocol == kHopByHop || protocol == kRouting || protocol == kFragment ||
         protocol == kAuthentication || protocol == kDestinationOptions;
}

// Bytes of the extension at `at`, from its second byte (RFC 8200 section 4, RFC 4302 for AH).
std::uint32_t ExtensionLength(std::uint8_t protocol, const std::uint8_t* at) {
  if (protocol == kFragment) return 8;
  if (protocol == kAuthentication) return (at[1] + 2u) * 4;
  return (at[1] + 1u) * 8;
}

}  // namespace

void ParseIpv6(const std::uint8_t* frame, std::uint32_t length, Headers& headers) {
  headers.network = Network::kMalformed;
  const std::uint32_t l3 = headers.l3;
  if (length < l3 + kIpv6Header || frame[l3] >> 4 != 6) return;
  headers.network = Network::kIpv6;
  headers.protocol = frame[l3 + 6];
  const std::uint32_t end = std::min(length, l3 + kIpv6Header + LoadBe16(frame + l3 + 4));
  std::uint32_t at = l3 + kIpv6Header;
  for (int i = 0; IsExtension(headers.protocol); ++i) {
    // A cut or endless chain: the protocol stays that of the extension, and nothing follows it.
    headers.l4 = static_cast<std::uint16_t>(at);
    if (i == kMaxIpv6Extensions || end < at + 8) return;
    const std::uint32_t extension = ExtensionLength(headers.protocol, frame + at);
    if (end < at + extension) return;
    if (headers.protocol == kFragment) {
      const std::uint16_t fragment = LoadBe16(frame + at + 2);
      headers.fragment = (fragment & 0xfff9) != 0;  // an offset, or more fragments
      headers.later_fragment = fragment >> 3 != 0;
    }
    headers.protocol = frame[at];
    at += extension;
    if (headers.later_fragment) break;  // what follows is payload, whatever its protocol says
  }
  headers.l4 = static_cast<std::uint16_t>(at);
  if (!headers.later_fragment) headers.l4_length = end - at;
}

}  // namespace unis::functions
