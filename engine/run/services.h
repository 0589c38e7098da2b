// What the parts of a run have in common.
#pragma once

#include <absl/status/status.h>
#include <sys/resource.h>

#include "engine/platform/component.h"

namespace unis {

// What a call that is broken off answers.
inline absl::Status Ending() { return absl::AbortedError("the run is ending"); }
inline absl::Status CallerGone() { return absl::CancelledError("the caller has gone"); }

// Lets a service lcore run the component, before the engine's other threads, which answer calls.
// Not in a real-time class: services spin, and nothing else would ever run on their CPU.
inline absl::Status RunFavoured(Component& component, unsigned lcore) {
  constexpr int kServiceNice = -3;
  auto status = component.RunOn(lcore);
  if (status.ok()) component.Do([] { (void)setpriority(PRIO_PROCESS, 0, kServiceNice); });
  return status;
}

}  // namespace unis
