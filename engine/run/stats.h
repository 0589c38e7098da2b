// One snapshot of everything that `unis ps` and `unis top` show.
#pragma once

#include <memory>
#include <vector>

#include "engine/run/control.h"
#include "engine/run/deployment.h"
#include "engine/run/members.h"
#include "engine/run/scheduler_component.h"
#include "engine/run/work_counter.h"
#include "engine/timer/tsc_timer.h"
#include "unis/v1/engine.pb.h"

namespace unis {

// What there is of a run; `control` is null before the start.
struct RunView {
  Deployment& deployment;
  const Members& members;
  Control* control;
  WorkCounter& work;
  const Costs& costs;
  const std::vector<std::size_t>& function_of;  // per task
  const std::vector<std::unique_ptr<SchedulerComponent>>& schedulers;
  const TscTimer& timer;
};

// Chains, functions, cores, components, account and memory.
void FillStats(const RunView& run, bool latency, v1::Stats& stats);

}  // namespace unis
