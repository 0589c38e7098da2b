// unis-calibrate: what memory, switches, system calls and probes take on this machine.
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "models/calibrate/scheduling.h"
#include "models/calibrate/sections.h"

namespace unis {
namespace {

using Section = void (*)(const Settings&, const Report&);

// In the order in which they are measured.
constexpr std::array<std::pair<const char*, Section>, 7> kSections = {{
    {"memory", MeasureMemory},
    {"call", MeasureCalls},
    {"switch", MeasureSwitches},
    {"wake_up", MeasureWakeUps},
    {"timer", MeasureTimers},
    {"packet", MeasurePacketCalls},
    {"probe", MeasureProbes},
}};

int Main(int argc, char** argv) {
  CLI::App app(
      "Measures what memory, system calls, switches, wake-ups, timers, packet sockets and BPF "
      "programs take on a CPU, and prints a line of JSON for each. `unis calibrate` starts it.",
      "unis-calibrate");
  Settings settings;
  std::vector<std::string> names, only;
  for (const auto& [name, section] : kSections) names.emplace_back(name);
  const auto cpus = CLI::Range(0, CPU_SETSIZE - 1);
  app.add_option("cpu", settings.cpu, "CPU to measure; not 0 for real-time classes")
      ->required()
      ->check(cpus);
  app.add_option("other", settings.other_cpu, "CPU from which to wake it up")->check(cpus);
  app.add_flag("--quick", settings.quick, "few samples, arrays up to 4 MiB");
  app.add_option("--only", only, "these groups alone")->delimiter(',')->check(CLI::IsMember(names));
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  if (!PinnedTo(settings.cpu).there()) {
    fmt::print(stderr, "unis-calibrate: the kernel refuses CPU {}\n", settings.cpu);
    return 2;
  }
  // Ends with whoever reads it: a frozen reader's terminal is no reason to measure on.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  settings.probes = std::filesystem::read_symlink("/proc/self/exe").parent_path() / "probes.bpf.o";
  const Report print = [](const Row& row) {
    fmt::print("{}\n", ToJson(row));
    std::fflush(stdout);  // children are forked between two rows
  };
  for (const auto& [name, section] : kSections)
    if (only.empty() || std::find(only.begin(), only.end(), name) != only.end())
      section(settings, print);
  return 0;
}

}  // namespace
}  // namespace unis

int main(int argc, char** argv) { return unis::Main(argc, argv); }
