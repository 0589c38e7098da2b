// The CPU is handed over where a function polls: all tasks of a core are SCHED_FIFO with one
// priority, and UNiS' EAL plug-in yields to the next in line when a function has found its ports
// empty or has taken its budget (ports/unis_ports). No system call of ours, no interrupt.
//
// The scheduler preempts a task that stands still: its priority goes one down and up again, which
// puts it at the end of the line.
//
// A thread that polls only rings inside its program never passes the CPU on. With the plug-in in
// its process, the scheduler may take all threads of the process into the line (LetRingsJoin), and
// preempts them there. Out of the line they run as under PriorityController: above the line while
// the scheduler lets them, and else not at all.
#pragma once

#include <rte_cycles.h>

#include <memory>
#include <optional>
#include <vector>

#include "engine/base/turns.h"
#include "engine/controller/taken_classes.h"
#include "engine/controller/task_controller.h"

namespace unis {

class HandoverController final : public TaskController, public YieldingTasks {
 public:
  static constexpr int kWaiting = 1;  // priority of those that have to be switched to
  static constexpr int kInLine = 2;
  static constexpr int kFoot = 3;
  static constexpr int kTop = 48;  // below a switch, see PriorityController
  static constexpr std::uint32_t kNoBudget = ~std::uint32_t{0};  // until the scheduler says one

  // An error: none of the functions has the plug-in.
  static absl::StatusOr<std::unique_ptr<HandoverController>> Create(std::vector<HeldThread*> tasks);
  ~HandoverController() override;

  absl::Status Acquire() override;
  absl::Status Release() override;
  bool Start(CoreIndex core, TaskIndex first) noexcept override;
  bool Switch(CoreIndex core, TaskIndex from, TaskIndex to) noexcept override;
  YieldingTasks* yielding() noexcept override { return this; }
  std::optional<Turn> CurrentTurn(CoreIndex core) noexcept override;
  bool AnyInTurn(CoreIndex core) noexcept override;
  bool InTurn(TaskIndex task) const noexcept override;
  bool SupportsYield(TaskIndex task) const noexcept override {
    return states_[task].in_line && states_[task].turn != nullptr;
  }
  bool PollsRings(TaskIndex task) const noexcept override {
    return states_[task].turns != nullptr && states_[task].turn == nullptr;
  }
  void LetRingsJoin(bool join, TaskIndex current) noexcept override;
  TurnTimes LastTurns(TaskIndex task) const noexcept override;
  std::uint64_t TurnClock() const noexcept override { return rte_rdtsc(); }
  bool PutInOrder(TaskIndex first) noexcept override;
  std::uint32_t TakenInTurns(TaskIndex task) const noexcept override;
  std::uint64_t TurnsOf(TaskIndex task) const noexcept override { return states_[task].begun; }
  void RequestYield(TaskIndex task) noexcept override;
  void Grant(TaskIndex task, std::uint32_t packets) noexcept override;
  void SetBudget(TaskIndex task, std::uint32_t packets) noexcept override;

 private:
  struct State {
    std::shared_ptr<Turns> turns;  // null: no plug-in
    unis_turn* turn = nullptr;     // null: it has not polled yet
    bool in_line = false;
    bool has_rings = false;            // in line only while LetRingsJoin() says so
    std::uint32_t budget = kNoBudget;  // packets of a turn
    std::uint32_t began = 0;           // as last seen
    std::uint32_t grants = 0;          // number of the last one, from 1 to UNIS_GRANTS
    std::uint64_t begun = 0;           // turns, since Start()
    int priority = kWaiting;
  };

  explicit HandoverController(std::vector<HeldThread*> tasks);
  void FindPlaces() noexcept;
  void TakeIn(TaskIndex task) noexcept;
  bool GoToEnd(TaskIndex task) noexcept {
    return SetPriority(task, kWaiting) && SetPriority(task, kInLine);
  }
  bool Raise(TaskIndex task) noexcept;
  void BackToLine() noexcept;
  bool SetPriority(TaskIndex task, int priority) noexcept;
  void TellBudget(TaskIndex task) noexcept;

  std::vector<HeldThread*> tasks_;
  TakenClasses taken_;
  std::vector<State> states_;       // per task
  std::optional<TaskIndex> above_;  // the line
  bool back_ = false;               // to the line, since the last look at it
};

}  // namespace unis
