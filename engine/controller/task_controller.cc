#include "engine/controller/task_controller.h"

#include "engine/controller/cgroup_controller.h"
#include "engine/controller/priority_controller.h"
#include "engine/controller/signal_controller.h"

namespace unis {

absl::StatusOr<std::unique_ptr<NfController>> MakeController(ControllerKind kind,
                                                             std::vector<NfThread> nfs,
                                                             const std::string& run) {
  switch (kind) {
    case ControllerKind::kPriority:
      return std::make_unique<PriorityController>(std::move(nfs));
    case ControllerKind::kSignal:
      return std::make_unique<SignalController>(std::move(nfs));
    case ControllerKind::kCgroup:
      return CgroupController::Create(std::move(nfs), run);
  }
  return absl::InvalidArgumentError("unknown process controller");
}

}  // namespace unis
