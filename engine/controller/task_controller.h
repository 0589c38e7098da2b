// Process Controller (sections 4.3.4 and 4.5.4): the mechanisms that let one NF of a core run and
// the others wait. The scheduler sees only ProcessController; the engine also takes control of the
// NFs and gives it back.
//
// To add a mechanism: implement NfController, name it in ControllerKind of engine.proto and in
// MakeController.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <memory>
#include <string>
#include <vector>

#include "engine/controller/nf_thread.h"
#include "engine/scheduler/components.h"

namespace unis {

enum class ControllerKind { kPriority, kSignal, kCgroup };

class NfController : public ProcessController {
 public:
  // All NFs wait, until Start() lets the first of each core run.
  virtual absl::Status Acquire() = 0;
  // No NF is held back any longer; scheduling classes are those of before Acquire(). Also after an
  // Acquire() that failed half way, and any number of times.
  virtual absl::Status Release() = 0;
};

// `nfs` in the scheduler's order, so that an NfIndex is a position in it. `run` names this run of
// UNiS, for cgroups.
absl::StatusOr<std::unique_ptr<NfController>> MakeController(ControllerKind kind,
                                                             std::vector<NfThread> nfs,
                                                             const std::string& run);

}  // namespace unis
