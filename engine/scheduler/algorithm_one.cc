// Algorithm 1, with the line numbers of the paper's listing. What the paper does not have stands
// behind a name: tasks with several links and threads in ranks.cc, and costs, parking and hand-over
// in files of their own.
#include "engine/scheduler/algorithm_one.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

namespace unis {

AlgorithmOne::AlgorithmOne(const SchedulerSettings& settings, const TaskSet& set, CoreIndex core,
                           Costs& costs, const InterfaceMonitor& monitor,
                           const TimerSubsystem& timer, ProcessController& controller,
                           SwitchObserver* observer)
    : CoreScheduler(core),
      tasks_(settings, set, core, costs, monitor),
      groups_(tasks_),
      demand_(tasks_, groups_),
      shares_(tasks_),
      costs_(tasks_),
      parking_(tasks_, demand_, controller),
      room_waits_(tasks_),
      timer_(timer),
      controller_(controller),
      observer_(observer),
      switch_latency_(settings.switch_latency.value_or(settings.latency_compensation)) {
  for (std::size_t i = 0; i < tasks_.size(); ++i) queue_.Add();
}

// Lines 1 to 3.
bool AlgorithmOne::Start() {
  const Nanoseconds now = timer_.Now();
  groups_.Start();
  for (TaskState& task : tasks_) task.idle_at = now;
  for (std::size_t tries = 0; tries < tasks_.size(); ++tries) {
    const Place first{.task = queue_.head()};
    if (controller_.Start(core(), tasks_[first.task].index)) {
      queue_.Remove(first);
      current_ = first.task;
      if (settings().online_cost) taken_before_ = tasks_.TakenBy(current_task());
      Run(current_, SwitchReason::kStart, now);
      next_decision_ = now + settings().interval;
      return true;
    }
    queue_.MoveToEnd(first);
  }
  return false;
}

bool AlgorithmOne::Decide(Nanoseconds now) noexcept {
  ++decisions_;
  next_decision_ = now + settings().interval;  // line 19
  if (parking_.all_parked()) return LookWhileParked(now);
  room_waits_.Look(current_, now);
  demand_.set_eager(parking_.eager(now));
  if (!LookAtTurn(now)) return false;
  quiet_until_ = costs_.NextLook(current_, slice_end_ - settings().latency_compensation);
  const auto reason = LeaveReason(now);                                // lines 6 and 7
  const Place next = reason ? Choose(*reason, now) : Place{};          // lines 8 to 12
  const bool switched = next.found() && SwitchTo(next, *reason, now);  // lines 13 to 18
  if (!next.found()) parking_.LookForIdleCore(current_, now);
  if (settings().lazy && !reason && !parking_.all_parked() && !awaits_packets_)
    next_decision_ = std::max(next_decision_, quiet_until_);
  return switched;
}

// Lines 6 and 7.
std::optional<SwitchReason> AlgorithmOne::LeaveReason(Nanoseconds now) noexcept {
  const Nanoseconds compensation = settings().latency_compensation;
  if (slice_end_ - now <= compensation && !Prolongs(now)) return SwitchReason::kSliceExpired;
  if (!settings().occupancy) return std::nullopt;
  if (tasks_.needs_ranks()) return LeaveReasonOfLinks(now);
  const TaskState& task = current_task();
  const IngressState& in = tasks_.In(task).front();
  const double cost = tasks_.CostOf(task);
  const auto above = in.known ? static_cast<double>(demand_.AboveMin(tasks_.Packets(in)))
                              : std::numeric_limits<double>::max();  // its slice ends its turn
  if (!demand_.OutlastsASwitch(above, cost)) return SwitchReason::kIngressLow;
  const auto room = static_cast<double>(tasks_.Room(tasks_.Out(task).front()));
  if (!demand_.OutlastsASwitch(room, cost)) return SwitchReason::kEgressHigh;
  quiet_until_ = std::min(quiet_until_, QuietUntil(now, std::min(above, room), cost, compensation));
  return std::nullopt;
}

// Lines 8 to 12. No task has work: the current one stays (line 14).
AlgorithmOne::Place AlgorithmOne::Choose(SwitchReason reason, Nanoseconds now) noexcept {
  if (tasks_.needs_ranks() && settings().occupancy) return ChooseByRank(reason, now);
  return queue_.FirstThat([this, now](Slot slot) { return demand_.HasMeaningfulWork(slot, now); });
}

// Lines 8, 9, 12, 15 and 16. A task that cannot be switched to goes to the back of the queue, so
// that the next decision tries another.
bool AlgorithmOne::SwitchTo(const Place& next, SwitchReason reason, Nanoseconds now) noexcept {
  // It may run before the call is over.
  const std::uint16_t taken = settings().online_cost ? tasks_.TakenBy(tasks_[next.task]) : 0;
  if (!controller_.Switch(core(), Current(), tasks_[next.task].index)) {
    ++failed_switches_;
    queue_.MoveToEnd(next);
    return false;
  }
  taken_before_ = taken;
  queue_.PassTo(next, current_);
  Run(next.task, reason, now);
  next_decision_ = timer_.Now() + settings().interval;  // a switch takes its time
  return true;
}

// Lines 13, 17 and 18, and the record of the switch.
void AlgorithmOne::Run(Slot next, SwitchReason reason, Nanoseconds now) noexcept {
  const bool starts = reason == SwitchReason::kStart, yielded = reason == SwitchReason::kSelf;
  const Slot previous = std::exchange(current_, next);
  const Nanoseconds began = settled_;
  tasks_[previous].idle_at = now;
  if (!starts && tasks_[previous].IsThread()) left_ = previous;
  slice_ = SliceOf(current_task());
  if (!tasks_.SeesIngresses(current_task()) && !CountsItsTurns(current_))
    slice_ = std::min(slice_, kLongestBlindSlice);
  settled_ = yielded ? now : now + switch_latency_.ns();
  slice_end_ = settled_ + slice_;
  if (current_task().IsThread())
    settled_ = groups_.BeginTurn(current_, settled_, switch_latency_.ns());
  AwaitFirstPackets(reason, now);
  if (!starts && !yielded)
    costs_.EndTurn(previous,
                   std::max<Nanoseconds>(0, now + settings().latency_compensation - began));
  costs_.BeginTurn(current_, {.begin = settled_, .slice = slice_, .interval = settings().interval});
  if (!CountsItsTurns(current_)) {
    if (!starts) ++reasons_[static_cast<std::size_t>(reason)];
    ++current_task().switched_in;
  }
  if (IsTraced()) Record(previous, reason, now);
}

void AlgorithmOne::OnSelfSwitch(TaskIndex now_runs) noexcept {
  const Place next = queue_.FirstThat([&](Slot slot) { return tasks_[slot].index == now_runs; });
  if (!next.found()) return;  // the current one, or none of this core
  const Nanoseconds now = timer_.Now();
  queue_.PassTo(next, current_);
  Run(next.task, SwitchReason::kSelf, now);
  next_decision_ = now + settings().interval;
}

bool AlgorithmOne::LookAtTurn(Nanoseconds now) noexcept {
  if (!IsSettled(now)) return false;
  if (left_ != kNoSlot) groups_.EndTurn(std::exchange(left_, kNoSlot));
  shares_.Look(current_);
  if (now >= settled_) costs_.Look(current_, now);
  return true;
}

// Whether the last switch is over: the task that was switched to has taken packets, or has had as
// long as a switch takes. Its slice counts from when it was seen.
bool AlgorithmOne::IsSettled(Nanoseconds now) noexcept {
  if (!awaits_packets_) return now >= settled_;
  if (tasks_.TakenBy(current_task()) == taken_before_) {
    awaits_packets_ = now - decided_ < switch_latency_.Most();
    return now >= settled_;
  }
  awaits_packets_ = false;
  switch_latency_.Add(now - decided_);
  settled_ = now;
  slice_end_ = now + slice_;
  return true;
}

// Not of threads of one function, because nobody knows which of them takes the packets; not where
// nobody sees packets being taken; not without a measured value to start from; and not where a
// burst takes long beside a switch, for a task first finishes the burst in which it was
// interrupted.
void AlgorithmOne::AwaitFirstPackets(SwitchReason reason, Nanoseconds now) noexcept {
  const double burst = kUsualBurst * tasks_.CostOf(current_task());
  awaits_packets_ = settings().online_cost && !current_task().IsThread() &&
                    tasks_.SeesIngresses(current_task()) && reason != SwitchReason::kStart &&
                    reason != SwitchReason::kSelf &&
                    static_cast<Nanoseconds>(burst) < switch_latency_.first();
  if (awaits_packets_) decided_ = now;
}

// A slice that was too short to fill γ of the egress, because the cost has risen or somebody else
// had the CPU, goes on until as many packets were taken, for kMostSlices at most.
bool AlgorithmOne::Prolongs(Nanoseconds now) noexcept {
  constexpr Nanoseconds kMostSlices = 4;
  constexpr Nanoseconds kNearSlice = 8;  // not for such a share of one
  const TaskState& task = current_task();
  if (!settings().occupancy || !costs_.Follows(current_) || !task.HasOneLinkEach()) return false;
  const Nanoseconds longest = std::min(kMostSlices * slice_, kLongestFollowedSlice);
  if (now - settled_ >= longest) return false;
  const double filled = tasks_.Out(task).front().filled;
  // Counts wrap: where costs are a quarter of what is believed, that many are taken.
  if (kMostSlices * filled > std::numeric_limits<std::uint16_t>::max()) return false;
  const auto taken = static_cast<std::uint16_t>(tasks_.TakenBy(task) - taken_before_);
  if (taken == 0) return false;
  const auto pace = static_cast<double>(now - settled_) / taken;
  const Nanoseconds end =
      std::min(now + static_cast<Nanoseconds>((filled - taken) * pace), settled_ + longest);
  if (end - now <= settings().latency_compensation + slice_ / kNearSlice) return false;
  slice_end_ = end;
  quiet_until_ = costs_.NextLook(current_, slice_end_ - settings().latency_compensation);
  return true;
}

// Until then nobody need look at `packets` that are to be done. A quarter of the time that they
// take by the cost: a cost that was measured alone, from another CPU's cache, may be three times
// what it is in a chain, and a link that was looked at too late is full.
Nanoseconds AlgorithmOne::QuietUntil(Nanoseconds now, double packets, double cost_ns,
                                     Nanoseconds compensation) const noexcept {
  return now + static_cast<Nanoseconds>(packets * cost_ns / 4) - compensation;
}

// The first task with packets that can leave runs first; none: the current one.
bool AlgorithmOne::LookWhileParked(Nanoseconds now) noexcept {
  if (!parking_.LookForPackets(current_, now)) return false;
  demand_.set_eager(true);
  BeginAnew(now);
  bool switched = false;
  if (!demand_.Of(current_).work) {
    const Place next = queue_.FirstThat([this](Slot slot) { return demand_.Of(slot).work; });
    switched = next.found() && GoOnWith(next, now);
  }
  awaits_packets_ = false;  // to be unparked is no switch
  parking_.UnparkAll(current_);
  return switched;
}

void AlgorithmOne::BeginAnew(Nanoseconds now) noexcept {
  room_waits_.BeginAnew();
  for (TaskState& task : tasks_) task.idle_at = now;
  settled_ = now + switch_latency_.ns();
  slice_end_ = settled_ + slice_;
  if (settings().online_cost) taken_before_ = tasks_.TakenBy(current_task());
}

bool AlgorithmOne::GoOnWith(const Place& next, Nanoseconds now) noexcept {
  return SwitchTo(next, SwitchReason::kIngressLow, now);
}

void AlgorithmOne::Record(Slot previous, SwitchReason reason, Nanoseconds now) noexcept {
  const auto in_front = [this](Slot slot) {
    std::uint32_t sum = 0;
    for (const IngressState& in : tasks_.In(tasks_[slot])) sum += tasks_.Packets(in);
    return sum;
  };
  const auto behind = [this](Slot slot) {
    std::uint32_t sum = 0;
    for (const EgressState& out : tasks_.Out(tasks_[slot])) sum += tasks_.Packets(out);
    return sum;
  };
  observer_->OnSwitch({.time = now,
                       .core = core(),
                       .from = tasks_[previous].index,
                       .to = Current(),
                       .reason = reason,
                       .from_ingress = in_front(previous),
                       .from_egress = behind(previous),
                       .to_ingress = in_front(current_),
                       .to_egress = behind(current_),
                       .slice = slice_});
}

CoreStatistics AlgorithmOne::statistics() const noexcept {
  const bool parked = parking_.all_parked();
  return {.current = parked ? std::nullopt : std::optional(Current()),
          .cannot_park = parking_.WhoCannotPark(),
          .parked = parked,
          .switch_ns = switch_latency_.ns(),
          .decisions = decisions_,
          .switches = std::reduce(reasons_.begin(), reasons_.end()),
          .reasons = reasons_,
          .failed_switches = failed_switches_,
          .parks = parking_.times(),
          .all_parked = parking_.parked(timer_.Now())};
}

std::uint64_t AlgorithmOne::SwitchedIn(TaskIndex task) const noexcept {
  const Slot slot = tasks_.SlotOf(task);
  return slot == kNoSlot ? 0 : tasks_[slot].switched_in;
}

Nanoseconds AlgorithmOne::WaitedForRoom(TaskIndex task) const noexcept {
  const Slot slot = tasks_.SlotOf(task);
  return slot == kNoSlot ? 0 : room_waits_.Of(slot);
}

}  // namespace unis
