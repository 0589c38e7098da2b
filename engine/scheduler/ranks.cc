// Algorithm 1 for tasks with several links, and for functions with several threads on a core: which
// task loses packets, and which one brings packets forward (docs/scheduler.md).
#include <algorithm>
#include <limits>

#include "engine/scheduler/algorithm_one.h"

namespace unis {

// An egress that is nearly full, and for which there are packets, is reason to leave; work on any
// ingress is reason to stay.
std::optional<SwitchReason> AlgorithmOne::LeaveReasonOfLinks(Nanoseconds now) noexcept {
  const TaskState& task = current_task();
  if (task.IsThread()) return LeaveReasonOfThread(now);
  const Nanoseconds compensation = settings().latency_compensation;
  const double cost = tasks_.CostOf(task);
  const auto out = tasks_.Out(task);
  std::uint64_t used = 0, full = 0;  // egresses
  for (std::uint32_t j = 0; j < out.size(); ++j) {
    if (out[j].share == 0) continue;
    const std::uint64_t bit = std::uint64_t{1} << j;
    const auto room = static_cast<double>(tasks_.Room(out[j]));
    used |= bit;
    if (!demand_.OutlastsASwitch(room, cost / out[j].share)) full |= bit;
    quiet_until_ = std::min(quiet_until_, QuietUntil(now, room, cost / out[j].share, compensation));
  }
  bool works = false;
  Nanoseconds some_work_until = now;
  for (const IngressState& in : tasks_.In(task)) {
    const std::uint32_t packets = tasks_.MayWait(in);
    const std::uint64_t leaves_by = in.reaches & used;
    if ((leaves_by & full) != 0) {
      if (packets > 0) return SwitchReason::kEgressHigh;
      continue;
    }
    if (!in.known) {  // until the slice is over
      works = true;
      some_work_until = std::max(some_work_until, slice_end_ - compensation);
      continue;
    }
    const auto above = static_cast<double>(demand_.AboveMin(packets));
    if (!demand_.OutlastsASwitch(above, cost)) continue;
    works = true;
    some_work_until = std::max(some_work_until, QuietUntil(now, above, cost, compensation));
  }
  if (!works) return SwitchReason::kIngressLow;
  quiet_until_ = std::min(quiet_until_, some_work_until);
  return std::nullopt;
}

std::optional<SwitchReason> AlgorithmOne::LeaveReasonOfThread(Nanoseconds now) noexcept {
  const TaskState& task = current_task();
  const double cost = tasks_.CostOf(task);
  const auto out = tasks_.Out(task);
  quiet_until_ = now;
  groups_.Look(current_, now);
  for (std::uint32_t i = 0; i < task.ingress.size; ++i) {
    const std::uint32_t ingress = task.ingress.begin + i;
    if (demand_.Waiting(task, ingress) == 0) continue;
    bool full = false;
    ForEachBit(tasks_.ingresses()[ingress].reaches, [&](std::uint32_t j) {
      const auto room = static_cast<double>(tasks_.Room(out[j]));
      full |= out[j].share > 0 && !demand_.OutlastsASwitch(room, cost / out[j].share);
    });
    if (full) return SwitchReason::kEgressHigh;
  }
  if (groups_.IsStill(now)) return SwitchReason::kStill;
  return std::nullopt;
}

bool AlgorithmOne::HasWork(Slot slot, Nanoseconds now) noexcept {
  if (tasks_.needs_ranks() && settings().occupancy)
    return demand_.IsOfFirstRank(slot, demand_.Of(slot), now);
  return demand_.HasMeaningfulWork(slot, now);
}

// Of the second rank (work, however little) the task that loses least; else, if the current task
// loses packets, one that loses less.
AlgorithmOne::Place AlgorithmOne::ChooseByRank(SwitchReason reason, Nanoseconds now) noexcept {
  constexpr std::uint64_t kNoWork = std::uint64_t{1} << 32;  // worse than any loss
  const auto badness = [](const PathDemand& demand) {
    return demand.lost + (demand.work ? 0 : kNoWork);
  };
  Place best;
  std::uint64_t least = std::numeric_limits<std::uint64_t>::max();
  const Place first = queue_.FirstThat([&](Slot slot) {
    const PathDemand demand = demand_.Of(slot);
    if (demand_.IsOfFirstRank(slot, demand, now)) return true;
    if (badness(demand) < least) best = {.task = slot}, least = badness(demand);
    return false;
  });
  if (first.found()) return first;
  if (reason == SwitchReason::kSliceExpired && !LeaveReasonOfLinks(now)) return {};
  const PathDemand stay = demand_.Of(current_);
  // The current task first finishes what is left of its work, unless its turn is over or it is
  // about to lose packets.
  const bool first_among_equals = reason == SwitchReason::kIngressLow || !stay.work;
  const std::uint64_t current = badness(stay);
  if (current < least || (current == least && first_among_equals)) return {};
  return queue_.FirstThat([&](Slot slot) { return slot == best.task; });
}

// cost · γ · capacity(egress) ÷ share (section 4.4.2, where the share is 1): the least over the
// egresses for which there are packets, or over all where there are none.
Nanoseconds AlgorithmOne::SliceOf(const TaskState& task) const noexcept {
  // A cost that is followed comes from what the function does, which must not give it the CPU for
  // good.
  const Nanoseconds longest =
      settings().online_cost ? kLongestFollowedSlice : std::numeric_limits<Nanoseconds>::max();
  const double cost = tasks_.CostOf(task);
  const auto slice = [&](const EgressState& out) {
    const double fills = cost * out.filled / std::max(out.share, kLeastShare);
    return std::min(static_cast<Nanoseconds>(fills * settings().slice_factor), longest);
  };
  const auto out = tasks_.Out(task);
  if (task.HasOneLinkEach()) return slice(out.front());
  const std::uint64_t loaded = tasks_.Loaded(task);
  Nanoseconds least = std::numeric_limits<Nanoseconds>::max();
  for (std::uint32_t j = 0; j < out.size(); ++j)
    if (loaded == 0 || (loaded >> j & 1) != 0) least = std::min(least, slice(out[j]));
  return least;
}

}  // namespace unis
