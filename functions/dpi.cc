#include "functions/dpi.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "functions/common/headers.h"
#include "functions/common/payload.h"
#include "functions/common/report.h"

namespace unis::functions {
namespace {

constexpr std::uint32_t kLongest = 65535 + kEtherHeader + kMaxVlanTags * kVlanTag;  // bytes

}  // namespace

void Dpi::AddOptions(OptionTable& table, Settings& settings) {
  table.AddFile(
      "--rules",
      "the rules, one a line: ID ACTION FLAGS PATTERN. ACTION is alert, drop or forward;\n"
      "FLAGS is - or letters of i (case does not matter), s (. matches a line's end), m\n"
      "(^ and $ at each line); PATTERN, the rest of the line, is a regular expression as\n"
      "Hyperscan knows it. A line that begins with # is a comment. Required.",
      settings.rules_file);
}

Failure Dpi::Check(Settings& settings) {
  if (settings.rules_file.empty()) return Error{"--rules FILE is missing"};
  auto rules = ReadDpiRules(settings.rules_file);
  if (!rules) return rules.error();
  settings.rules = std::move(*rules);
  auto matcher = DpiMatcher::Compile(settings.rules, settings.rules_file.string());
  if (!matcher) return matcher.error();
  settings.matcher.emplace(std::move(*matcher));
  return std::nullopt;
}

Result<Dpi> Dpi::Create(Settings settings) {
  if (!settings.matcher) {
    if (const Failure failure = Check(settings)) return *failure;
  }
  return Dpi(std::move(settings));
}

Dpi::Dpi(Settings settings)
    : matcher_(std::move(*settings.matcher)),
      rules_(std::move(settings.rules)),
      matches_(rules_.size()),
      joined_(kLongest) {}

Dpi::Sight Dpi::Look(const rte_mbuf* packet, std::span<const std::uint8_t>& payload) {
  const std::uint32_t length = std::min(packet->pkt_len, kLongest);
  const auto* const frame =
      static_cast<const std::uint8_t*>(rte_pktmbuf_read(packet, 0, length, joined_.data()));
  const Headers headers = ParseHeaders(frame, length);
  if (headers.network == Network::kOther) return kNotIp;
  if (headers.network == Network::kMalformed) return kMalformed;
  if (headers.later_fragment) return kFragment;
  const auto found = PayloadOf(frame, headers);
  if (!found) return kMalformed;
  payload = *found;
  return payload.empty() ? kEmpty : kScanned;
}

bool Dpi::Judge(std::span<const std::uint8_t> payload) {
  constexpr std::uint32_t kNobody = std::numeric_limits<std::uint32_t>::max();
  const auto matches = matcher_.Scan(payload);
  if (matches.empty()) return true;
  ++matched_;
  std::uint32_t decides = kNobody;
  for (const std::uint32_t rule : matches) {
    ++matches_[rule];
    if (rules_[rule].action != DpiRule::Action::kAlert) decides = std::min(decides, rule);
  }
  return decides == kNobody || rules_[decides].action == DpiRule::Action::kForward;
}

std::uint16_t Dpi::Process(rte_mbuf** packets, std::uint16_t count, Drops& drops) {
  PrefetchHeaders(packets, count);
  std::uint16_t kept = 0;
  for (std::uint16_t i = 0; i < count; ++i) {
    std::span<const std::uint8_t> payload;
    const Sight sight = Look(packets[i], payload);
    ++packets_[sight];
    payload_bytes_ += payload.size();
    if (sight != kScanned || Judge(payload)) {
      packets[kept++] = packets[i];
    } else {
      ++dropped_;
      drops.Add(packets[i]);
    }
  }
  return kept;
}

void Dpi::Report(std::FILE* out) const {
  PrintCounter(out, "scanned", packets_[kScanned]);
  PrintCounter(out, "scanned_bytes", payload_bytes_);
  PrintCounter(out, "no_payload", packets_[kEmpty]);
  PrintCounter(out, "not_ip", packets_[kNotIp]);
  PrintCounter(out, "malformed", packets_[kMalformed]);
  PrintCounter(out, "later_fragment", packets_[kFragment]);
  PrintCounter(out, "matched", matched_);
  PrintCounter(out, "dropped_by_rule", dropped_);
  PrintCounter(out, "database_bytes", matcher_.database_bytes());
  for (std::size_t i = 0; i < rules_.size(); ++i) {
    PrintCounter(out, fmt::format("rule_{}", rules_[i].id), matches_[i]);
  }
}

}  // namespace unis::functions
