// Lets the tasks of a core sleep while none of them has work: UNiS' EAL plug-in waits on a word in
// memory that it shares with the engine, where it has found its ports empty (turns_shm.h). One
// thread sleeps, not its process, and no signal is sent. Whatever becomes of the engine, it polls
// again after UNIS_REST_MS.
//
// The engine believes nothing of that memory, which the program can write: a program that lies
// spins.
#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "engine/controller/controlled_task.h"
#include "engine/controller/turns.h"

namespace unis {

class Sleepers {
 public:
  // Looks for the plug-in in the process of each task.
  explicit Sleepers(const std::vector<ControlledTask>& tasks);
  ~Sleepers() { WakeAll(); }
  Sleepers(const Sleepers&) = delete;
  Sleepers& operator=(const Sleepers&) = delete;

  // The tasks of `core` sleep from now on; called again, at least every UNIS_REST_MS, it goes on.
  // False, and none does: one of them has not the plug-in, or has polled no port yet. No system
  // call. Calls for different cores may come from different threads at once.
  bool Rest(CoreIndex core) noexcept;
  // The same for one task alone.
  bool RestOne(TaskIndex task) noexcept;
  void WakeOne(TaskIndex task) noexcept { Wake(tasks_[task]); }
  // None sleeps any longer; `first` is woken first, then those behind it in their order. A system
  // call each.
  void Wake(CoreIndex core, TaskIndex first) noexcept;
  void WakeAll() noexcept;
  // The first task of `core` that cannot sleep, so that none there does.
  std::optional<TaskIndex> WhoCannot(CoreIndex core) noexcept;

  // Null: the task's process has not the plug-in, and why_not() says so of the first such.
  const std::shared_ptr<Turns>& turns(TaskIndex task) const { return tasks_[task].turns; }
  const absl::Status& why_not() const { return why_not_; }

 private:
  struct Task {
    CoreIndex core;
    pid_t tid;
    std::shared_ptr<Turns> turns;
    unis_turn* turn = nullptr;  // null: not seen to poll
    std::uint32_t word = 0;     // last used; 0 says nothing
    bool rests = false;
  };
  static bool CanRest(Task& task) noexcept;
  static void Rest(Task& task) noexcept;
  static void Wake(Task& task) noexcept;

  std::vector<Task> tasks_;
  absl::Status why_not_;
};

}  // namespace unis
