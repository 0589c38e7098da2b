// What is left to decide where tasks pass the CPU on by themselves.
#include <algorithm>

#include "engine/scheduler/scheduler.h"

namespace unis {
namespace {

// How long after the end of its slice a task may still pass the CPU on by itself: its cost may be
// wrong, and preempting it is dear.
constexpr Nanoseconds kGrace = 200'000;
// What is looked at least so often, where a tick has nothing else to do: a look costs the tasks a
// cache line each.
constexpr Nanoseconds kLongestQuiet = 50'000;
// Where an egress was seen full, the core is looked at so often for so long, whoever runs: who
// fills it is asked again soon, also in a turn that nobody has seen begin.
constexpr Nanoseconds kWatchFull = 5'000'000;
constexpr Nanoseconds kAskAgain = 5'000;

}  // namespace

bool Scheduler::Watch(Nanoseconds now) noexcept {
  Choice next;
  std::optional<SwitchReason> reason;
  if (controller_.PassesOn(Current())) {
    const auto turn = controller_.TurnOn(core_);
    if (turn) See(*turn, now);
    FollowCost(now);
    SearchQuota(now);
    // One that was preempted goes on with its turn first, or the line would stand beside others.
    if (turn && turn->begun) next = ChooseOfThoseWeRun(now, false);
    reason = next.task != kNone ? SwitchReason::kBetween : LeaveReasonInTurn(now);
    if (reason == SwitchReason::kSliceExpired) next = ChooseOfThoseWeRun(now, false);
  } else {
    if (!Settled(now)) return false;
    if (left_ != kNone) EndTurn(std::exchange(left_, kNone));
    FollowCost(now);
    reason = LeaveReason(now);
    if (reason) next = ChooseOfThoseWeRun(now, true);
  }
  if (reason && next.task == kNone) next = FirstInLine();
  if (next.task == kNone) LookForRest(now);
  if (resting_)
    watch_ = now;
  else
    LookForDozers(now);
  if (reason && next.task == kNone && all_pass_on_ && !resting_) watch_ = now + kLongestQuiet;
  return next.task != kNone && SwitchTo(next, *reason, now);
}

void Scheduler::See(const ProcessController::Turn& turn, Nanoseconds now) noexcept {
  if (turn.task != Current()) {
    OnSelfSwitch(turn.task);
  } else if (turn.begun) {
    Run(current_, SwitchReason::kSelf, now);
  }
}

// It no longer polls. One whose egress is full is only asked.
std::optional<SwitchReason> Scheduler::LeaveReasonInTurn(Nanoseconds now) noexcept {
  const bool traced = observer_ != nullptr && observer_->wants();
  if (all_pass_on_ && now < quiet_until_) {
    if (!traced) watch_ = quiet_until_;  // a trace sees each turn; else one look was asked for
    return std::nullopt;
  }
  if (now - slice_end_ > std::max(kGrace, slice_)) return SwitchReason::kSliceExpired;
  quiet_until_ = QuietAtMost(now + kLongestQuiet);
  // One that is alone would only pass the CPU on to itself.
  const bool others = tasks_.size() > 1;
  if (settings_.occupancy && others && LosesPackets(now)) controller_.AskToPassOn(Current());
  if (now < watch_full_) quiet_until_ = std::min(quiet_until_, now + kAskAgain);
  if (all_pass_on_ && !traced) watch_ = quiet_until_;
  return std::nullopt;
}

// Whether the current task has packets for an egress with more than is allowed. Where the reader is
// in the same line that is hardly ever so, for nobody takes more in a turn than fits. A task of
// another core may fall behind, so its ingress is looked at before it can be full. A sink or a
// bridge falls behind only where it is the limit, which the first full egress shows.
bool Scheduler::LosesPackets(Nanoseconds now) noexcept {
  const TaskState& task = tasks_[current_];
  bool loses = false;
  for (std::uint32_t i = 0; i < task.paths; ++i) {
    const PathState& path = paths_[task.first_path + i];
    const std::uint32_t held = monitor_.NumPkts(path.out);
    const std::int64_t below = std::int64_t{path.theta_max} - held;
    const bool waiting = monitor_.NumPkts(path.in) > 0;
    const bool blocked = below <= 0 && waiting;
    loses |= blocked;
    if (blocked && held + kUsualBurst > monitor_.PktCap(path.out)) watch_full_ = now + kWatchFull;
    if (below <= 0 || !waiting || !path.read_elsewhere) continue;
    const Nanoseconds full = QuietUntil(now, below, costs_.Ns(path.function), 0);
    quiet_until_ = std::min(quiet_until_, std::max(now + kAskAgain, full));
  }
  return loses;
}

// Of the tasks that do not pass the CPU on, the first with work; none if one of the line that has
// work stands before it (`before_line`).
Scheduler::Choice Scheduler::ChooseOfThoseWeRun(Nanoseconds now, bool before_line) noexcept {
  if (all_pass_on_) return {};
  Slot before = kNone;
  for (Slot slot = head_; slot != kNone; before = slot, slot = tasks_[slot].behind) {
    TaskState& task = tasks_[slot];
    const bool in_line = controller_.PassesOn(task.index);
    if (in_line && !before_line) continue;
    const bool has_work = ranks_ && settings_.occupancy ? IsOfFirstRank(task, Look(task), now)
                                                        : HasMeaningfulWork(task, now);
    if (has_work) return in_line ? Choice{} : Choice{slot, before};
  }
  return {};
}

Scheduler::Choice Scheduler::FirstInLine() const noexcept {
  Slot before = kNone;
  for (Slot slot = head_; slot != kNone; before = slot, slot = tasks_[slot].behind) {
    if (controller_.PassesOn(tasks_[slot].index) && !Dozes(slot)) return {slot, before};
  }
  return {};
}

}  // namespace unis
