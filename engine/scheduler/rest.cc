// A core on which nobody has work: its tasks are put to sleep, and woken by the first packet.
#include <algorithm>
#include <utility>

#include "engine/scheduler/scheduler.h"

namespace unis {
namespace {

// So long after a rest any packet is work: the first ones wait neither for more nor for max_wait at
// each function on their way.
constexpr Nanoseconds kFirstPackets = 1'000'000;
// Where the traffic is so thin that rests are short, nobody must have had packets for up to so many
// times as long as is set.
constexpr Nanoseconds kMostPatience = 16;

}  // namespace

bool Scheduler::HasPackets(const TaskState& task) const noexcept {
  for (std::uint32_t i = 0; i < task.paths; ++i)
    if (Waiting(task, i) > 0) return true;
  return false;
}

// The current one first: while there is traffic it mostly has some.
bool Scheduler::AnyHasPackets() const noexcept {
  return HasPackets(tasks_[current_]) ||
         std::ranges::any_of(tasks_, [this](const TaskState& task) { return HasPackets(task); });
}

std::uint16_t Scheduler::MovedByAll() const noexcept {
  std::uint16_t packets = 0;
  for (const PathState& path : paths_)
    packets =
        static_cast<std::uint16_t>(packets + monitor_.Received(path.in) + monitor_.Sent(path.out));
  return packets;
}

// At a look that leaves the current task where it is.
void Scheduler::LookForRest(Nanoseconds now) noexcept {
  if (idle_wait_ == 0) return;
  if (AnyHasPackets()) {
    idle_since_ = kNotIdle;
    return;
  }
  // What came and was taken between two looks, or was sent without either.
  const std::uint16_t moved = MovedByAll();
  if (std::exchange(moved_by_all_, moved) != moved) idle_since_ = kNotIdle;
  if (idle_since_ == kNotIdle) idle_since_ = now;
  if (now - idle_since_ < idle_wait_) return;
  idle_since_ = kNotIdle;
  if (!controller_.Rest(core_)) return;
  ForgetDozers();
  resting_ = true;
  rest_began_ = renewed_ = now;
  ++rests_;
}

// One that moves packets by the clock looked idle in between, and all have slept in vain.
bool Scheduler::LookForWork(Nanoseconds now) noexcept {
  if (AnyHasPackets()) return WakeUp(now);
  if (now - renewed_ < kRenewEvery) return false;
  renewed_ = now;
  const std::uint16_t moved = MovedByAll();
  if (std::exchange(moved_by_all_, moved) != moved) {
    rest_began_ = now;
    return WakeUp(now);
  }
  (void)controller_.Rest(core_);
  return false;
}

// A rest that was shorter than what had to pass before it was not worth its while: the next one
// takes twice as long to come.
Nanoseconds Scheduler::WaitAfterRest(Nanoseconds rested, Nanoseconds waited) const noexcept {
  if (rested >= settings_.idle_after) return settings_.idle_after;
  return std::min(2 * waited, kMostPatience * settings_.idle_after);
}

bool Scheduler::WakeUp(Nanoseconds now) noexcept {
  resting_ = false;
  idle_wait_ = WaitAfterRest(now - rest_began_, idle_wait_);
  eager_ = true;
  eager_until_ = now + kFirstPackets;
  for (TaskState& task : tasks_) task.idle_at = now;
  settled_ = now + switch_time();
  slice_end_ = settled_ + slice_;
  if (settings_.online_cost) taken_before_ = TakenBy(tasks_[current_]);
  const Choice next = FirstWithWork();
  bool switched = false;
  if (next.task != kNone) {
    const bool both_in_line =
        controller_.PassesOn(Current()) && controller_.PassesOn(tasks_[next.task].index);
    if (settings_.handover && both_in_line)
      OnSelfSwitch(tasks_[next.task].index);  // in the order in which they are woken
    else
      switched = SwitchTo(next, SwitchReason::kIngressLow, now);
  }
  awaited_ = false;  // to wake up is no switch
  controller_.Wake(core_, Current());
  return switched;
}

// None: the current one has some, or nobody whose packets would go anywhere.
Scheduler::Choice Scheduler::FirstWithWork() const noexcept {
  if (Look(tasks_[current_]).work) return {};
  Slot before = kNone;
  for (Slot slot = head_; slot != kNone; before = slot, slot = tasks_[slot].behind)
    if (Look(tasks_[slot]).work) return {slot, before};
  return {};
}

}  // namespace unis
