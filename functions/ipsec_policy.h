// The policy file of ipsec (an SPD of RFC 4301 with the destination as selector): what to do with
// the packets to a prefix, a line each; the longest prefix decides.
//
//   protect PREFIX SPI FROM TO ALGORITHM KEY [esn]
//   bypass  PREFIX
//   discard PREFIX
//
// PREFIX: A.B.C.D[/LENGTH]. SPI: 256 to 4294967295, once with each TO. FROM, TO: the tunnel's ends.
// ALGORITHM: aes-128-gcm or aes-256-gcm. KEY: hexadecimal, the key of AES and the salt of 4 bytes
// (RFC 4106), 20 or 36 bytes; the key in one line only. esn: sequence numbers of 64 bits.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

#include "functions/common/result.h"
#include "functions/common/text.h"

namespace unis::functions {

inline constexpr std::uint32_t kGcmSalt = 4;  // bytes

// What is known of a security association, as both its ends agreed on it.
struct AssociationKey {
  std::uint32_t key_length = 16;  // bytes of AES: 16 or 32
  std::array<std::uint8_t, 32> key{};
  std::array<std::uint8_t, kGcmSalt> salt{};
  bool operator==(const AssociationKey&) const = default;
};

struct AssociationConfig {
  std::uint32_t spi = 0;
  std::uint32_t from = 0, to = 0;  // host byte order
  AssociationKey key;
  bool extended_sequence = false;
  bool operator==(const AssociationConfig&) const = default;
};

enum class Bypassed : std::uint8_t { kBypass, kDiscard };

struct PolicyLine {
  Ipv4Prefix prefix;
  std::variant<Bypassed, AssociationConfig> action;
};

Result<Bypassed> ParseBypassed(std::string_view word);
Result<PolicyLine> ParsePolicyLine(std::span<const std::string_view> words);
Result<std::vector<PolicyLine>> ReadPolicy(const std::filesystem::path& file);

// For measuring: `count` associations with SPIs from 256 on, from 192.0.2.1 to 198.51.100.1, with
// extended sequence numbers and keys of 16 bytes that anybody can compute: byte i of the 20 of
// association n is byte i mod 8, lowest first, of SplitMix64's output 3 n + i / 8 (seed 0).
std::vector<AssociationConfig> SyntheticAssociations(std::uint32_t count);

}  // namespace unis::functions
