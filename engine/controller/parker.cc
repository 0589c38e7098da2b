#include "engine/controller/parker.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

namespace unis {

static_assert(ProcessController::kParkHolds == UNIS_REST_MS * 1'000'000);

Parker::Parker(const std::vector<HeldThread*>& tasks) {
  for (HeldThread* task : tasks) {
    auto turns = Turns::Find(task->pid());
    why_not_.Update(turns.status());
    tasks_.push_back({.tid = task->own_tid(), .turns = turns.ok() ? *std::move(turns) : nullptr});
  }
}

bool Parker::CanPark(TaskIndex index) noexcept {
  Task& task = tasks_[index];
  if (task.never) return false;
  if (task.turn == nullptr && task.turns) task.turn = task.turns->Of(task.tid);
  return task.turn != nullptr;
}

void Parker::Park(TaskIndex index) noexcept {
  Task& task = tasks_[index];
  task.parked = true;
  task.word = std::max(1U, task.word + 1);
  __atomic_store_n(&task.turn->rest, task.word, __ATOMIC_RELEASE);
}

// A thread that has not begun to wait finds that the word is another.
void Parker::Unpark(TaskIndex index) noexcept {
  Task& task = tasks_[index];
  if (!task.parked) return;
  task.parked = false;
  __atomic_store_n(&task.turn->rest, 0, __ATOMIC_RELEASE);
  (void)syscall(SYS_futex, &task.turn->rest, FUTEX_WAKE, 1, nullptr, nullptr, 0);
}

void Parker::UnparkAll() noexcept {
  for (TaskIndex task = 0; task < tasks_.size(); ++task) Unpark(task);
}

}  // namespace unis
