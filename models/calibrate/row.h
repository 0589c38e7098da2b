// A row of what `unis-calibrate` prints: one measurement, or why there is none.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "models/calibrate/interval.h"

namespace unis {

// Names of numbers carry their unit: `array_bytes`.
using Label = std::pair<std::string, std::variant<std::int64_t, std::string>>;

struct Row {
  std::string group, name;
  std::vector<Label> labels;  // with group and name they tell a row from all others
  std::string provider;       // of the time
  std::optional<Interval> ns;
  std::string missing;  // why `ns` is not there
};

using Report = std::function<void(const Row&)>;

constexpr const char* kClock = "clock_gettime(CLOCK_MONOTONIC)";

// `row` with the interval of these samples, ns, or with what kept them from being taken.
Row With(Row row, const absl::StatusOr<std::vector<double>>& samples);

// One line, without its end.
std::string ToJson(const Row& row);

}  // namespace unis
