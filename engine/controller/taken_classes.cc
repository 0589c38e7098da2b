#include "engine/controller/taken_classes.h"

#include <algorithm>

namespace unis {

bool TakenClasses::any() const noexcept {
  return std::ranges::any_of(before_, [](const auto& before) { return before.has_value(); });
}

absl::Status TakenClasses::Take(int policy, int priority) {
  before_.assign(tasks_.size(), std::nullopt);
  for (std::size_t task = 0; task < tasks_.size(); ++task) {
    const auto before = tasks_[task]->Class();
    if (!before.ok()) return before.status();
    before_[task] = *before;
    if (auto status = tasks_[task]->SetClass(policy, priority); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status TakenClasses::Restore() {
  absl::Status first;
  for (std::size_t task = 0; task < before_.size(); ++task) {
    if (!before_[task]) continue;
    const auto status = tasks_[task]->RestoreClass(*before_[task]);
    if (status.ok()) before_[task].reset();
    first.Update(status);
  }
  return first;
}

}  // namespace unis
