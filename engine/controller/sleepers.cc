#include "engine/controller/sleepers.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

namespace unis {

static_assert(ProcessController::kRestHolds == UNIS_REST_MS * 1'000'000);

Sleepers::Sleepers(const std::vector<ControlledTask>& tasks) {
  for (const ControlledTask& task : tasks) {
    auto turns = Turns::Find(task.thread->pid());
    why_not_.Update(turns.status());
    tasks_.push_back({.core = task.core,
                      .tid = task.thread->tid(),
                      .turns = turns.ok() ? *std::move(turns) : nullptr});
  }
}

std::optional<TaskIndex> Sleepers::WhoCannot(CoreIndex core) noexcept {
  for (TaskIndex i = 0; i < tasks_.size(); ++i) {
    Task& task = tasks_[i];
    if (task.core == core && !CanRest(task)) return i;
  }
  return std::nullopt;
}

bool Sleepers::CanRest(Task& task) noexcept {
  if (task.turn == nullptr && task.turns) task.turn = task.turns->Of(task.tid);
  return task.turn != nullptr;
}

bool Sleepers::Rest(CoreIndex core) noexcept {
  if (WhoCannot(core)) return false;
  for (Task& task : tasks_) {
    if (task.core == core) Rest(task);
  }
  return true;
}

bool Sleepers::RestOne(TaskIndex task) noexcept {
  if (!CanRest(tasks_[task])) return false;
  Rest(tasks_[task]);
  return true;
}

void Sleepers::Rest(Task& task) noexcept {
  task.rests = true;
  task.word = std::max(1U, task.word + 1);
  __atomic_store_n(&task.turn->rest, task.word, __ATOMIC_RELEASE);
}

void Sleepers::Wake(CoreIndex core, TaskIndex first) noexcept {
  for (std::size_t i = 0; i < tasks_.size(); ++i) {
    Task& task = tasks_[(first + i) % tasks_.size()];
    if (task.core == core) Wake(task);
  }
}

void Sleepers::WakeAll() noexcept {
  for (Task& task : tasks_) Wake(task);
}

// One that has not begun to wait finds that the word is another.
void Sleepers::Wake(Task& task) noexcept {
  if (!task.rests) return;
  task.rests = false;
  __atomic_store_n(&task.turn->rest, 0, __ATOMIC_RELEASE);
  (void)syscall(SYS_futex, &task.turn->rest, FUTEX_WAKE, 1, nullptr, nullptr, 0);
}

}  // namespace unis
