#include "engine/controller/handover_controller.h"

#include <algorithm>
#include <utility>

namespace unis {
namespace {

constexpr std::uint32_t kMostTurns = 1'000'000;  // that one look can have missed

std::uint32_t Load(const std::uint32_t& field) noexcept {
  return __atomic_load_n(&field, __ATOMIC_ACQUIRE);
}

}  // namespace

absl::StatusOr<std::unique_ptr<HandoverController>> HandoverController::Create(
    std::vector<ControlledTask> tasks) {
  std::unique_ptr<HandoverController> made(new HandoverController(std::move(tasks)));
  if (std::ranges::any_of(made->states_, [](const State& state) { return state.turns != nullptr; }))
    return made;
  const absl::Status& why_not = made->parker_.why_not();
  return absl::FailedPreconditionError("controller handover: " + std::string(why_not.message()));
}

HandoverController::HandoverController(std::vector<ControlledTask> tasks)
    : TaskController(tasks), tasks_(std::move(tasks)), taken_(tasks_), states_(tasks_.size()) {
  for (TaskIndex task = 0; task < tasks_.size(); ++task) {
    states_[task].turns = parker_.turns(task);
    cores_.resize(std::max<std::size_t>(cores_.size(), tasks_[task].core + 1));
    cores_[tasks_[task].core].tasks.push_back(task);
  }
}

HandoverController::~HandoverController() { (void)Release(); }

absl::Status HandoverController::Acquire() {
  if (taken_.any()) return AcquiredAlready();
  FindPlaces();
  for (State& state : states_) state.priority = kWaiting;
  auto status = taken_.Take(SCHED_FIFO, kWaiting);
  if (!status.ok()) status.Update(Release());
  return status;
}

absl::Status HandoverController::Release() {
  parker_.UnparkAll();
  for (const State& state : states_) {
    if (state.turns) state.turns->SetBudget(0);
  }
  return taken_.Restore();
}

// Who is raised goes behind those that are.
bool HandoverController::Start(CoreIndex core, TaskIndex first) noexcept {
  Core& here = cores_[core];
  if (!states_[first].in_line && !Raise(here, first)) return false;
  const auto at = std::ranges::find(here.tasks, first);
  if (at == here.tasks.end()) return false;
  const auto offset = static_cast<std::size_t>(at - here.tasks.begin());
  for (std::size_t i = 0; i < here.tasks.size(); ++i) {
    const TaskIndex task = here.tasks[(offset + i) % here.tasks.size()];
    if (!states_[task].in_line) continue;
    if (!SetPriority(task, kInLine) && i == 0) return false;
    states_[task].began = Load(states_[task].turn->began);
    TellBudget(task);
  }
  return true;
}

bool HandoverController::Switch(CoreIndex core, TaskIndex from, TaskIndex to) noexcept {
  Core& here = cores_[core];
  if (!states_[to].in_line) return Raise(here, to);
  if (!states_[from].in_line) {
    BackToLine(here);
    return true;
  }
  return SetPriority(from, kWaiting) && SetPriority(from, kInLine);
}

// Above the line, and whoever is there.
bool HandoverController::Raise(Core& core, TaskIndex task) noexcept {
  int priority = kFoot;
  if (core.above && states_[*core.above].priority >= kTop) {
    for (const TaskIndex other : core.tasks) {
      if (!states_[other].in_line && other != *core.above && states_[other].priority != kWaiting)
        (void)SetPriority(other, kWaiting);
    }
    (void)SetPriority(*core.above, kFoot);
    states_[*core.above].priority = kFoot;  // also of one that is dead
  }
  if (core.above) priority = states_[*core.above].priority + 1;
  if (!SetPriority(task, priority)) return false;
  core.above = task;
  return true;
}

// Who runs goes last, or others would run in between.
void HandoverController::BackToLine(Core& core) noexcept {
  for (const TaskIndex task : core.tasks) {
    if (!states_[task].in_line && task != core.above && states_[task].priority != kWaiting)
      (void)SetPriority(task, kWaiting);
  }
  if (core.above) (void)SetPriority(*core.above, kWaiting);
  core.above.reset();
  core.back = true;
}

// Only processes all of whose threads poll ports pass the CPU on.
void HandoverController::FindPlaces() noexcept {
  for (TaskIndex task = 0; task < tasks_.size(); ++task) {
    State& state = states_[task];
    if (state.turns) state.turn = state.turns->Of(tasks_[task].thread->tid());
  }
  for (TaskIndex task = 0; task < tasks_.size(); ++task) {
    states_[task].in_line = true;
    for (TaskIndex other = 0; other < tasks_.size(); ++other) {
      if (tasks_[other].thread->pid() == tasks_[task].thread->pid() &&
          states_[other].turn == nullptr)
        states_[task].in_line = false;
    }
  }
}

std::optional<YieldingTasks::Turn> HandoverController::CurrentTurn(CoreIndex core) noexcept {
  Core& here = cores_[core];
  std::optional<TaskIndex> newest, ended, in_turn;  // `ended`: a turn that has begun and is over
  for (const TaskIndex task : here.tasks) {
    State& state = states_[task];
    if (!state.in_line) continue;
    const std::uint32_t began = Load(state.turn->began);
    const bool has_turn = Load(state.turn->passed) != began;
    if (has_turn) in_turn = task;
    const std::uint32_t turns = began - std::exchange(state.began, began);
    if (turns == 0) continue;
    // It is the program that says so; more than some cannot be in one look.
    state.begun += std::min(turns, kMostTurns);
    (has_turn ? newest : ended) = task;
  }
  const bool back = std::exchange(here.back, false);
  if (newest) return Turn{.task = *newest, .begun = true};
  // Without work turns are so short that most looks find none under way.
  if (ended) return Turn{.task = *ended, .begun = true};
  if (back && in_turn) return Turn{.task = *in_turn, .begun = false};
  return std::nullopt;
}

bool HandoverController::SetPriority(TaskIndex task, int priority) noexcept {
  if (!tasks_[task].thread->SetPriority(priority)) return false;
  states_[task].priority = priority;
  return true;
}

void HandoverController::SetBudget(TaskIndex task, std::uint32_t packets) noexcept {
  states_[task].budget = packets;
  if (states_[task].in_line) TellBudget(task);
}

// The threads of a process have one between them: the least.
void HandoverController::TellBudget(TaskIndex task) noexcept {
  std::uint32_t least = states_[task].budget;
  for (TaskIndex other = 0; other < tasks_.size(); ++other) {
    if (tasks_[other].thread->pid() == tasks_[task].thread->pid())
      least = std::min(least, states_[other].budget);
  }
  states_[task].turns->SetBudget(least);
}

void HandoverController::RequestYield(TaskIndex task) noexcept {
  const State& state = states_[task];
  if (state.turn == nullptr || Load(state.turn->leave) == state.began) return;
  __atomic_store_n(&state.turn->leave, state.began, __ATOMIC_RELEASE);
}

}  // namespace unis
