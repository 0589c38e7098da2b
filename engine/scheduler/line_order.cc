#include "engine/scheduler/line_order.h"

#include <algorithm>

namespace unis {
namespace {

constexpr std::size_t kFewest = 3;  // fewer are always in order
// One round may be seen while the line changes.
constexpr std::uint32_t kWrongRounds = 2;
// Two system calls for each task, of 1 µs or so: a hundredth of the time.
constexpr Nanoseconds kLeastPauseEach = 200'000;
// Where repairs do not help, or the order is lost again at once.
constexpr Nanoseconds kMostPause = 1'000'000'000;

}  // namespace

LineOrder::LineOrder(const CoreTasks& tasks, YieldingTasks& yielding)
    : tasks_(tasks),
      yielding_(yielding),
      least_pause_(static_cast<Nanoseconds>(tasks.size()) * kLeastPauseEach),
      pause_(least_pause_) {
  times_.reserve(tasks.size());
  began_.reserve(tasks.size());
  turns_.reserve(tasks.size());
}

void LineOrder::Look(bool keep, Slot current, Nanoseconds now) noexcept {
  if (tasks_.size() < kFewest) return;
  const std::uint64_t clock = yielding_.TurnClock();
  times_.clear();
  YieldingTasks::TurnTimes newest;
  for (const TaskState& task : tasks_) {
    if (!yielding_.SupportsYield(task.index)) continue;
    const YieldingTasks::TurnTimes times = yielding_.LastTurns(task.index);
    // It is the program that says so.
    if (times.before >= times.last || times.last > clock) continue;
    times_.push_back(times);
    if (times_.back().last > newest.last) newest = times_.back();
  }
  // The last round is what came after the turn before of the task whose turn is the newest.
  if (newest.before == 0 || newest.before < counted_until_) return;
  began_.clear();
  turns_.clear();
  for (const YieldingTasks::TurnTimes& task : times_) {
    if (task.last <= newest.before) continue;  // it sleeps
    turns_.push_back(static_cast<std::uint32_t>(began_.size()));
    began_.push_back(task.last);
  }
  counted_until_ = newest.last;
  if (began_.size() < kFewest) return;
  std::ranges::sort(turns_, {}, [this](std::uint32_t place) { return began_[place]; });
  std::uint32_t wrong = 0;
  for (std::size_t i = 1; i < turns_.size(); ++i)
    if (turns_[i] != (turns_[i - 1] + 1) % turns_.size()) ++wrong;
  seen_ += turns_.size() - 1;
  out_of_order_ += wrong;
  if (wrong == 0) {
    wrong_rounds_ = 0;
    if (now >= repair_after_) pause_ = least_pause_;
  } else if (++wrong_rounds_ >= kWrongRounds && keep && now >= repair_after_) {
    Repair(current, now);
  }
}

void LineOrder::Repair(Slot current, Nanoseconds now) noexcept {
  if (yielding_.PutInOrder(tasks_[current].index)) ++repairs_;
  wrong_rounds_ = 0;
  repair_after_ = now + pause_;
  pause_ = std::min(2 * pause_, kMostPause);
}

}  // namespace unis
