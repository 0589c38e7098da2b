#include "engine/base/stolen_time.h"

#include <unistd.h>

#include <charconv>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>

namespace unis {
namespace {

constexpr std::string_view kCpu = "cpu";  // and its number; without, the sum of all
constexpr int kBefore = 7;                // fields before steal: user, nice, …, softirq

}  // namespace

StolenNs ParseStolen(std::istream& stat, std::uint64_t tick_ns) {
  StolenNs stolen;
  for (std::string line; std::getline(stat, line);) {
    std::istringstream fields(line);
    std::string name;
    fields >> name;
    if (!name.starts_with(kCpu)) continue;
    unsigned cpu = 0;
    const char* const end = name.data() + name.size();
    const auto [last, error] = std::from_chars(name.data() + kCpu.size(), end, cpu);
    if (error != std::errc() || last != end) continue;
    std::uint64_t ticks = 0;
    for (int i = 0; i <= kBefore; ++i) fields >> ticks;
    if (fields) stolen[cpu] = ticks * tick_ns;
  }
  return stolen;
}

StolenNs ReadStolen() {
  std::ifstream stat("/proc/stat");
  return ParseStolen(stat, 1'000'000'000 / static_cast<std::uint64_t>(sysconf(_SC_CLK_TCK)));
}

}  // namespace unis
