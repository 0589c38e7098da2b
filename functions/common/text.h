// Reads the words of option values and of rule and route files. Every error quotes the word.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "functions/common/result.h"

namespace unis::functions {

struct Ipv4Prefix {
  std::uint32_t address = 0;  // host byte order; bits beyond the length are zero
  std::uint8_t length = 0;    // bits

  std::uint32_t Mask() const { return length == 0 ? 0 : ~std::uint32_t{0} << (32 - length); }
  bool Contains(std::uint32_t ip) const { return (ip & Mask()) == address; }
  bool operator==(const Ipv4Prefix&) const = default;
};

struct MacAddress {
  std::array<std::uint8_t, 6> bytes;
  auto operator<=>(const MacAddress&) const = default;
};

// Decimal only. `what` names the quantity in the error: "bad destination port '70000': …".
Result<std::uint64_t> ParseNumber(std::string_view word, std::string_view what, std::uint64_t min,
                                  std::uint64_t max);
Result<std::uint32_t> ParseIpv4(std::string_view word, std::string_view what);
// A.B.C.D/LENGTH or A.B.C.D (a host). Set bits beyond the length are an error: they hide typing
// mistakes.
Result<Ipv4Prefix> ParseIpv4Prefix(std::string_view word, std::string_view what);
Result<MacAddress> ParseMac(std::string_view word, std::string_view what);

std::string FormatIpv4(std::uint32_t address);

std::vector<std::string_view> Split(std::string_view text, char separator);
// Words of a line; `#` starts a comment.
std::vector<std::string_view> Words(std::string_view line);

// Calls `on_line` with each line as it stands, without its end. The first failure ends the reading
// and gets "FILE:LINE: " in front.
using TextReader = std::function<Failure(std::string_view text, unsigned line)>;
Failure ReadText(const std::filesystem::path& file, const TextReader& on_line);

// The same with the words of each line that has any.
using LineReader = std::function<Failure(std::span<const std::string_view> words, unsigned line)>;
Failure ReadLines(const std::filesystem::path& file, const LineReader& on_line);

}  // namespace unis::functions
