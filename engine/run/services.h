// What the parts of a run have in common.
#pragma once

#include <absl/status/status.h>
#include <rte_lcore.h>
#include <sched.h>
#include <spdlog/spdlog.h>

#include <string>

#include "engine/base/favour.h"
#include "engine/platform/component.h"

namespace unis {

// What a call that is broken off answers.
inline absl::Status Ending() { return absl::UnavailableError("the run is ending"); }
inline absl::Status CallerGone() { return absl::CancelledError("the caller has gone"); }

// An error that nobody is answered.
inline void Warn(const absl::Status& status) {
  if (!status.ok()) spdlog::warn("{}", std::string(status.message()));
}

// The CPU that an lcore of ours is pinned to.
inline unsigned CpuOfLcore(unsigned lcore) {
  const rte_cpuset_t cpus = rte_lcore_cpuset(lcore);
  unsigned cpu = 0;
  while (cpu < CPU_SETSIZE && !CPU_ISSET(cpu, &cpus)) ++cpu;
  return cpu;
}

// Lets a service lcore run the component, before the engine's other threads.
inline absl::Status RunFavoured(Component& component, unsigned lcore) {
  auto status = component.RunOn(lcore);
  if (status.ok()) component.Do([] { FavourThread(); });
  return status;
}

}  // namespace unis
