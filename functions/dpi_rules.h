// The rule file of dpi: one pattern a line.
//
//   ID ACTION FLAGS PATTERN
//
// ID: 1 to 4294967295, once. ACTION: alert, drop or forward. FLAGS: `-`, or letters of i (case does
// not matter), s (. matches a line's end too), m (^ and $ match at lines' ends). PATTERN: all the
// rest of the line, a regular expression as Hyperscan knows it, over bytes; \xHH is one, and
// the only way to write a NUL. A line that begins with # is a comment: in a pattern # is a byte
// like others.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "functions/common/result.h"

namespace unis::functions {

struct DpiRule {
  enum class Action : std::uint8_t { kAlert, kDrop, kForward };

  std::uint32_t id = 0;
  Action action = Action::kAlert;
  bool caseless = false, dot_all = false, multi_line = false;
  std::string pattern;
  unsigned line = 0;  // of the file
  bool operator==(const DpiRule&) const = default;
};

// `text` without the line's end.
Result<DpiRule> ParseDpiRule(std::string_view text);
// At least one rule.
Result<std::vector<DpiRule>> ReadDpiRules(const std::filesystem::path& file);

}  // namespace unis::functions
