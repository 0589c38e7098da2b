// What Algorithm 1 looks at: when the current task is left (line 7), and for which (line 10).
#include <algorithm>
#include <limits>

#include "engine/scheduler/scheduler.h"

namespace unis {
namespace {

// A slice is prolonged to so many at most, and not for such a share of one.
constexpr Nanoseconds kMostSlices = 4;
constexpr Nanoseconds kNearSlice = 8;

}  // namespace

// Till then nobody need look at `packets` that are to be done, less the lead. A quarter of the time
// that they take by the cost: one that was measured alone, from another CPU's cache, may be three
// times what it is in a chain, and a memif that was looked at too late is full.
Nanoseconds Scheduler::QuietUntil(Nanoseconds now, std::int64_t packets, double cost_ns,
                                  Nanoseconds lead) noexcept {
  return now + static_cast<Nanoseconds>(static_cast<double>(packets) * cost_ns / 4) - lead;
}

// Whether `packets` are work for longer than `lead`. Without a cost there is no telling: any are.
bool Scheduler::LastLonger(std::int64_t packets, double cost_ns, Nanoseconds lead) noexcept {
  return packets > 0 &&
         (cost_ns <= 0 || static_cast<double>(packets) * cost_ns > static_cast<double>(lead));
}

std::int64_t Scheduler::AboveMin(std::uint32_t ingress) const noexcept {
  return std::int64_t{ingress} - (eager_ ? 0 : settings_.theta_min);
}

std::int64_t Scheduler::BelowMax(const PathState& path) const noexcept {
  return std::int64_t{path.theta_max} - monitor_.NumPkts(path.out);
}

std::optional<SwitchReason> Scheduler::LeaveReason(Nanoseconds now) noexcept {
  if (slice_end_ - now <= settings_.lead && !Prolongs(now)) return SwitchReason::kSliceExpired;
  if (!settings_.occupancy) return std::nullopt;
  if (ranks_) return LeaveReasonOfPaths(now);
  const PathState& path = paths_[tasks_[current_].first_path];
  const double cost = costs_.Ns(path.function);
  const std::int64_t above = AboveMin(monitor_.NumPkts(path.in));
  if (!LastLonger(above, cost, settings_.lead)) return SwitchReason::kIngressLow;
  const std::int64_t below = BelowMax(path);
  if (!LastLonger(below, cost, settings_.lead)) return SwitchReason::kEgressHigh;
  quiet_until_ =
      std::min(quiet_until_, QuietUntil(now, std::min(above, below), cost, settings_.lead));
  return std::nullopt;
}

// A slice is as long as filling γ of the egress takes. One that was too short for that, for the
// cost has risen or somebody else had the CPU, goes on until as many packets were taken.
bool Scheduler::Prolongs(Nanoseconds now) noexcept {
  const TaskState& task = tasks_[current_];
  if (!settings_.occupancy || !Follows(task) || task.paths > 1) return false;
  const Nanoseconds longest = std::min(kMostSlices * slice_, kLongestFollowed);
  if (now - settled_ >= longest) return false;
  const double quota = paths_[task.first_path].quota;
  // Counts wrap: where costs are a quarter of what is believed, that many are taken.
  if (kMostSlices * quota > std::numeric_limits<std::uint16_t>::max()) return false;
  const auto taken = static_cast<std::uint16_t>(TakenBy(task) - taken_before_);
  if (taken == 0) return false;
  const auto pace = static_cast<double>(now - settled_) / taken;
  const Nanoseconds end =
      std::min(now + static_cast<Nanoseconds>((quota - taken) * pace), settled_ + longest);
  if (end - now <= settings_.lead + slice_ / kNearSlice) return false;
  slice_end_ = end;
  quiet_until_ = QuietAtMost(slice_end_ - settings_.lead);
  return true;
}

// A path that holds packets and is blocked loses them; work on any path is reason to stay.
std::optional<SwitchReason> Scheduler::LeaveReasonOfPaths(Nanoseconds now) noexcept {
  const TaskState& task = tasks_[current_];
  if (task.crew != kNone) return LeaveReasonOfThread(now);
  bool works = false;
  Nanoseconds some_work_until = now;
  for (std::uint32_t i = 0; i < task.paths; ++i) {
    const PathState& path = paths_[task.first_path + i];
    const double cost = costs_.Ns(path.function);
    const std::uint32_t ingress = monitor_.NumPkts(path.in);
    const std::int64_t below = BelowMax(path);
    const bool blocked = !LastLonger(below, cost, settings_.lead);
    if (blocked && ingress > 0) return SwitchReason::kEgressHigh;
    quiet_until_ = std::min(quiet_until_, QuietUntil(now, below, cost, settings_.lead));
    const std::int64_t above = AboveMin(ingress);
    if (blocked || !LastLonger(above, cost, settings_.lead)) continue;
    works = true;
    some_work_until = std::max(some_work_until, QuietUntil(now, above, cost, settings_.lead));
  }
  if (!works) return SwitchReason::kIngressLow;
  quiet_until_ = std::min(quiet_until_, some_work_until);
  return std::nullopt;
}

bool Scheduler::Waited(const TaskState& task, Nanoseconds now) const noexcept {
  return max_wait_ > 0 && now - task.idle_at >= max_wait_;
}

// As when a task is left, so that none is chosen that would be left at once; but in a small ring
// there is never work for long.
bool Scheduler::WorthASwitch(std::int64_t packets, const PathState& path) const noexcept {
  if (eager_) return packets > 0;
  return LastLonger(packets, costs_.Ns(path.function), settings_.lead) ||
         (packets > 0 && static_cast<double>(packets) > path.most_lead);
}

bool Scheduler::HasMeaningfulWork(TaskState& task, Nanoseconds now) noexcept {
  if (!settings_.occupancy) return true;
  const PathState& path = paths_[task.first_path];
  const std::uint32_t ingress = monitor_.NumPkts(path.in);
  if (ingress == 0) {
    task.idle_at = now;
    return false;
  }
  if (Waited(task, now)) return BelowMax(path) > 0;
  return WorthASwitch(AboveMin(ingress), path) && WorthASwitch(BelowMax(path), path);
}

// Lines 9 to 12. Nobody has work: the current task stays (line 14).
Scheduler::Choice Scheduler::Choose(SwitchReason reason, Nanoseconds now) noexcept {
  if (ranks_ && settings_.occupancy) return ChooseByRank(reason, now);
  Slot before = kNone;
  for (Slot slot = head_; slot != kNone; before = slot, slot = tasks_[slot].behind) {
    if (HasMeaningfulWork(tasks_[slot], now)) return {slot, before};
  }
  return {};
}

Scheduler::Outlook Scheduler::Look(const TaskState& task) const noexcept {
  Outlook outlook;
  for (std::uint32_t i = 0; i < task.paths; ++i) {
    const PathState& path = paths_[task.first_path + i];
    const std::uint32_t waiting = Waiting(task, i);
    if (waiting == 0) continue;
    outlook.packets = true;
    const std::int64_t below = BelowMax(path);
    if (below <= 0) {
      outlook.held += waiting;
      continue;
    }
    outlook.work = true;
    const bool much =
        task.crew == kNone ? WorthASwitch(AboveMin(waiting), path) : HasWorkInside(task, path);
    outlook.meaningful |= much && WorthASwitch(below, path);
  }
  return outlook;
}

// The first rank: meaningful work and nothing to lose, or a wait that lasted too long.
bool Scheduler::IsOfFirstRank(TaskState& task, const Outlook& outlook, Nanoseconds now) noexcept {
  if (!outlook.packets) task.idle_at = now;
  if (!outlook.work || outlook.held == 0) task.denied_at = kNotDenied;
  if (!outlook.work) return false;
  if (outlook.held == 0) return outlook.meaningful || Waited(task, now);
  if (task.denied_at == kNotDenied) task.denied_at = now;
  return now - task.denied_at >= max_wait_;
}

// Of the second rank (work, however little) the one that loses least; else, if the current one
// loses packets, one that loses less.
Scheduler::Choice Scheduler::ChooseByRank(SwitchReason reason, Nanoseconds now) noexcept {
  constexpr std::uint64_t kNoWork = std::uint64_t{1} << 32;  // worse than any loss
  const auto badness = [](const Outlook& outlook) {
    return outlook.held + (outlook.work ? 0 : kNoWork);
  };
  Choice best;
  std::uint64_t least = std::numeric_limits<std::uint64_t>::max();
  Slot before = kNone;
  for (Slot slot = head_; slot != kNone; before = slot, slot = tasks_[slot].behind) {
    const Outlook outlook = Look(tasks_[slot]);
    if (IsOfFirstRank(tasks_[slot], outlook, now)) return {slot, before};
    if (badness(outlook) < least) best = {slot, before}, least = badness(outlook);
  }
  if (reason == SwitchReason::kSliceExpired && !LeaveReasonOfPaths(now)) return {};
  const Outlook stay = Look(tasks_[current_]);
  // What is left of its work it finishes first, unless its turn is over or it is about to lose.
  const bool first_among_equals = reason == SwitchReason::kIngressLow || !stay.work;
  const std::uint64_t current = badness(stay);
  return current < least || (current == least && first_among_equals) ? Choice{} : best;
}

}  // namespace unis
