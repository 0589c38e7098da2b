// What the parts of a run have in common.
#pragma once

#include <absl/status/status.h>

#include "engine/base/favour.h"
#include "engine/platform/component.h"

namespace unis {

// What a call that is broken off answers.
inline absl::Status Ending() { return absl::AbortedError("the run is ending"); }
inline absl::Status CallerGone() { return absl::CancelledError("the caller has gone"); }

// Lets a service lcore run the component, before the engine's other threads.
inline absl::Status RunFavoured(Component& component, unsigned lcore) {
  auto status = component.RunOn(lcore);
  if (status.ok()) component.Do(FavourThread);
  return status;
}

}  // namespace unis
