#include "functions/macswap_cost.h"

#include <fmt/format.h>

#include <algorithm>

#include "functions/common/text.h"

namespace unis::functions {
namespace {

Result<CostStep> ParseStep(std::string_view word) {
  const auto parts = Split(word, ':');
  if (parts.size() != 2) {
    return Error{fmt::format("bad cost step '{}': must be SIZE:CYCLES", word)};
  }
  const auto size = ParseNumber(parts[0], "packet size", 1, 65535);
  if (!size) return size.error();
  const auto cycles = ParseNumber(parts[1], "cost", 0, PacketCost::kMax);
  if (!cycles) return cycles.error();
  return CostStep{static_cast<std::uint32_t>(*size), static_cast<std::uint32_t>(*cycles)};
}

}  // namespace

Result<PacketCost> PacketCost::Parse(std::string_view value) {
  const auto constant = [](std::uint64_t cycles) {
    return PacketCost({{0, static_cast<std::uint32_t>(cycles)}});
  };
  if (value == "light") return constant(kLight);
  if (value == "medium") return constant(kMedium);
  if (value == "heavy") return constant(kHeavy);
  if (value.find(':') == std::string_view::npos) {
    const auto cycles = ParseNumber(value, "cost", 0, kMax);
    if (cycles) return constant(*cycles);
    return Error{fmt::format(
        "bad cost '{}': must be light, medium, heavy, cycles up to {}, or SIZE:CYCLES,...", value,
        kMax)};
  }
  std::vector<CostStep> steps;
  for (const std::string_view word : Split(value, ',')) {
    const auto step = ParseStep(word);
    if (!step) return step.error();
    if (!steps.empty() && step->size <= steps.back().size) {
      return Error{fmt::format("bad cost step '{}': sizes must grow from step to step", word)};
    }
    steps.push_back(*step);
  }
  return PacketCost(std::move(steps));
}

bool PacketCost::IsZero() const {
  return std::ranges::all_of(steps_, [](const CostStep& step) { return step.cycles == 0; });
}

}  // namespace unis::functions
