#include "functions/common/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <limits>

namespace unis::functions {

Result<std::uint64_t> ParseNumber(std::string_view word, std::string_view what, std::uint64_t min,
                                  std::uint64_t max) {
  std::uint64_t value = 0;
  const auto [end, status] = std::from_chars(word.data(), word.data() + word.size(), value);
  const bool is_number =
      !word.empty() && end == word.data() + word.size() && status != std::errc::invalid_argument;
  if (is_number && status == std::errc{} && value >= min && value <= max) return value;
  return Error{
      max == std::numeric_limits<std::uint64_t>::max()
          ? fmt::format("bad {} '{}': must be a whole number, {} or more", what, word, min)
          : fmt::format("bad {} '{}': must be a whole number from {} to {}", what, word, min, max)};
}

Result<std::uint32_t> ParseIpv4(std::string_view word, std::string_view what) {
  const Error error{
      fmt::format("bad {} '{}': must be four numbers 0-255 with dots between", what, word)};
  const auto parts = Split(word, '.');
  if (parts.size() != 4) return error;
  std::uint32_t address = 0;
  for (const std::string_view part : parts) {
    const auto byte = ParseNumber(part, what, 0, 255);
    if (!byte || part.size() > 3) return error;
    address = address << 8 | static_cast<std::uint32_t>(*byte);
  }
  return address;
}

Result<Ipv4Prefix> ParseIpv4Prefix(std::string_view word, std::string_view what) {
  const std::size_t slash = word.find('/');
  const auto address = ParseIpv4(word.substr(0, slash), what);
  if (!address) {
    return Error{fmt::format("bad {} '{}': must be A.B.C.D or A.B.C.D/LENGTH", what, word)};
  }
  Ipv4Prefix prefix{*address, 32};
  if (slash != std::string_view::npos) {
    const auto length = ParseNumber(word.substr(slash + 1), what, 0, 32);
    if (!length) return Error{fmt::format("bad {} '{}': the length must be 0 to 32", what, word)};
    prefix.length = static_cast<std::uint8_t>(*length);
  }
  const std::uint32_t network = prefix.address & prefix.Mask();
  if (network != prefix.address) {
    return Error{fmt::format("bad {} '{}': bits are set beyond the length; write {}/{} or {}", what,
                             word, FormatIpv4(network), prefix.length, FormatIpv4(prefix.address))};
  }
  return prefix;
}

Result<MacAddress> ParseMac(std::string_view word, std::string_view what) {
  const Error error{fmt::format(
      "bad {} '{}': must be six hexadecimal bytes, like 02:00:00:00:00:01", what, word)};
  const auto parts = Split(word, ':');
  if (parts.size() != 6) return error;
  MacAddress mac{};
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const char* const end = parts[i].data() + parts[i].size();
    const auto [parsed, status] = std::from_chars(parts[i].data(), end, mac.bytes[i], 16);
    if (parts[i].size() != 2 || parsed != end || status != std::errc{}) return error;
  }
  return mac;
}

std::string FormatIpv4(std::uint32_t address) {
  return fmt::format("{}.{}.{}.{}", address >> 24, address >> 16 & 255, address >> 8 & 255,
                     address & 255);
}

std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::vector<std::string_view> Words(std::string_view line) {
  constexpr std::string_view kSpace = " \t\r\f\v";
  line = line.substr(0, line.find('#'));
  std::vector<std::string_view> words;
  for (;;) {
    const std::size_t begin = line.find_first_not_of(kSpace);
    if (begin == std::string_view::npos) return words;
    line.remove_prefix(begin);
    const std::size_t end = std::min(line.find_first_of(kSpace), line.size());
    words.push_back(line.substr(0, end));
    line.remove_prefix(end);
  }
}

Failure ReadText(const std::filesystem::path& file, const TextReader& on_line) {
  std::error_code ignored;
  if (std::filesystem::is_directory(file, ignored)) {
    return Error{fmt::format("cannot read {}: it is a directory", file.string())};
  }
  errno = 0;
  std::ifstream in(file);
  if (!in) {
    return Error{fmt::format("cannot read {}: {}", file.string(), std::strerror(errno))};
  }
  std::string line;
  for (unsigned number = 1; std::getline(in, line); ++number) {
    if (const Failure failure = on_line(line, number)) {
      return Error{fmt::format("{}:{}: {}", file.string(), number, failure->message)};
    }
  }
  if (in.bad())
    return Error{fmt::format("cannot read {}: {}", file.string(), std::strerror(errno))};
  return std::nullopt;
}

Failure ReadLines(const std::filesystem::path& file, const LineReader& on_line) {
  return ReadText(file, [&on_line](std::string_view text, unsigned number) {
    const auto words = Words(text);
    return words.empty() ? Failure() : on_line(words, number);
  });
}

}  // namespace unis::functions
