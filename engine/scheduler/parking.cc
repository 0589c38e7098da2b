#include "engine/scheduler/parking.h"

#include <algorithm>
#include <utility>

namespace unis {
namespace {

constexpr Nanoseconds kEagerFor = 1'000'000;
// Where traffic is so thin that tasks are unparked soon, their patience grows up to so many times.
constexpr Nanoseconds kMostPatience = 16;

}  // namespace

Parking::Parking(const CoreTasks& tasks, const Demand& demand, ProcessController& controller)
    : tasks_(tasks),
      demand_(demand),
      controller_(controller),
      patience_(tasks.all_occupancies_known() ? tasks.settings().idle_after : 0) {}

void Parking::CountBy(const YieldingTasks& tasks) noexcept {
  const SchedulerSettings& settings = tasks_.settings();
  if (tasks_.all_occupancies_known() || settings.max_delay == 0) return;
  takers_ = &tasks;
  patience_ = settings.idle_after;
}

// As far as anybody sees.
bool Parking::AnyHasPackets(Slot current) const noexcept {
  if (!unseen()) return demand_.AnyHasPackets(current);
  return std::ranges::any_of(tasks_.ingresses(),
                             [this](const IngressState& in) { return tasks_.Packets(in) > 0; });
}

std::uint16_t Parking::Moved() const noexcept {
  std::uint32_t moved = tasks_.MovedByAll();
  if (unseen())
    for (const TaskState& task : tasks_) moved += takers_->TakenInTurns(task.index);
  return static_cast<std::uint16_t>(moved);
}

bool Parking::CanParkAll() const noexcept {
  return std::ranges::all_of(
      tasks_, [this](const TaskState& task) { return controller_.CanPark(task.index); });
}

void Parking::ParkAll() noexcept {
  for (const TaskState& task : tasks_) controller_.Park(task.index);
  for (Single& single : singles_) {  // what holds for the core holds for each
    single.parked = false;
    single.since = kNotIdle;
  }
  parked_ = 0;
}

void Parking::LookForIdleCore(Slot current, Nanoseconds now) noexcept {
  if (patience_ == 0) return;
  if (AnyHasPackets(current)) {
    idle_since_ = kNotIdle;
    return;
  }
  // Packets that came and were taken between two looks, or were sent without being taken.
  const std::uint16_t moved = Moved();
  if (std::exchange(moved_by_all_, moved) != moved) idle_since_ = kNotIdle;
  if (idle_since_ == kNotIdle) idle_since_ = now;
  if (now - idle_since_ < patience_) return;
  idle_since_ = kNotIdle;
  if (!CanParkAll()) return;
  ParkAll();
  all_parked_ = true;
  parked_at_ = parked_since_ = renewed_ = woken_ = now;
  ++times_;
}

// A task that sends by the clock looked idle in between, and all were parked in vain.
bool Parking::LookForPackets(Slot current, Nanoseconds now) noexcept {
  if (!AnyHasPackets(current)) {
    const bool renew = now - renewed_ >= ProcessController::kRenewParkEvery;
    const bool wake = unseen() && now - woken_ >= tasks_.settings().max_delay;
    if (!renew && !unseen()) return false;
    const std::uint16_t moved = Moved();
    if (std::exchange(moved_by_all_, moved) == moved) {
      if (wake) {
        UnparkAll(0);
        woken_ = now;
      }
      if (renew || wake) {
        ParkAll();  // again, once they have polled
        renewed_ = now;
      }
      return false;
    }
    if (!unseen()) parked_at_ = now;
  }
  parked_before_ = parked(now);
  all_parked_ = false;
  patience_ = PatienceAfter(now - parked_at_, patience_);
  eager_until_ = now + kEagerFor;
  return true;
}

void Parking::UnparkAll(Slot first) noexcept {
  for (std::size_t i = 0; i < tasks_.size(); ++i)
    controller_.Unpark(tasks_[static_cast<Slot>((first + i) % tasks_.size())].index);
}

std::optional<TaskIndex> Parking::WhoCannotPark() const noexcept {
  if (tasks_.settings().idle_after == 0) return std::nullopt;
  for (const TaskState& task : tasks_)
    if ((!unseen() && !tasks_.SeesIngresses(task)) || !controller_.CanPark(task.index))
      return task.index;
  return std::nullopt;
}

// Parking that was shorter than the patience before it was not worth its while: the next one takes
// twice as long to come.
Nanoseconds Parking::PatienceAfter(Nanoseconds parked, Nanoseconds patience) const noexcept {
  const Nanoseconds idle_after = tasks_.settings().idle_after;
  if (parked >= idle_after) return idle_after;
  return std::min(2 * patience, kMostPatience * idle_after);
}

void Parking::AllowSingle(bool allowed) {
  singles_.assign(allowed && patience_ > 0 ? tasks_.size() : 0,
                  {.patience = tasks_.settings().idle_after});
  parked_ = 0;
}

// It costs each task that has worked a cache line, so it comes seldom.
void Parking::LookForIdleTasks(Slot current, Nanoseconds now) noexcept {
  if (singles_.empty() || now < next_look_) return;
  next_look_ = now + tasks_.settings().idle_after / 2;
  for (Slot slot = 0; slot < tasks_.size(); ++slot) {
    Single& single = singles_[slot];
    if (single.parked) continue;
    const std::uint16_t moved = tasks_.MovedBy(tasks_[slot]);
    if (moved != single.moved || demand_.HasPackets(slot)) {
      single.moved = moved;
      single.since = kNotIdle;
    } else if (single.since == kNotIdle) {
      single.since = now;
    } else if (now - single.since >= single.patience && slot != current &&
               controller_.CanPark(tasks_[slot].index)) {
      controller_.Park(tasks_[slot].index);
      single.parked = true;
      single.since = now;
      if (parked_++ == 0) singles_renewed_ = now;
    }
  }
}

bool Parking::LookAtParkedTasks(Nanoseconds now) noexcept {
  if (parked_ == 0) return false;
  const std::uint32_t before = parked_;
  const bool renew = now - singles_renewed_ >= ProcessController::kRenewParkEvery;
  if (renew) singles_renewed_ = now;
  for (Slot slot = 0; slot < tasks_.size(); ++slot) {
    const Single& single = singles_[slot];
    if (!single.parked) continue;
    if (demand_.HasPackets(slot)) {
      Unpark(slot, now - single.since, now);
    } else if (renew && tasks_.MovedBy(tasks_[slot]) != single.moved) {
      Unpark(slot, 0, now);
    } else if (renew) {
      controller_.Park(tasks_[slot].index);
    }
  }
  return parked_ < before;
}

// With the tasks to which it will pass packets: they would be unparked one after the other, each a
// look later.
void Parking::Unpark(Slot slot, Nanoseconds parked, Nanoseconds now) noexcept {
  Single& single = singles_[slot];
  single.patience = PatienceAfter(parked, single.patience);
  single.parked = false;
  single.since = kNotIdle;
  --parked_;
  controller_.Unpark(tasks_[slot].index);
  for (Slot other = 0; other < tasks_.size(); ++other) {
    if (singles_[other].parked && tasks_.Feeds(tasks_[slot], tasks_[other]))
      Unpark(other, now - singles_[other].since, now);
  }
}

}  // namespace unis
