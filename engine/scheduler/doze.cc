// Of tasks that pass the CPU on by themselves, those without packets sleep while others work: in
// the line, each would cost the others a poll and a yield a round.
#include <algorithm>

#include "engine/scheduler/scheduler.h"

namespace unis {
namespace {

// So often those that sleep are looked at. Nobody writes what lies in front of them, so a look
// costs nobody a cache line.
constexpr Nanoseconds kLookEvery = 5'000;

}  // namespace

void Scheduler::MakeDozers() {
  const bool line = all_pass_on_ && crews_.empty() && tasks_.size() > 1;
  dozers_.assign(settings_.handover && idle_wait_ > 0 && line ? tasks_.size() : 0,
                 {.patience = settings_.idle_after});
  dozing_ = 0;
}

std::uint16_t Scheduler::TakenBy(const TaskState& task) const noexcept {
  std::uint16_t packets = 0;
  for (std::uint32_t i = 0; i < task.paths; ++i)
    packets =
        static_cast<std::uint16_t>(packets + monitor_.Received(paths_[task.first_path + i].in));
  return packets;
}

// One that sends without taking, as a pacer, has work that nobody sees in front of it.
std::uint16_t Scheduler::MovedBy(const TaskState& task) const noexcept {
  std::uint16_t packets = TakenBy(task);
  for (std::uint32_t i = 0; i < task.paths; ++i)
    packets = static_cast<std::uint16_t>(packets + monitor_.Sent(paths_[task.first_path + i].out));
  return packets;
}

// At a look at the line: it costs each task that has worked a cache line, so it comes seldom.
void Scheduler::LookForDozers(Nanoseconds now) noexcept {
  if (dozers_.empty() || now < doze_look_) return;
  doze_look_ = now + settings_.idle_after / 2;
  for (Slot slot = 0; slot < tasks_.size(); ++slot) {
    Dozer& dozer = dozers_[slot];
    if (dozer.dozes) continue;
    const std::uint16_t moved = MovedBy(tasks_[slot]);
    if (moved != dozer.moved || HasPackets(tasks_[slot])) {
      dozer.moved = moved;
      dozer.since = kNotIdle;
    } else if (dozer.since == kNotIdle) {
      dozer.since = now;
    } else if (now - dozer.since >= dozer.patience && slot != current_ &&
               controller_.RestOne(tasks_[slot].index)) {
      dozer.dozes = true;
      dozer.since = now;
      if (dozing_++ == 0) dozes_renewed_ = now;
    }
  }
}

// Those that have got packets, before anything else; and one that moves packets by the clock, which
// looked idle in between and has slept in vain.
void Scheduler::LookAtDozers(Nanoseconds now) noexcept {
  if (dozing_ == 0) return;
  const bool renew = now - dozes_renewed_ >= kRenewEvery;
  if (renew) dozes_renewed_ = now;
  for (Slot slot = 0; slot < tasks_.size(); ++slot) {
    if (!dozers_[slot].dozes) continue;
    const Dozer& dozer = dozers_[slot];
    if (HasPackets(tasks_[slot])) {
      WakeDozer(slot, now - dozer.since, now);
    } else if (renew && MovedBy(tasks_[slot]) != dozer.moved) {
      WakeDozer(slot, 0, now);
    } else if (renew) {
      (void)controller_.RestOne(tasks_[slot].index);
    }
  }
}

// With those to whom it will pass packets: they would be woken one after the other, each a look
// later. One that slept for less than was waited for it is waited for longer.
void Scheduler::WakeDozer(Slot slot, Nanoseconds dozed, Nanoseconds now) noexcept {
  Dozer& dozer = dozers_[slot];
  dozer.patience = WaitAfterRest(dozed, dozer.patience);
  dozer.dozes = false;
  dozer.since = kNotIdle;
  --dozing_;
  watch_ = now;  // there is one more to leave the CPU to
  controller_.WakeOne(tasks_[slot].index);
  for (Slot other = 0; other < tasks_.size(); ++other) {
    if (dozers_[other].dozes && Feeds(tasks_[slot], tasks_[other]))
      WakeDozer(other, now - dozers_[other].since, now);
  }
}

bool Scheduler::Feeds(const TaskState& task, const TaskState& other) const noexcept {
  for (std::uint32_t i = 0; i < task.paths; ++i) {
    for (std::uint32_t j = 0; j < other.paths; ++j) {
      if (paths_[task.first_path + i].out == paths_[other.first_path + j].in) return true;
    }
  }
  return false;
}

// All sleep, or none: what is said to the core holds for each.
void Scheduler::ForgetDozers() noexcept {
  for (Dozer& dozer : dozers_) {
    dozer.dozes = false;
    dozer.since = kNotIdle;
  }
  dozing_ = 0;
}

// The line need not be looked at before `watch_`; those that sleep must.
Nanoseconds Scheduler::NextLook(Nanoseconds now) const noexcept {
  return dozing_ > 0 ? std::min(watch_, now + kLookEvery) : watch_;
}

}  // namespace unis
