// What schedulers have counted, over schedulers that come and go: by CPU and by function. Only
// grows.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "engine/scheduler/core_scheduler.h"
#include "unis/v1/engine.pb.h"

namespace unis {

struct ScheduleCounts {
  struct Core {
    CoreStatistics statistics;
    v1::ControllerKind controller = v1::CONTROLLER_UNSPECIFIED;  // unspecified: the kernel decides
    std::optional<std::string> current;  // function; none: parked, or the kernel decides
    std::optional<std::string> cannot_park, sends_by_timer;  // functions
  };
  std::map<unsigned, Core> cores;                        // by CPU
  std::map<std::string, std::uint64_t> switched_in;      // by function
  std::map<std::string, std::uint64_t> waited_for_room;  // ns, by function, of all its threads

  // The schedulers of `later` come after those that are counted here.
  void GoOnWith(const ScheduleCounts& later) {
    for (const auto& [cpu, core] : later.cores) {
      Core& here = cores[cpu];
      here.statistics.GoOnWith(core.statistics);
      here.controller = core.controller;
      here.current = core.current;
      here.cannot_park = core.cannot_park;
      here.sends_by_timer = core.sends_by_timer;
    }
    for (const auto& [function, count] : later.switched_in) switched_in[function] += count;
    for (const auto& [function, ns] : later.waited_for_room) waited_for_room[function] += ns;
  }
  // The schedulers are gone: counters stay, and what describes the present is cleared.
  void Retire() {
    for (auto& [cpu, core] : cores) {
      core.statistics.GoOnWith({});
      core.controller = v1::CONTROLLER_UNSPECIFIED;
      core.current.reset();
      core.cannot_park.reset();
      core.sends_by_timer.reset();
    }
  }
  // The functions of the CPU are stopped by signals while others have their turns.
  bool StopsBySignals(unsigned cpu) const {
    const auto core = cores.find(cpu);
    return core != cores.end() && core->second.controller == v1::CONTROLLER_SIGNAL;
  }
  // A counter of all cores.
  std::uint64_t Sum(std::uint64_t CoreStatistics::*counter) const {
    std::uint64_t sum = 0;
    for (const auto& [cpu, core] : cores) sum += core.statistics.*counter;
    return sum;
  }
};

}  // namespace unis
