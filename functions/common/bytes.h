// Packet bytes are big-endian and, behind a VLAN tag or odd options, not aligned: so every load and
// store goes through memcpy, which compilers turn into one instruction.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

namespace unis::functions {

static_assert(std::endian::native == std::endian::little, "packet bytes are swapped on load");

inline std::uint16_t LoadBe16(const std::uint8_t* at) {
  std::uint16_t value;
  std::memcpy(&value, at, sizeof value);
  return __builtin_bswap16(value);
}

inline std::uint32_t LoadBe32(const std::uint8_t* at) {
  std::uint32_t value;
  std::memcpy(&value, at, sizeof value);
  return __builtin_bswap32(value);
}

inline void StoreBe16(std::uint8_t* at, std::uint16_t value) {
  value = __builtin_bswap16(value);
  std::memcpy(at, &value, sizeof value);
}

inline void StoreBe32(std::uint8_t* at, std::uint32_t value) {
  value = __builtin_bswap32(value);
  std::memcpy(at, &value, sizeof value);
}

}  // namespace unis::functions
