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
    CoreStatistics statistics;
    std::optional<std::string>
        current;  // function; none: the core is parked, or the kernel decides
    std::optional<std::string> cannot_park;  // function
  };
  std::map<unsigned, Core> cores;                    // by CPU
  std::map<std::string, std::uint64_t> switched_in;  // by function

  // `function_of` each task.
  void Add(const Control::Counts& counts, const Topology& topology,
           const std::vector<std::size_t>& function_of) {
    const auto name = [&](TaskIndex task) {
      return topology.functions[function_of[task]].config.name();
    };
    for (std::size_t i = 0; i < counts.cores.size(); ++i) {
      Core& core = cores[topology.cpus[i]];
      core.statistics.GoOnWith(counts.cores[i]);
      if (const auto task = counts.cores[i].current) core.current = name(*task);
      if (const auto task = counts.cores[i].cannot_park) core.cannot_park = name(*task);
    }
    for (TaskIndex task = 0; task < counts.switched_in.size(); ++task)
      switched_in[name(task)] += counts.switched_in[task];
  }

  // A counter of all cores.
  std::uint64_t Sum(std::uint64_t CoreStatistics::*counter) const {
    std::uint64_t sum = 0;
    for (const auto& [cpu, core] : cores) sum += core.statistics.*counter;
    return sum;
  }
};

}  // namespace unis
