#include "functions/ipsec_policy.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <map>
#include <optional>
#include <utility>

namespace unis::functions {
namespace {

constexpr std::uint64_t kFirstSpi = 256;  // those below are reserved (RFC 4303, section 2.1)
constexpr std::size_t kAlgorithmAt = 5, kKeyAt = 6, kProtectWords = 7;
constexpr std::size_t kLongestOtherWord = std::string_view("255.255.255.255/32").size();
constexpr std::uint32_t kSyntheticFrom = 0xc0000201, kSyntheticTo = 0xc6336401;

Result<std::uint32_t> KeyLengthOf(std::string_view algorithm) {
  if (algorithm == "aes-128-gcm") return 16u;
  if (algorithm == "aes-256-gcm") return 32u;
  return Error{"bad algorithm: must be aes-128-gcm or aes-256-gcm"};
}

// Errors end up in logs, so none quotes a key, nor what stands where a key or, of two words that
// were swapped, the algorithm should. Other words are quoted, and none of them is so long as a key.
Failure RefuseMisplacedKey(std::span<const std::string_view> words) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    const bool may_be_long = words.front() == "protect" && (i == kAlgorithmAt || i == kKeyAt);
    if (may_be_long || words[i].size() <= kLongestOtherWord) continue;
    return Error{fmt::format(
        "word {} is too long; a line is protect PREFIX SPI FROM TO ALGORITHM KEY [esn], "
        "bypass PREFIX or discard PREFIX",
        i + 1)};
  }
  return std::nullopt;
}

Result<AssociationKey> ParseKey(std::string_view algorithm, std::string_view word) {
  const auto length = KeyLengthOf(algorithm);
  if (!length) return length.error();
  AssociationKey key{.key_length = *length};
  const std::size_t bytes = *length + kGcmSalt;
  const Error error{
      fmt::format("bad key: {} takes {} hexadecimal digits, {} bytes of key and {} of "
                  "salt",
                  algorithm, 2 * bytes, *length, kGcmSalt)};
  if (word.size() != 2 * bytes) return error;
  for (std::size_t i = 0; i < bytes; ++i) {
    const char* const at = word.data() + 2 * i;
    std::uint8_t& byte = i < *length ? key.key[i] : key.salt[i - *length];
    const auto [end, status] = std::from_chars(at, at + 2, byte, 16);
    if (end != at + 2 || status != std::errc{}) return error;
  }
  return key;
}

Result<AssociationConfig> ParseAssociation(std::span<const std::string_view> words) {
  const auto spi =
      ParseNumber(words[2], "SPI", kFirstSpi, std::numeric_limits<std::uint32_t>::max());
  if (!spi) return spi.error();
  const auto from = ParseIpv4(words[3], "tunnel source");
  if (!from) return from.error();
  const auto to = ParseIpv4(words[4], "tunnel destination");
  if (!to) return to.error();
  const auto key = ParseKey(words[kAlgorithmAt], words[kKeyAt]);
  if (!key) return key.error();
  const bool extended = words.size() > kProtectWords;
  if (extended && words.back() != "esn") {
    return Error{fmt::format("bad word '{}': behind the key may stand esn", words.back())};
  }
  return AssociationConfig{static_cast<std::uint32_t>(*spi), *from, *to, *key, extended};
}

std::uint64_t SplitMix64(std::uint64_t& state) {
  state += 0x9e3779b97f4a7c15;
  std::uint64_t z = state;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

// What a line of a file may not have in common with an earlier one.
class Seen {
 public:
  Failure Add(const PolicyLine& line, unsigned number) {
    const auto [prefix, new_prefix] =
        prefixes_.emplace(std::pair(line.prefix.address, line.prefix.length), number);
    if (!new_prefix) {
      return Error{fmt::format("{}/{} is already in line {}", FormatIpv4(line.prefix.address),
                               line.prefix.length, prefix->second)};
    }
    const auto* association = std::get_if<AssociationConfig>(&line.action);
    if (association == nullptr) return std::nullopt;
    const auto [spi, new_spi] = spis_.emplace(std::pair(association->to, association->spi), number);
    if (!new_spi) {
      return Error{fmt::format("SPI {} to {} is already in line {}", association->spi,
                               FormatIpv4(association->to), spi->second)};
    }
    // Initialisation vectors of all lines begin at the same time, and GCM must not meet one twice
    // under a key (RFC 4106, section 2). Another salt would do, but a key is for one association.
    const AssociationKey& key = association->key;
    const auto [known, new_key] = keys_.emplace(std::pair(key.key_length, key.key), number);
    if (new_key) return std::nullopt;
    return Error{fmt::format("the key is already in line {}; each association needs its own",
                             known->second)};
  }

 private:
  std::map<std::pair<std::uint32_t, std::uint8_t>, unsigned> prefixes_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, unsigned> spis_;
  std::map<std::pair<std::uint32_t, decltype(AssociationKey::key)>, unsigned> keys_;
};

}  // namespace

Result<Bypassed> ParseBypassed(std::string_view word) {
  if (word == "bypass") return Bypassed::kBypass;
  if (word == "discard") return Bypassed::kDiscard;
  return Error{fmt::format("bad action '{}': must be bypass or discard", word)};
}

Result<PolicyLine> ParsePolicyLine(std::span<const std::string_view> words) {
  if (const Failure misplaced = RefuseMisplacedKey(words)) return *misplaced;
  const bool protect = words.front() == "protect";
  const auto other = protect ? Bypassed::kDiscard : ParseBypassed(words.front());
  if (!other) {
    return Error{fmt::format("bad action '{}': must be protect, bypass or discard", words.front())};
  }
  const std::size_t least = protect ? kProtectWords : 2, most = protect ? kProtectWords + 1 : 2;
  if (words.size() < least || words.size() > most) {
    return Error{protect
                     ? fmt::format("protect has 7 or 8 words, protect PREFIX SPI FROM TO ALGORITHM "
                                   "KEY [esn], but this line has {}",
                                   words.size())
                     : fmt::format("{0} has 2 words, {0} PREFIX, but this line has {1}",
                                   words.front(), words.size())};
  }
  const auto prefix = ParseIpv4Prefix(words[1], "prefix");
  if (!prefix) return prefix.error();
  if (!protect) return PolicyLine{*prefix, *other};
  const auto association = ParseAssociation(words);
  if (!association) return association.error();
  return PolicyLine{*prefix, *association};
}

Result<std::vector<PolicyLine>> ReadPolicy(const std::filesystem::path& file) {
  std::vector<PolicyLine> lines;
  Seen seen;
  const Failure failure = ReadLines(file, [&](auto words, unsigned number) {
    auto line = ParsePolicyLine(words);
    if (!line) return Failure(line.error());
    if (const Failure twice = seen.Add(*line, number)) return twice;
    lines.push_back(std::move(*line));
    return Failure();
  });
  if (failure) return *failure;
  if (lines.empty()) return Error{fmt::format("{} has no policy", file.string())};
  return lines;
}

std::vector<AssociationConfig> SyntheticAssociations(std::uint32_t count) {
  std::vector<AssociationConfig> all;
  std::uint64_t state = 0;
  for (std::uint32_t n = 0; n < count; ++n) {
    AssociationConfig one{
        static_cast<std::uint32_t>(kFirstSpi) + n, kSyntheticFrom, kSyntheticTo, {}, true};
    std::uint64_t word = 0;
    for (std::uint32_t i = 0; i < 24; ++i) {  // bytes of three words; the last four are left over
      word = i % 8 == 0 ? SplitMix64(state) : word >> 8;
      const auto byte = static_cast<std::uint8_t>(word);
      if (i < 16) one.key.key[i] = byte;
      if (i >= 16 && i < 20) one.key.salt[i - 16] = byte;
    }
    all.push_back(one);
  }
  return all;
}

}  // namespace unis::functions
