// What the bytes of packets say, read one by one.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/platform/captures_for_test.h"
#include "engine/platform/frames.h"

namespace unis {

// Bytes as a number, the first the highest.
inline std::uint32_t Word(const Bytes& bytes, std::size_t at, std::size_t size) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < size; ++i) value = value << 8 | bytes[at + i];
  return value;
}

inline bool Within(std::uint32_t address, const Prefix& prefix) {
  for (std::uint32_t bit = 0; bit < prefix.length; ++bit) {
    if (((address ^ prefix.address) & (0x80000000u >> bit)) != 0) return false;
  }
  return true;
}

}  // namespace unis
