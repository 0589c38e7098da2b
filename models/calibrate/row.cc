#include "models/calibrate/row.h"

#include <fmt/format.h>

#include <iterator>
#include <string_view>

namespace unis {
namespace {

std::string Quoted(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      fmt::format_to(std::back_inserter(quoted), "\\u{:04x}", static_cast<unsigned>(c));
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

}  // namespace

Row With(Row row, const absl::StatusOr<std::vector<double>>& samples) {
  if (!samples.ok()) {
    row.missing = std::string(samples.status().message());
  } else if (samples->size() < kLeastSamples) {
    row.missing =
        fmt::format("only {} samples in the time, of at least {}", samples->size(), kLeastSamples);
  } else {
    row.ns = MedianInterval(*samples);
  }
  return row;
}

std::string ToJson(const Row& row) {
  std::string json = fmt::format("{{\"group\": {}, \"name\": {}, \"labels\": {{", Quoted(row.group),
                                 Quoted(row.name));
  const char* comma = "";
  for (const auto& [name, value] : row.labels) {
    const auto* text = std::get_if<std::string>(&value);
    json += fmt::format("{}{}: {}", comma, Quoted(name),
                        text ? Quoted(*text) : fmt::to_string(std::get<std::int64_t>(value)));
    comma = ", ";
  }
  json += fmt::format("}}, \"provider\": {}, ", Quoted(row.provider));
  if (row.ns) {
    json += fmt::format(
        "\"ns\": {{\"samples\": {}, \"median_ns\": {:.6g}, \"low_ns\": {:.6g}, \"high_ns\": "
        "{:.6g}}}}}",
        row.ns->samples, row.ns->median, row.ns->low, row.ns->high);
  } else {
    json += fmt::format("\"missing\": {}}}", Quoted(row.missing));
  }
  return json;
}

}  // namespace unis
