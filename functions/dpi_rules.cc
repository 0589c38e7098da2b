#include "functions/dpi_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <unordered_map>

#include "functions/common/text.h"

namespace unis::functions {
namespace {

constexpr std::string_view kSpace = " \t";

// Takes the first word off the front, and the space behind it.
std::string_view TakeWord(std::string_view& text) {
  const std::string_view word = text.substr(0, text.find_first_of(kSpace));
  text.remove_prefix(word.size());
  text.remove_prefix(std::min(text.find_first_not_of(kSpace), text.size()));
  return word;
}

// What editors leave at a line's end and nobody sees. A space that is meant is written \x20.
std::string_view Trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t\r");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r") + 1 - begin);
}

Result<DpiRule::Action> ParseDpiAction(std::string_view word) {
  if (word == "alert") return DpiRule::Action::kAlert;
  if (word == "drop") return DpiRule::Action::kDrop;
  if (word == "forward") return DpiRule::Action::kForward;
  return Error{fmt::format("bad action '{}': must be alert, drop or forward", word)};
}

Failure ParseFlags(std::string_view word, DpiRule& rule) {
  if (word == "-") return std::nullopt;
  for (const char letter : word) {
    switch (letter) {
      case 'i':
        rule.caseless = true;
        break;
      case 's':
        rule.dot_all = true;
        break;
      case 'm':
        rule.multi_line = true;
        break;
      default:
        return Error{fmt::format("bad flags '{}': must be - or letters of i, s and m", word)};
    }
  }
  return std::nullopt;
}

}  // namespace

Result<DpiRule> ParseDpiRule(std::string_view text) {
  text = Trimmed(text);
  DpiRule rule;
  const auto id =
      ParseNumber(TakeWord(text), "rule id", 1, std::numeric_limits<std::uint32_t>::max());
  if (!id) return id.error();
  rule.id = static_cast<std::uint32_t>(*id);
  const auto action = ParseDpiAction(TakeWord(text));
  if (!action) return action.error();
  rule.action = *action;
  if (const Failure failure = ParseFlags(TakeWord(text), rule)) return *failure;
  if (text.empty()) {
    return Error{
        fmt::format("rule {} has no pattern; a rule is ID ACTION FLAGS PATTERN, with - for "
                    "no flags",
                    rule.id)};
  }
  if (text.find('\0') != std::string_view::npos) {  // Hyperscan would end the pattern there
    return Error{fmt::format("the pattern of rule {} has a NUL byte; write it as \\x00", rule.id)};
  }
  rule.pattern = text;
  return rule;
}

Result<std::vector<DpiRule>> ReadDpiRules(const std::filesystem::path& file) {
  std::vector<DpiRule> rules;
  std::unordered_map<std::uint32_t, unsigned> line_of;
  const Failure failure = ReadText(file, [&](std::string_view text, unsigned line) {
    text = Trimmed(text);
    if (text.empty() || text.front() == '#') return Failure();
    auto rule = ParseDpiRule(text);
    if (!rule) return Failure(rule.error());
    const auto [known, added] = line_of.emplace(rule->id, line);
    if (!added) {
      return Failure(Error{fmt::format("rule {} is already in line {}", rule->id, known->second)});
    }
    rule->line = line;
    rules.push_back(std::move(*rule));
    return Failure();
  });
  if (failure) return *failure;
  if (rules.empty()) return Error{fmt::format("{} has no rules", file.string())};
  return rules;
}

}  // namespace unis::functions
