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
    std::vector<HeldThread*> tasks) {
  std::unique_ptr<HandoverController> made(new HandoverController(std::move(tasks)));
  if (std::ranges::any_of(made->states_, [](const State& state) { return state.turns != nullptr; }))
    return made;
  const absl::Status& why_not = made->parker_.why_not();
  return absl::FailedPreconditionError("controller handover: " + std::string(why_not.message()));
}

HandoverController::HandoverController(std::vector<HeldThread*> tasks)
    : TaskController(tasks), tasks_(std::move(tasks)), taken_(tasks_), states_(tasks_.size()) {
  for (TaskIndex task = 0; task < tasks_.size(); ++task) states_[task].turns = parker_.turns(task);
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
    if (state.turn) __atomic_store_n(&state.turn->grant, 0, __ATOMIC_RELEASE);
  }
  return taken_.Restore();
}

// Who is raised goes behind those that are.
bool HandoverController::Start(CoreIndex, TaskIndex first) noexcept {
  if (!states_[first].in_line && !Raise(first)) return false;
  // Until all others are in line it has its turn, or they would yield to each other meanwhile.
  if (states_[first].in_line && !SetPriority(first, kFoot)) return false;
  for (std::size_t i = 1; i <= tasks_.size(); ++i) {
    const auto task = static_cast<TaskIndex>((first + i) % tasks_.size());
    if (!states_[task].in_line) continue;
    (void)SetPriority(task, kInLine);
    TakeIn(task);
  }
  return true;
}

// `first` has its turn until the others are in order. Its priority then falls, and the kernel puts
// it in front of the threads of the lower priority.
bool HandoverController::PutInOrder(TaskIndex first) noexcept {
  if (above_ || !states_[first].in_line || !SetPriority(first, kFoot)) return false;
  for (std::size_t i = 1; i < tasks_.size(); ++i) {
    const auto task = static_cast<TaskIndex>((first + i) % tasks_.size());
    if (states_[task].in_line) (void)GoToEnd(task);
  }
  return SetPriority(first, kInLine);
}

// It has turns in the line from now on.
void HandoverController::TakeIn(TaskIndex task) noexcept {
  State& state = states_[task];
  if (state.turn) {
    state.began = Load(state.turn->began);
    __atomic_store_n(&state.turn->grant, 0, __ATOMIC_RELEASE);  // by one before
  }
  TellBudget(task);
}

void HandoverController::LetRingsJoin(bool join, TaskIndex current) noexcept {
  for (TaskIndex task = 0; task < tasks_.size(); ++task) {
    State& state = states_[task];
    if (!state.has_rings) continue;
    if (state.in_line && !join) state.turns->SetBudget(0);
    if (state.turn == nullptr) state.turn = state.turns->Of(tasks_[task]->own_tid());
    state.in_line = join;
  }
  const bool any_in_line = std::ranges::any_of(states_, &State::in_line);
  if (!any_in_line) (void)Raise(current);
  for (std::size_t i = 1; i <= tasks_.size(); ++i) {
    const auto task = static_cast<TaskIndex>((current + i) % tasks_.size());
    const State& state = states_[task];
    if (state.in_line && join) {
      if (above_ == task) above_.reset();
      (void)GoToEnd(task);
      if (state.has_rings) TakeIn(task);
    } else if (state.has_rings && task != above_) {
      (void)SetPriority(task, kWaiting);
    }
  }
  if (join && above_) BackToLine();
  back_ = any_in_line;
}

bool HandoverController::Switch(CoreIndex, TaskIndex from, TaskIndex to) noexcept {
  if (!states_[to].in_line) return Raise(to);
  if (!states_[from].in_line) {
    BackToLine();
    return true;
  }
  return GoToEnd(from);
}

// Above the line, and whoever is there.
bool HandoverController::Raise(TaskIndex task) noexcept {
  int priority = kFoot;
  if (above_ && states_[*above_].priority >= kTop) {
    for (TaskIndex other = 0; other < tasks_.size(); ++other) {
      if (!states_[other].in_line && other != *above_ && states_[other].priority != kWaiting)
        (void)SetPriority(other, kWaiting);
    }
    (void)SetPriority(*above_, kFoot);
    states_[*above_].priority = kFoot;  // also of one that is dead
  }
  if (above_) priority = states_[*above_].priority + 1;
  if (!SetPriority(task, priority)) return false;
  above_ = task;
  return true;
}

// Who runs goes last, or others would run in between.
void HandoverController::BackToLine() noexcept {
  for (TaskIndex task = 0; task < tasks_.size(); ++task) {
    if (!states_[task].in_line && task != above_ && states_[task].priority != kWaiting)
      (void)SetPriority(task, kWaiting);
  }
  if (above_) (void)SetPriority(*above_, kWaiting);
  above_.reset();
  back_ = true;
}

// At first only processes all of whose threads poll ports are in line.
void HandoverController::FindPlaces() noexcept {
  for (TaskIndex task = 0; task < tasks_.size(); ++task) {
    State& state = states_[task];
    if (state.turns) state.turn = state.turns->Of(tasks_[task]->own_tid());
  }
  for (TaskIndex task = 0; task < tasks_.size(); ++task) {
    State& state = states_[task];
    state.in_line = true;
    for (TaskIndex other = 0; other < tasks_.size(); ++other) {
      if (tasks_[other]->pid() == tasks_[task]->pid() && states_[other].turn == nullptr)
        state.in_line = false;
    }
    state.has_rings = !state.in_line && state.turns != nullptr;
  }
}

std::optional<YieldingTasks::Turn> HandoverController::CurrentTurn(CoreIndex) noexcept {
  std::optional<TaskIndex> newest, ended, in_turn;  // `ended`: a turn that has begun and is over
  for (TaskIndex task = 0; task < tasks_.size(); ++task) {
    State& state = states_[task];
    if (!SupportsYield(task)) continue;
    const std::uint32_t began = Load(state.turn->began);
    const bool has_turn = Load(state.turn->passed) != began;
    if (has_turn) in_turn = task;
    const std::uint32_t turns = began - std::exchange(state.began, began);
    if (turns == 0) continue;
    // It is the program that says so; more than some cannot be in one look.
    state.begun += std::min(turns, kMostTurns);
    (has_turn ? newest : ended) = task;
  }
  const bool back = std::exchange(back_, false);
  if (newest) return Turn{.task = *newest, .begun = true};
  // Without work turns are so short that most looks find none under way.
  if (ended) return Turn{.task = *ended, .begun = true};
  if (back && in_turn) return Turn{.task = *in_turn, .begun = false};
  return std::nullopt;
}

bool HandoverController::AnyInTurn(CoreIndex) noexcept {
  return std::ranges::any_of(states_, [](const State& state) {
    return state.in_line && state.turn && Load(state.turn->passed) != Load(state.turn->began);
  });
}

bool HandoverController::InTurn(TaskIndex task) const noexcept {
  const unis_turn* const turn = states_[task].turn;
  return turn != nullptr && Load(turn->passed) != Load(turn->began);
}

// The thread writes `before` first. If it begins a turn meanwhile, both times are equal.
YieldingTasks::TurnTimes HandoverController::LastTurns(TaskIndex task) const noexcept {
  const unis_turn* const turn = states_[task].turn;
  if (turn == nullptr) return {};
  const std::uint64_t last = __atomic_load_n(&turn->began_at, __ATOMIC_ACQUIRE);
  return {.last = last, .before = __atomic_load_n(&turn->began_before, __ATOMIC_ACQUIRE)};
}

std::uint32_t HandoverController::TakenInTurns(TaskIndex task) const noexcept {
  const unis_turn* const turn = states_[task].turn;
  return turn == nullptr ? 0 : Load(turn->taken);
}

bool HandoverController::SetPriority(TaskIndex task, int priority) noexcept {
  if (!tasks_[task]->SetPriority(priority)) return false;
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
    if (tasks_[other]->pid() == tasks_[task]->pid()) least = std::min(least, states_[other].budget);
  }
  states_[task].turns->SetBudget(least);
}

void HandoverController::RequestYield(TaskIndex task) noexcept {
  const State& state = states_[task];
  if (state.turn == nullptr || Load(state.turn->leave) == state.began) return;
  __atomic_store_n(&state.turn->leave, state.began, __ATOMIC_RELEASE);
}

void HandoverController::Grant(TaskIndex task, std::uint32_t packets) noexcept {
  State& state = states_[task];
  if (state.turn == nullptr) return;
  state.grants = state.grants % UNIS_GRANTS + 1;
  const std::uint32_t most = UNIS_GRANT_MOST, grant = state.grants * (most + 1);
  __atomic_store_n(&state.turn->grant, grant + std::min(packets, most), __ATOMIC_RELEASE);
}

}  // namespace unis
