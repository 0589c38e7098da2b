// Threads put into a real-time class for as long as a controller holds them.
#pragma once

#include <absl/status/status.h>

#include <optional>
#include <vector>

#include "engine/controller/held_thread.h"

namespace unis {

class TakenClasses {
 public:
  // None yet. `tasks` outlive it.
  explicit TakenClasses(const std::vector<HeldThread*>& tasks) : tasks_(tasks) {}

  bool any() const noexcept;
  // All, one after the other, into real-time class `policy` at `priority`. An error: those before
  // it stay until Restore().
  absl::Status Take(int policy, int priority);
  // As they were. Any number of times; who cannot be put back is tried again.
  absl::Status Restore();

 private:
  const std::vector<HeldThread*>& tasks_;
  std::vector<std::optional<SchedulingClass>> before_;  // per task; none: it is not taken
};

}  // namespace unis
