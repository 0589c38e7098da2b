// One snapshot of everything that `unis ps` and `unis top` show.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/run/core_control.h"
#include "engine/run/deployment.h"
#include "engine/run/function_times.h"
#include "engine/run/thread_registry.h"
#include "engine/timer/tsc_timer.h"
#include "unis/v1/engine.pb.h"

namespace unis {

// What there is of a run; no decision before the start.
struct RunView {
  Deployment& deployment;
  const ThreadRegistry& threads;
  std::optional<Decision> decision;
  ScheduleCounts counts;
  const FunctionTimes& times;
  const std::map<std::string, std::shared_ptr<FunctionCost>>& costs;  // by function
  const std::vector<std::unique_ptr<SchedulerComponent>>& schedulers;
  const TscTimer& timer;
};

// Chains, functions, cores, components, account and memory.
void FillStats(const RunView& run, bool latency, v1::Stats& stats);

}  // namespace unis
