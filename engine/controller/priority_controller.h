// The paper's mechanism: NFs are in a real-time class, and the one with the highest priority runs.
//
// A switch is one system call: the next NF is raised one above the current. Nothing has to be
// lowered, for whoever ran before stays below; only at the top of the ladder all are put back to
// its foot, once in kTop − kFoot switches. Priorities stay below 50, where the kernel's interrupt
// threads are.
#pragma once

#include <vector>

#include "engine/controller/nf_controller.h"

namespace unis {

class PriorityController final : public NfController {
 public:
  static constexpr int kWaiting = 1;  // priority of an NF that has not run since the last descent
  static constexpr int kFoot = 2;
  static constexpr int kTop = 49;

  explicit PriorityController(std::vector<NfThread> nfs);

  absl::Status Acquire() override;
  absl::Status Release() override;
  void Start(CoreIndex core, NfIndex first) noexcept override;
  void Switch(CoreIndex core, NfIndex from, NfIndex to) noexcept override;

 private:
  void SetPriority(NfIndex nf, int priority) noexcept;
  void Descend(CoreIndex core, NfIndex current) noexcept;

  std::vector<NfThread> nfs_;
  std::vector<SchedulingState> before_;
  std::vector<int> priority_;  // per NF
};

}  // namespace unis
