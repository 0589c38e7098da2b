// What schedulers have counted, over arrangements that come and go: by CPU and by function, for the
// numbers of cores and tasks are those of one arrangement. Only grows.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/run/control.h"
#include "engine/run/topology.h"

namespace unis {

struct ScheduleCounts {
  struct Core {
    std::optional<std::string> current;  // function; none: the core rests, or the kernel decides
    std::uint64_t switches = 0;
    std::uint64_t failed_switches = 0;
    std::uint64_t rests = 0;
    bool resting = false;
    std::optional<std::string> cannot_rest;  // function
    std::uint32_t quota = 0;                 // packets of a turn; 0: nobody hands the CPU over
    Nanoseconds switch_ns = 0;               // from decision to work, as seen
  };
  std::map<unsigned, Core> cores;                    // by CPU
  std::map<std::string, std::uint64_t> switched_in;  // by function
  std::uint64_t decisions = 0;

  // `function_of` each task.
  void Add(const Control::Counts& counts, const Topology& topology,
           const std::vector<std::size_t>& function_of) {
    const auto name = [&](TaskIndex task) {
      return topology.functions[function_of[task]].config.name();
    };
    decisions += counts.decisions;
    for (std::size_t i = 0; i < counts.cores.size(); ++i) {
      Core& core = cores[topology.cpus[i]];
      core.switches += counts.cores[i].switches;
      core.failed_switches += counts.cores[i].failed_switches;
      core.rests += counts.cores[i].rests;
      core.resting = counts.cores[i].resting;
      core.quota = counts.cores[i].quota;
      core.switch_ns = counts.cores[i].switch_ns;
      if (counts.cores[i].cannot_rest) core.cannot_rest = name(*counts.cores[i].cannot_rest);
      if (counts.cores[i].current) core.current = name(*counts.cores[i].current);
    }
    for (TaskIndex task = 0; task < counts.switched_in.size(); ++task)
      switched_in[name(task)] += counts.switched_in[task];
  }

  std::uint64_t Switches() const {
    std::uint64_t switches = 0;
    for (const auto& [cpu, core] : cores) switches += core.switches;
    return switches;
  }
};

}  // namespace unis
