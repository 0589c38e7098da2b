// unis-sim: a Scenario in JSON from a file or stdin, its SimResult in JSON on stdout.
#include <exception>
#include <fstream>
#include <iostream>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>

#include "models/simulator/scenario_json.h"
#include "models/simulator/simulation.h"

namespace {

constexpr std::string_view kHelp =
    R"(usage: unis-sim [FILE]

Simulates chains of poll-mode functions that share CPU cores, on virtual time, with the scheduler of
unisd. Reads a Scenario (proto/unis/v1/simulator.proto) as protobuf JSON from FILE, or from stdin if
FILE is absent or "-", and writes a SimResult as JSON to stdout. The same scenario gives the same
result.

A function is one task, however many chains pass through it. A chain is a path or a graph of edges. Simulated are warmup_ns, which are not
counted, and then duration_ns. Packets that are in flight when the warm-up ends count as offered, so:
offered = delivered + dropped + in_flight.

Fields that are 0 or absent take a default:
  machine    switch_ns 14000, switch_call_ns 8000, yield_ns 1400, kernel_switch_ns 2500, poll_ns 20,
             rr_slice_ns 100 ms, fair_slice_ns 3 ms; source_ns and sink_ns 0: they take no time
  scheduler  the paper's settings if it is absent as a whole; else every field as given, but lead_ns
             is machine.switch_ns less kernel_switch_ns if absent
  arrivals   saturating, size 64, burst 32
  handover   with POLICY_UNIS: false, the engine takes the CPU from functions; true: they pass it on

A smallest scenario:
  {"policy": "POLICY_UNIS", "duration_ns": 1000000000,
   "functions": [{"name": "a", "cpu": 1, "cost_ns": 50}, {"name": "b", "cpu": 1, "cost_ns": 50}],
   "chains": [{"name": "c", "path": ["a", "b"], "capacity": [2047]}]}

exit status: 0 simulated, 2 bad scenario or arguments (one sentence on stderr)
)";

int Fail(std::string_view where, std::string_view sentence) {
  std::cerr << "unis-sim: " << where << ": " << sentence << "\n";
  return 2;
}

std::optional<std::string> ReadAll(std::istream& in) {
  try {
    std::string text(std::istreambuf_iterator<char>(in), {});
    return text;
  } catch (const std::ios_base::failure&) {  // libstdc++: it is a directory, or the disk fails
    return std::nullopt;
  }
}

int Run(const std::string& file) {
  const bool from_stdin = file == "-";
  const std::string where = from_stdin ? "standard input" : file;
  std::optional<std::string> json;
  if (from_stdin) {
    json = ReadAll(std::cin);
  } else if (std::ifstream in(file); in) {
    json = ReadAll(in);
  }
  if (!json) return Fail(where, "cannot be read; give the path of a scenario in JSON.");
  const auto scenario = unis::sim::ScenarioFromJson(*json);
  if (!scenario.ok()) return Fail(where, std::string(scenario.status().message()));
  std::cout << unis::sim::ResultToJson(*scenario, unis::sim::Simulate(*scenario));
  return std::cout.flush() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string file = argc > 1 ? argv[1] : "-";
  if (file == "--help" || file == "-h") {
    std::cout << kHelp;
    return 0;
  }
  if (argc > 2 || (file.size() > 1 && file.front() == '-')) {
    return Fail("arguments", "expected at most one file; see unis-sim --help.");
  }
  try {
    return Run(file);
  } catch (const std::exception& failure) {
    std::cerr << "unis-sim: " << failure.what() << "\n";
    return 1;
  }
}
