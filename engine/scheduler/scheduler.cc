#include "engine/scheduler/scheduler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <stdexcept>
#include <utility>

namespace unis {
namespace {

constexpr Nanoseconds kMaxWaitOfRanks = 1'000'000;
constexpr std::uint32_t kFirstQuota = 2048;  // packets

}  // namespace

Scheduler::Scheduler(const SchedulerSettings& settings, const TaskSet& tasks, CoreIndex core,
                     Costs& costs, const InterfaceMonitor& monitor, const TimerSubsystem& timer,
                     ProcessController& controller, SwitchObserver* observer)
    : costs_(costs),
      monitor_(monitor),
      timer_(timer),
      settings_(settings),
      controller_(controller),
      observer_(observer),
      core_(core),
      switch_time_(settings.switch_time.value_or(settings.lead)) {
  for (TaskIndex index = 0; index < tasks.tasks.size(); ++index) {
    if (tasks.tasks[index].core == core) Add(tasks, index);
  }
  if (tasks_.empty()) throw std::invalid_argument("a core without a task cannot be scheduled");
  for (PathState& path : paths_) path.read_elsewhere = IsReadElsewhere(tasks, path.out);
  ranks_ = !crews_.empty() ||
           std::ranges::any_of(tasks_, [](const TaskState& task) { return task.paths > 1; });
  if (!crews_.empty()) insides_.resize(paths_.size());
  if (settings_.online_cost) {
    for (const TaskState& task : tasks_)
      followers_.emplace_back(costs_.Ns(paths_[task.first_path].function));
    last_seen_.resize(paths_.size());
  }
  const bool all_known = std::ranges::all_of(
      paths_, [this](const PathState& path) { return monitor_.Knows(path.in); });
  idle_wait_ = all_known ? settings_.idle_after : 0;
  quota_ = std::clamp(settings_.quota > 0 ? settings_.quota : kFirstQuota, kBatch, MostInTurn());
  if (settings_.handover && settings_.quota == 0 && all_known) {
    search_.emplace(quota_, MostInTurn());
    worths_.resize(paths_.size());
  }
  max_wait_ = settings_.max_wait > 0 || !ranks_ ? settings_.max_wait : kMaxWaitOfRanks;
}

void Scheduler::Add(const TaskSet& tasks, TaskIndex index) {
  const Task& task = tasks.tasks[index];
  if (task.paths == 0) throw std::invalid_argument("a task without a path cannot be scheduled");
  const Slot slot = static_cast<Slot>(tasks_.size());
  if (slot > 0 && tasks.tasks[tasks_.back().index].first_path == task.first_path) {
    Join(index);
    return Push(slot);
  }
  tasks_.push_back({.index = index,
                    .first_path = static_cast<std::uint32_t>(paths_.size()),
                    .paths = task.paths});
  Push(slot);
  for (std::uint32_t i = 0; i < task.paths; ++i) {
    const Path& path = tasks.paths[task.first_path + i];
    const double quota = settings_.gamma * monitor_.PktCap(path.out);
    const std::uint32_t theta_max =
        settings_.theta_max.value_or(static_cast<std::uint32_t>(std::ceil(quota)));
    // A quarter of what lies between the thresholds: what a switch is not worth waiting for beyond.
    const double in = settings_.gamma * monitor_.PktCap(path.in) - settings_.theta_min;
    const double out = static_cast<double>(theta_max) - settings_.theta_min;
    paths_.push_back({.in = path.in,
                      .out = path.out,
                      .function = path.function,
                      .theta_max = theta_max,
                      .quota = quota,
                      .most_lead = std::max(0.0, std::min(in, out) / 4)});
  }
}

bool Scheduler::IsReadElsewhere(const TaskSet& tasks, LinkIndex link) const noexcept {
  return std::ranges::any_of(tasks.tasks, [&](const Task& task) {
    const auto paths = std::span(tasks.paths).subspan(task.first_path, task.paths);
    return task.core != core_ &&
           std::ranges::any_of(paths, [link](const Path& path) { return path.in == link; });
  });
}

// One more thread of the function of the task before.
void Scheduler::Join(TaskIndex index) {
  TaskState& first = tasks_.back();
  if (first.crew == kNone) {
    first.crew = static_cast<std::uint32_t>(crews_.size());
    crews_.push_back({.first_path = first.first_path, .paths = first.paths, .threads = 1});
  }
  ++crews_[first.crew].threads;
  TaskState thread = first;
  thread.index = index;
  tasks_.push_back(thread);
}

bool Scheduler::Start() {
  all_pass_on_ = std::ranges::all_of(
      tasks_, [this](const TaskState& task) { return controller_.PassesOn(task.index); });
  watches_ = settings_.handover && std::ranges::any_of(tasks_, [this](const TaskState& task) {
               return controller_.PassesOn(task.index);
             });
  const Nanoseconds now = timer_.Now();
  MakeDozers();
  for (Crew& crew : crews_) LookAt(crew);
  for (Inside& inside : insides_) inside.packets = 0;
  for (TaskState& task : tasks_) task.idle_at = now;
  if (settings_.handover) SetQuota(search_ ? search_->quota() : quota_);
  for (std::size_t tries = 0; tries < tasks_.size(); ++tries) {
    const Slot first = head_;
    if (controller_.Start(core_, tasks_[first].index)) {
      Remove({.task = first});
      current_ = first;
      if (settings_.online_cost) taken_before_ = TakenBy(tasks_[first]);
      Run(first, SwitchReason::kStart, now);
      next_decision_ = now + settings_.interval;
      return true;
    }
    Remove({.task = first});
    Push(first);
  }
  return false;
}

bool Scheduler::Decide(Nanoseconds now) noexcept {
  ++decisions_;
  next_decision_ = now + settings_.interval;  // line 19
  if (resting_) return LookForWork(now);
  eager_ = now < eager_until_;
  if (watches_) {
    LookAtDozers(now);
    const bool switched = now >= watch_ && Watch(now);
    if (!resting_) next_decision_ = std::max(next_decision_, NextLook(now));
    return switched;
  }
  if (!Settled(now)) return false;
  if (left_ != kNone) EndTurn(std::exchange(left_, kNone));
  FollowCost(now);
  quiet_until_ = QuietAtMost(slice_end_ - settings_.lead);
  const auto reason = LeaveReason(now);  // lines 6 and 7
  const Choice next = reason ? Choose(*reason, now) : Choice{};
  const bool switched = next.task != kNone && SwitchTo(next, *reason, now);  // line 14
  if (next.task == kNone) LookForRest(now);
  if (settings_.lazy && !reason && !resting_ && !awaited_)
    next_decision_ = std::max(next_decision_, quiet_until_);
  return switched;
}

// Lines 8, 9, 12, 15 and 16. A task that cannot be switched to goes to the back of the queue, so
// that the next decision tries another.
bool Scheduler::SwitchTo(const Choice& next, SwitchReason reason, Nanoseconds now) noexcept {
  // It may run before the call is over.
  const std::uint16_t taken = settings_.online_cost ? TakenBy(tasks_[next.task]) : 0;
  if (!controller_.Switch(core_, Current(), tasks_[next.task].index)) {
    ++failed_switches_;
    Remove(next);
    Push(next.task);
    return false;
  }
  taken_before_ = taken;
  PassTo(next);
  Run(next.task, reason, now);
  next_decision_ = timer_.Now() + settings_.interval;  // a switch takes its time
  return true;
}

void Scheduler::OnSelfSwitch(TaskIndex now_runs) noexcept {
  Choice next;
  for (next.task = head_; next.task != kNone; next.task = tasks_[next.task].behind) {
    if (tasks_[next.task].index == now_runs) break;
    next.before = next.task;
  }
  if (next.task == kNone) return;  // the current one, or none of this core
  const Nanoseconds now = timer_.Now();
  PassTo(next);
  Run(next.task, SwitchReason::kSelf, now);
  next_decision_ = now + settings_.interval;
}

// Whether the last switch is over: the task that was switched to has taken packets, or has had as
// long as a switch takes. Its slice counts from when it was seen.
bool Scheduler::Settled(Nanoseconds now) noexcept {
  if (!awaited_) return now >= settled_;
  if (TakenBy(tasks_[current_]) == taken_before_) {
    awaited_ = now - decided_ < switch_time_.Most();
    return now >= settled_;
  }
  awaited_ = false;
  switch_time_.See(now - decided_);
  settled_ = now;
  slice_end_ = now + slice_;
  return true;
}

// Of several threads of a function nobody knows which takes the packets; without a measure to begin
// with there is nothing to hold what is seen against; and a task goes on with the burst in which it
// was interrupted before it takes another, so that must be short beside a switch.
void Scheduler::AwaitFirstPackets(SwitchReason reason, Nanoseconds now) noexcept {
  const TaskState& task = tasks_[current_];
  awaited_ = settings_.online_cost && task.crew == kNone && reason != SwitchReason::kStart &&
             reason != SwitchReason::kSelf && BurstOf(task) < switch_time_.first();
  if (awaited_) decided_ = now;
}

Nanoseconds Scheduler::BurstOf(const TaskState& task) const noexcept {
  double dearest = 0;
  for (std::uint32_t i = 0; i < task.paths; ++i)
    dearest = std::max(dearest, costs_.Ns(paths_[task.first_path + i].function));
  return static_cast<Nanoseconds>(kUsualBurst * dearest);
}

// Lines 13, 17 and 18, and the record of the switch.
void Scheduler::Run(Slot next, SwitchReason reason, Nanoseconds now) noexcept {
  const TaskIndex previous = Current();
  tasks_[current_].idle_at = now;
  if (reason != SwitchReason::kStart && tasks_[current_].crew != kNone) left_ = current_;
  const Slot left = std::exchange(current_, next);
  const Nanoseconds began = settled_;
  slice_ = SliceOf(tasks_[next]);
  settled_ = now;
  if (reason != SwitchReason::kSelf) settled_ += switch_time();
  slice_end_ = settled_ + slice_;
  if (tasks_[next].crew != kNone) BeginTurn(next);
  AwaitFirstPackets(reason, now);
  if (settings_.online_cost) FollowSwitch(left, reason, now, began);
  if (!settings_.handover || reason != SwitchReason::kSelf) {  // the controller counts those
    if (reason != SwitchReason::kStart) ++switches_;
    ++tasks_[next].switched_in;
  }
  if (observer_ != nullptr && observer_->wants()) Record(previous, reason, now);
}

void Scheduler::Record(TaskIndex previous, SwitchReason reason, Nanoseconds now) noexcept {
  const auto packets = [this](TaskIndex index, LinkIndex PathState::*link) {
    const TaskState& task = tasks_[SlotOf(index)];
    std::uint32_t sum = 0;
    for (std::uint32_t i = 0; i < task.paths; ++i)
      sum += monitor_.NumPkts(paths_[task.first_path + i].*link);
    return sum;
  };
  observer_->OnSwitch({.time = now,
                       .core = core_,
                       .from = previous,
                       .to = Current(),
                       .reason = reason,
                       .from_ingress = packets(previous, &PathState::in),
                       .from_egress = packets(previous, &PathState::out),
                       .to_ingress = packets(Current(), &PathState::in),
                       .to_egress = packets(Current(), &PathState::out),
                       .slice = slice_});
}

Nanoseconds Scheduler::SliceOf(const TaskState& task) const noexcept {
  // What is followed comes from what the function does, which must not give it the CPU for good.
  const Nanoseconds longest =
      settings_.online_cost ? kLongestFollowed : std::numeric_limits<Nanoseconds>::max();
  const auto slice = [this, longest](const PathState& path) {
    const double filled = costs_.Ns(path.function) * path.quota;
    return std::min(static_cast<Nanoseconds>(filled * settings_.slice_factor), longest);
  };
  if (task.paths == 1) return slice(paths_[task.first_path]);
  Nanoseconds of_all = std::numeric_limits<Nanoseconds>::max();
  Nanoseconds of_loaded = of_all;
  for (std::uint32_t i = 0; i < task.paths; ++i) {
    const PathState& path = paths_[task.first_path + i];
    of_all = std::min(of_all, slice(path));
    if (monitor_.NumPkts(path.in) > 0) of_loaded = std::min(of_loaded, slice(path));
  }
  return of_loaded == std::numeric_limits<Nanoseconds>::max() ? of_all : of_loaded;
}

Nanoseconds Scheduler::TimeSlice(TaskIndex task) const noexcept {
  return SliceOf(tasks_[SlotOf(task)]);
}

std::uint64_t Scheduler::SwitchedIn(TaskIndex task) const noexcept {
  const Slot slot = SlotOf(task);
  return slot == kNone ? 0 : tasks_[slot].switched_in + controller_.TurnsOf(task);
}

std::uint64_t Scheduler::Switches() const noexcept {
  std::uint64_t switches = switches_;
  for (const TaskState& task : tasks_) switches += controller_.TurnsOf(task.index);
  return switches;
}

Scheduler::Slot Scheduler::SlotOf(TaskIndex task) const noexcept {
  for (Slot slot = 0; slot < tasks_.size(); ++slot) {
    if (tasks_[slot].index == task) return slot;
  }
  return kNone;
}

void Scheduler::Push(Slot task) noexcept {
  tasks_[task].behind = kNone;
  (head_ == kNone ? head_ : tasks_[tail_].behind) = task;
  tail_ = task;
}

void Scheduler::Remove(const Choice& waiting) noexcept {
  const Slot behind = tasks_[waiting.task].behind;
  (waiting.before == kNone ? head_ : tasks_[waiting.before].behind) = behind;
  if (behind == kNone) tail_ = waiting.before;
}

// Lines 8 to 12 at once: the current task goes to the back of the queue, those before `next` behind
// it in their order, and `next` leaves it.
void Scheduler::PassTo(const Choice& next) noexcept {
  const Slot passed = next.before == kNone ? kNone : head_;
  const Slot rest = tasks_[next.task].behind;
  if (rest == kNone) tail_ = kNone;
  head_ = rest;
  Push(current_);
  if (passed == kNone) return;
  tasks_[tail_].behind = passed;
  tail_ = next.before;
  tasks_[tail_].behind = kNone;
}

bool Scheduler::QueueIsSound() const noexcept {
  std::size_t waiting = 0;
  Slot last = kNone;
  for (Slot slot = head_; slot != kNone; slot = tasks_[slot].behind) {
    if (slot == current_ || ++waiting >= tasks_.size()) return false;
    last = slot;
  }
  return waiting + 1 == tasks_.size() && last == tail_;
}

}  // namespace unis
