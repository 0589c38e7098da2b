// How a function reports at its end: a counter a line.
#pragma once

#include <cinttypes>
#include <cstdint>
#include <cstdio>

namespace unis::functions {

inline void PrintCounter(std::FILE* out, const char* name, std::uint64_t value) {
  std::fprintf(out, "%-24s %" PRIu64 "\n", name, value);
}

}  // namespace unis::functions
