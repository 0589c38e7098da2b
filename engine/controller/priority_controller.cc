#include "engine/controller/priority_controller.h"

#include <utility>

namespace unis {

PriorityController::PriorityController(std::vector<NfThread> nfs)
    : nfs_(std::move(nfs)), priority_(nfs_.size(), kWaiting) {}

absl::Status PriorityController::Acquire() {
  before_.clear();
  for (const NfThread& nf : nfs_) {
    auto state = ReadScheduling(nf.tid);
    if (!state.ok()) return state.status();
    before_.push_back(*state);
  }
  priority_.assign(nfs_.size(), kWaiting);
  return SetSchedulingClass(nfs_, SCHED_RR, kWaiting);
}

absl::Status PriorityController::Release() {
  absl::Status first;
  for (NfIndex nf = 0; nf < before_.size(); ++nf)
    first.Update(RestoreScheduling(nfs_[nf].tid, before_[nf]));
  before_.clear();
  return first;
}

void PriorityController::Start(CoreIndex, NfIndex first) noexcept { SetPriority(first, kFoot); }

void PriorityController::Switch(CoreIndex core, NfIndex from, NfIndex to) noexcept {
  if (priority_[from] == kTop) Descend(core, from);
  SetPriority(to, priority_[from] + 1);
}

// The current NF goes last: until then it stays above all others.
void PriorityController::Descend(CoreIndex core, NfIndex current) noexcept {
  for (NfIndex nf = 0; nf < nfs_.size(); ++nf) {
    if (nf != current && nfs_[nf].core == core && priority_[nf] != kWaiting)
      SetPriority(nf, kWaiting);
  }
  SetPriority(current, kFoot);
}

void PriorityController::SetPriority(NfIndex nf, int priority) noexcept {
  const sched_param param{.sched_priority = priority};
  // Fails only when the thread is gone, which the supervisor notices on its own.
  (void)sched_setparam(nfs_[nf].tid, &param);
  priority_[nf] = priority;
}

}  // namespace unis
