#include "engine/scheduler/handover.h"

#include <algorithm>

namespace unis {
namespace {

// Switches then cost light functions 4 to 5 % of the time, and others 1 to 2 (docs/measuring.md).
constexpr std::uint32_t kMostBudget = 2048;  // packets

// So long after the end of its slice a task may still yield by itself: its cost may be wrong, and
// preempting it is dear.
constexpr Nanoseconds kGrace = 200'000;
// The core is looked at at least so often. A look costs the tasks a cache line each.
constexpr Nanoseconds kLongestQuiet = 50'000;
// The same where threads in the line do not yield.
constexpr Nanoseconds kLookAtRings = 2'000;
// Where an egress was seen full, the core is looked at so often for so long: a task that fills it
// is asked again soon, also in a turn that no look has seen begin.
constexpr Nanoseconds kWatchFull = 5'000'000;
constexpr Nanoseconds kAskAgain = 5'000;
// Parked tasks are looked at so often. Nobody writes to their links, so a look costs no cache line.
constexpr Nanoseconds kLookAtParked = 5'000;

}  // namespace

Handover::Handover(const SchedulerSettings& settings, const TaskSet& set, CoreIndex core,
                   Costs& costs, const InterfaceMonitor& monitor, const TimerSubsystem& timer,
                   ProcessController& controller, SwitchObserver* observer)
    : AlgorithmOne(settings, set, core, costs, monitor, timer, controller, observer),
      yielding_(*controller.yielding()),
      short_rests_(tasks_, parking_, controller),
      order_(tasks_, yielding_),
      rings_(tasks_, yielding_),
      grants_(set.divides),
      circular_(set.circular),
      reads_elsewhere_(!set.read_elsewhere.empty()) {
  std::vector<LinkIndex> read;
  for (const Task& task : set.tasks) {
    grants_ |= task.ingress.size > 1 || task.egress.size > 1;
    for (const Ingress& in : task.ingress.Of(set.ingresses)) read.push_back(in.link);
    for (const LinkIndex out : task.egress.Of(set.egresses))
      circular_ |= std::ranges::count(read, out) > 0;
  }
}

bool Handover::Start() {
  rings_.Find();
  FindYielding();
  parking_.AllowSingle(all_yield_ && groups_.empty() && tasks_.size() > 1);
  if (all_yield_ && groups_.empty()) parking_.CountBy(yielding_);
  short_rests_.Start(all_yield_ && groups_.empty() && !grants_);
  for (const TaskState& task : tasks_) yielding_.SetBudget(task.index, BudgetOf(task));
  if (!AlgorithmOne::Start()) return false;
  if (!rings_.any()) return true;
  if (settings().ring_turn) {
    ServeRings(*settings().ring_turn, 0, settled_);
    return true;
  }
  search_.Start(tasks_.RingWayOf(tasks_[rings_.first()]), rings_.threads(), settled_);
  ServeRings(search_.turn(), search_.spared(), settled_);
  return true;
}

void Handover::FindYielding() noexcept {
  const auto yields = [this](const TaskState& task) { return yielding_.SupportsYield(task.index); };
  any_yields_ = std::ranges::any_of(tasks_, yields);
  all_yield_ = std::ranges::all_of(tasks_, yields);
}

void Handover::LookForBetterWay(Nanoseconds now) noexcept {
  if (now < search_.next_look()) return;
  if (search_.Look(now, tasks_.SentAway())) ServeRings(search_.turn(), search_.spared(), now);
  if (const auto way = search_.found()) tasks_.SetRingWay(tasks_[rings_.first()], *way);
}

// `turn` 0: as thread groups, out of the line.
void Handover::ServeRings(Nanoseconds turn, std::size_t spared, Nanoseconds now) noexcept {
  if (turn == 0 && !rings_.joined()) return;
  if (turn == 0) {
    rings_.Leave(current_);
    ForgetThreads();
  } else {
    rings_.Join(current_, turn, spared, now);
    if (!settings().ring_turn && search_.Recount(rings_.threads(), now))
      rings_.Join(current_, search_.turn(), search_.spared(), now);
  }
  FindYielding();
  if (const Place next = NextInLine(); !IsInLine(current_) && next.found())
    OnSelfSwitch(tasks_[next.task].index);
  watch_ = now;
}

// Packets of a turn: γ of what fits into its ingresses together, so that a task which merges keeps
// up with those before it, and of the least egress, so that this one could not fill it.
std::uint32_t Handover::BudgetOf(const TaskState& task) const noexcept {
  double waiting = 0;
  for (const IngressState& in : tasks_.In(task))
    waiting += settings().gamma * tasks_.monitor().PktCap(in.link);
  double least = std::min<double>(settings().budget > 0 ? settings().budget : kMostBudget, waiting);
  for (const EgressState& out : tasks_.Out(task)) least = std::min(least, out.filled);
  return std::max(static_cast<std::uint32_t>(least), kBatch);
}

// No task takes more than its egresses have room for, but for a burst on its way and one taken
// before the grant is seen. Half a turn is worth waiting for, unless tasks may wait for each other.
void Handover::GrantRoom(Nanoseconds now) noexcept {
  if (now < grant_) return;
  grant_ = now + kAskAgain;
  for (const TaskState& task : tasks_) {
    if (!yielding_.SupportsYield(task.index)) continue;
    const std::uint64_t loaded = tasks_.Loaded(task);
    double granted = ~std::uint32_t{0};
    bool waits = false;
    const auto out = tasks_.Out(task);
    for (std::size_t j = 0; j < out.size(); ++j) {
      if (out[j].share == 0 || (loaded != 0 && (loaded >> j & 1) == 0)) continue;
      const double capacity = tasks_.monitor().PktCap(out[j].link), held = tasks_.Packets(out[j]);
      const double room = (capacity - held - std::min(2.0 * kBatch, capacity / 4)) / out[j].share;
      const bool empty = held <= settings().theta_min;  // as the reader may leave it
      waits |= !empty && room < BudgetOf(task) / 2;
      granted = std::min(granted, std::max<double>(room, empty ? kBatch : 0));
    }
    if (waits) granted = circular_ ? std::max<double>(granted, kBatch) : 0;
    if (task.IsThread()) granted /= std::ranges::count(tasks_, task.group, &TaskState::group);
    yielding_.Grant(task.index, static_cast<std::uint32_t>(granted));
  }
}

bool Handover::Decide(Nanoseconds now) noexcept {
  if (rings_.any() && !settings().ring_turn) LookForBetterWay(now);
  if (!any_yields_) return AlgorithmOne::Decide(now);
  ++decisions_;
  next_decision_ = now + settings().interval;
  if (parking_.all_parked()) {
    if (parking_.unseen()) next_decision_ = now + kLookAtParked;  // a cache line of each task
    return LookWhileParked(now);
  }
  if (short_rests_.active() && LookWhileResting(now)) return false;
  room_waits_.Look(current_, now);
  demand_.set_eager(parking_.eager(now));
  if (parking_.LookAtParkedTasks(now)) watch_ = now;  // there is one more to yield to
  const bool switched = now >= watch_ && Watch(now);
  if (parking_.all_parked() || short_rests_.active()) return switched;
  const Nanoseconds next = parking_.any_parked() ? std::min(watch_, now + kLookAtParked) : watch_;
  next_decision_ = std::max(next_decision_, next);
  return switched;
}

// True: they go on resting. A trace sees the turns in between.
bool Handover::LookWhileResting(Nanoseconds now) noexcept {
  const auto turn = yielding_.CurrentTurn(core());
  order_.Look(false, current_, now);  // those that are woken are woken in order
  const bool rest = short_rests_.Look(turn.has_value(), now);
  if (turn && (IsTraced() || !rest)) OnTurn(*turn, now);
  if (rest) {
    next_decision_ = now + kLookAtParked;
    return true;
  }
  BeginAnew(now);
  watch_ = now;
  return false;
}

bool Handover::Watch(Nanoseconds now) noexcept {
  Place next;
  std::optional<SwitchReason> reason;
  bool turn_seen = false;
  const bool in_line = IsInLine(current_);
  if (in_line) {
    const auto turn = yielding_.CurrentTurn(core());
    FollowLine(turn, now);
    turn_seen = turn && turn->begun;
    if (!rings_.joined()) order_.Look(settings().keep_order, current_, now);
    if (grants_) GrantRoom(now);
    shares_.Look(current_);
    if (now >= settled_) costs_.Look(current_, now);
    // A task that was preempted first goes on with its turn, or the line would stand still.
    if (turn_seen) next = FirstNotInLine(now, false);
    reason = next.found() ? SwitchReason::kBetween : LeaveReasonInLine(now);
    // Of threads that poll rings each turn ends so: others run when one begins that yields.
    if (reason == SwitchReason::kSliceExpired && !rings_.IsAmongRings(current_))
      next = FirstNotInLine(now, false);
  } else {
    if (!LookAtTurn(now)) return false;
    reason = LeaveReason(now);
    if (reason) next = FirstNotInLine(now, true);
  }
  if (reason && !next.found()) next = NextInLine();
  if (!next.found()) parking_.LookForIdleCore(current_, now);
  if (!next.found() && !parking_.all_parked() && short_rests_.BeginsAfter(turn_seen, now))
    return false;
  if (parking_.all_parked())
    watch_ = now;
  else
    parking_.LookForIdleTasks(current_, now);
  if (reason && !next.found() && all_yield_ && !parking_.all_parked()) watch_ = now + kLongestQuiet;
  if (!next.found()) return false;
  const bool switched = SwitchTo(next, *reason, now);
  // Also where it failed, because the front has ended.
  if (rings_.joined() && IsInLine(next.task)) in_line ? rings_.SentBack(now) : rings_.GoOn(now);
  return switched;
}

void Handover::FollowLine(const std::optional<YieldingTasks::Turn>& turn,
                          Nanoseconds now) noexcept {
  if (!rings_.joined()) {
    if (turn) OnTurn(*turn, now);
    return;
  }
  if (rings_.lost()) {
    search_.GiveUp(now);
    return ServeRings(0, 0, now);
  }
  const TaskIndex front = tasks_[rings_.Front(now)].index;
  if (rings_.passing()) return;
  OnTurn({.task = front, .begun = turn && turn->begun && turn->task == front}, now);
}

void Handover::OnTurn(const YieldingTasks::Turn& turn, Nanoseconds now) noexcept {
  if (turn.task != Current()) {
    OnSelfSwitch(turn.task);
  } else if (turn.begun) {
    Run(current_, SwitchReason::kSelf, now);
  } else {
    return;
  }
}

std::optional<SwitchReason> Handover::LeaveReasonInLine(Nanoseconds now) noexcept {
  if (rings_.joined()) watch_ = now + kLookAtRings;
  if (!rings_.IsAmongRings(current_)) return LeaveReasonInTurn(now);
  return rings_.IsOver(now) ? std::optional(SwitchReason::kSliceExpired) : std::nullopt;
}

// A task that polls no longer is preempted; one whose egress is full is only asked. A trace sees
// each turn; otherwise the next look is as late as it can be.
std::optional<SwitchReason> Handover::LeaveReasonInTurn(Nanoseconds now) noexcept {
  const bool traced = IsTraced();
  if (all_yield_ && now < quiet_until_) {
    if (!traced) watch_ = quiet_until_;
    return std::nullopt;
  }
  if (now - slice_end_ > std::max(kGrace, slice_)) return SwitchReason::kSliceExpired;
  quiet_until_ = costs_.NextLook(current_, now + kLongestQuiet);
  const bool alone = tasks_.size() == 1;  // it would yield to itself
  if (settings().occupancy && !alone && LosesPackets(now)) yielding_.RequestYield(Current());
  if (now < watch_full_) quiet_until_ = std::min(quiet_until_, now + kAskAgain);
  if (all_yield_ && !traced) watch_ = quiet_until_;
  return std::nullopt;
}

// Whether the current task has packets for an egress with θmax. Where the reader is in the same
// line that is hardly ever so, because no turn takes more than fits. A reader on another core may
// fall behind, so its ingress is looked at before it can be full. A sink falls behind only where it
// is the limit, which the first full egress shows.
bool Handover::LosesPackets(Nanoseconds now) noexcept {
  const TaskState& task = current_task();
  const auto out = tasks_.Out(task);
  const double cost = tasks_.CostOf(task);
  bool loses = false;
  ForEachBit(tasks_.Loaded(task), [&](std::uint32_t j) {
    if (out[j].share == 0) return;
    const std::uint32_t held = tasks_.Packets(out[j]);
    const std::int64_t room = std::int64_t{out[j].theta_max} - held;
    if (room <= 0) {
      loses = true;
      if (held + kUsualBurst > tasks_.monitor().PktCap(out[j].link)) watch_full_ = now + kWatchFull;
    } else if (out[j].read_elsewhere) {
      const Nanoseconds full = QuietUntil(now, static_cast<double>(room), cost / out[j].share, 0);
      quiet_until_ = std::min(quiet_until_, std::max(now + kAskAgain, full));
    }
  });
  return loses;
}

// The first task with work of those that do not yield; none if one of the line that has work stands
// before it (`before_line`).
AlgorithmOne::Place Handover::FirstNotInLine(Nanoseconds now, bool before_line) noexcept {
  if (all_yield_) return {};
  const Place first = queue_.FirstThat(
      [&](Slot slot) { return (before_line || !IsInLine(slot)) && HasWork(slot, now); });
  return first.found() && IsInLine(first.task) ? Place{} : first;
}

AlgorithmOne::Place Handover::NextInLine() const noexcept {
  if (rings_.joined()) {
    const Slot slot = IsInLine(current_) ? rings_.After(current_) : rings_.expected();
    return queue_.FirstThat([=](Slot other) { return other == slot; });
  }
  return queue_.FirstThat([this](Slot slot) { return IsInLine(slot) && !parking_.IsParked(slot); });
}

// In the order in which they are unparked, the tasks of the line yield to each other.
bool Handover::GoOnWith(const Place& next, Nanoseconds now) noexcept {
  if (!IsInLine(current_) || !IsInLine(next.task)) return AlgorithmOne::GoOnWith(next, now);
  OnSelfSwitch(tasks_[next.task].index);
  return false;
}

CoreStatistics Handover::statistics() const noexcept {
  CoreStatistics statistics = AlgorithmOne::statistics();
  statistics.parks += short_rests_.times();
  statistics.wakes = short_rests_.wakes();
  statistics.wake_delay = short_rests_.wake_delay();
  statistics.sends_by_timer = short_rests_.sends_by_timer();
  statistics.yields_seen = order_.seen();
  statistics.yields_out_of_order = order_.out_of_order();
  statistics.order_repairs = order_.repairs();
  if (short_rests_.active()) {
    statistics.parked = true;
    statistics.current.reset();
  }
  for (const TaskState& task : tasks_) {
    const std::uint64_t turns = yielding_.TurnsOf(task.index);
    statistics.switches += turns;
    statistics.reasons[static_cast<std::size_t>(SwitchReason::kSelf)] += turns;
    if (any_yields_) statistics.budget = std::max(statistics.budget, BudgetOf(task));
  }
  return statistics;
}

std::uint64_t Handover::SwitchedIn(TaskIndex task) const noexcept {
  if (tasks_.SlotOf(task) == kNoSlot) return 0;
  return AlgorithmOne::SwitchedIn(task) + yielding_.TurnsOf(task);
}

}  // namespace unis
