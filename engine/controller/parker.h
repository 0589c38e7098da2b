// Parks threads: UNiS' EAL plug-in waits on a word in memory that it shares with the engine, where
// it has found its ports empty (turns_shm.h). One thread sleeps, not its process, and no signal is
// sent. Whatever becomes of the engine, the thread polls again after UNIS_REST_MS.
//
// The program can write that memory, and the engine believes nothing there: a program that lies
// spins.
#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/base/turns.h"
#include "engine/controller/held_thread.h"
#include "engine/scheduler/components.h"

namespace unis {

class Parker {
 public:
  // Looks for the plug-in in the process of each task.
  explicit Parker(const std::vector<HeldThread*>& tasks);
  ~Parker() { UnparkAll(); }
  Parker(const Parker&) = delete;
  Parker& operator=(const Parker&) = delete;

  // `task` cannot be parked from now on.
  void Never(TaskIndex task) noexcept { tasks_[task].never = true; }
  // As ProcessController has them. False: the task has not the plug-in, or has polled no port yet.
  bool CanPark(TaskIndex task) noexcept;
  void Park(TaskIndex task) noexcept;
  // A system call if the task is parked.
  void Unpark(TaskIndex task) noexcept;
  void UnparkAll() noexcept;

  // Null: the task's process has not the plug-in, and why_not() says so of the first such.
  const std::shared_ptr<Turns>& turns(TaskIndex task) const { return tasks_[task].turns; }
  const absl::Status& why_not() const { return why_not_; }

 private:
  struct Task {
    pid_t tid;
    std::shared_ptr<Turns> turns;
    unis_turn* turn = nullptr;  // null: not seen to poll
    std::uint32_t word = 0;     // last used; 0 says nothing
    bool parked = false;
    bool never = false;
  };

  std::vector<Task> tasks_;
  absl::Status why_not_;
};

}  // namespace unis
