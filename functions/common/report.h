// How a function reports at its end: a counter a line.
#pragma once

#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <string>

namespace unis::functions {

inline void PrintCounter(std::FILE* out, const std::string& name, std::uint64_t value) {
  std::fprintf(out, "%-24s %" PRIu64 "\n", name.c_str(), value);
}

}  // namespace unis::functions
