// The Internet checksum, changed by what a function changes in a packet instead of summed anew.
#pragma once

#include <cstdint>
#include <span>

#include "functions/common/bytes.h"

namespace unis::functions {

// One's complement sum of `bytes`, folded to 16 bits and not complemented: 0xffff for a header that
// carries its right checksum (RFC 1071).
inline std::uint16_t OnesSum(std::span<const std::uint8_t> bytes) {
  // Four bytes at a time: 2^16 = 1 in one's complement, so both halves count alike.
  std::uint64_t sum = 0;
  std::size_t i = 0;
  for (; i + 4 <= bytes.size(); i += 4) sum += LoadBe32(&bytes[i]);
  if (i + 2 <= bytes.size()) {
    sum += LoadBe16(&bytes[i]);
    i += 2;
  }
  if (i < bytes.size()) sum += std::uint64_t{bytes[i]} << 8;
  while (sum >> 16 != 0) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<std::uint16_t>(sum);
}

// Incremental update, RFC 1624 equation 3: HC' = ~(~HC + ~m + m'). The older equation of RFC 1141
// can turn a right checksum into 0xffff where 0 is due.
class ChecksumChange {
 public:
  void Replace16(std::uint16_t before, std::uint16_t after) {
    sum_ += static_cast<std::uint16_t>(~before) + std::uint32_t{after};
  }
  void Replace32(std::uint32_t before, std::uint32_t after) {
    Replace16(static_cast<std::uint16_t>(before >> 16), static_cast<std::uint16_t>(after >> 16));
    Replace16(static_cast<std::uint16_t>(before), static_cast<std::uint16_t>(after));
  }
  std::uint16_t Apply(std::uint16_t checksum) const {
    std::uint32_t sum = sum_ + static_cast<std::uint16_t>(~checksum);
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    return static_cast<std::uint16_t>(~sum);
  }
  // UDP: 0 stands for "none" and stays; a sum of 0 is sent as 0xffff (RFC 768).
  std::uint16_t ApplyUdp(std::uint16_t checksum) const {
    if (checksum == 0) return 0;
    const std::uint16_t changed = Apply(checksum);
    return changed == 0 ? 0xffff : changed;
  }

 private:
  std::uint32_t sum_ = 0;  // a few words of 16 bits: cannot overflow
};

}  // namespace unis::functions
