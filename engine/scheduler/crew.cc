// Several threads of one function on a core, its crew: what each does shows in what moves at the
// function's links while it runs.
#include <algorithm>

#include "engine/scheduler/scheduler.h"

namespace unis {
namespace {

// Turns for each thread in which nothing moves at the links, until what is inside counts as kept:
// a burst may pass from thread to thread a few packets at a time, and what a function drops never
// comes out.
constexpr std::uint32_t kStillRounds = 16;

// After so many rounds without it, and nothing to pass on, a thread is like any other again: it may
// have been taken for another, for what it did is known only by the time.
constexpr std::uint32_t kMostRounds = 4;

}  // namespace

// What has moved since the last look.
Scheduler::Moves Scheduler::LookAt(Crew& crew) noexcept {
  Moves moves;
  for (std::uint32_t i = crew.first_path; i < crew.first_path + crew.paths; ++i) {
    Inside& inside = insides_[i];
    const std::uint16_t received = monitor_.Received(paths_[i].in);
    const std::uint16_t sent = monitor_.Sent(paths_[i].out);
    const auto taken = static_cast<std::uint16_t>(received - inside.received);
    const auto put = static_cast<std::uint16_t>(sent - inside.sent);
    inside.received = received;
    inside.sent = sent;
    inside.packets = inside.packets + taken > put ? inside.packets + taken - put : 0;
    crew.taken += taken;
    moves.takes |= taken > 0;
    moves.puts |= put > 0;
  }
  return moves;
}

bool Scheduler::Credit(Slot thread, Moves moves) noexcept {
  if (!moves.takes && !moves.puts) return false;
  TaskState& task = tasks_[thread];
  Crew& crew = crews_[task.crew];
  if (!task.moved) task.moves = {};  // what it did in turns before
  task.moved = true;
  task.moves.takes |= moves.takes;
  task.moves.puts |= moves.puts;
  if (moves.takes) crew.taker = thread;
  crew.still = 0;
  return true;
}

// Where the next thread can be expected to run, what has moved since the decision was moved by the
// one before.
void Scheduler::EndTurn(Slot thread) noexcept {
  TaskState& task = tasks_[thread];
  Crew& crew = crews_[task.crew];
  if (!Credit(thread, LookAt(crew)) && !task.moved) ++crew.still;
  task.waits = task.moved ? 1 : 2 * task.waits;
  if (task.waits > kMostRounds) task.waits = 1, task.moves = {};
  task.taken = crew.taken;
  task.turns = ++crew.turns;
  if (crew.still < kStillRounds * crew.threads) return;
  crew.still = 0;
  for (std::uint32_t i = crew.first_path; i < crew.first_path + crew.paths; ++i)
    insides_[i].packets = 0;
}

// Of a thread that moved nothing in its last turn nothing is expected: its turn is over when
// `patience` has passed, and the switch starts earlier by the lead. The others have as long from
// when they last moved a packet.
void Scheduler::BeginTurn(Slot thread) noexcept {
  TaskState& task = tasks_[thread];
  const Nanoseconds early = task.moved ? 0 : settings_.lead;
  task.moved = false;
  patience_ = Patience(task);
  still_since_ = settled_ - early;
  settled_ = std::min(settled_, std::max(settled_ - switch_time(), still_since_ + patience_));
}

// A burst's work; but what is short against the time that a switch takes, which varies, might be no
// turn at all.
Nanoseconds Scheduler::Patience(const TaskState& task) const noexcept {
  const double burst = kBatch * costs_.Ns(paths_[task.first_path].function);
  return std::max(static_cast<Nanoseconds>(burst), switch_time() / 4);
}

std::optional<SwitchReason> Scheduler::LeaveReasonOfThread(Nanoseconds now) noexcept {
  const TaskState& task = tasks_[current_];
  quiet_until_ = now;
  if (Credit(current_, LookAt(crews_[task.crew]))) still_since_ = now;
  for (std::uint32_t i = 0; i < task.paths; ++i) {
    const PathState& path = paths_[task.first_path + i];
    if (Waiting(task, i) > 0 &&
        !LastLonger(BelowMax(path), costs_.Ns(path.function), settings_.lead))
      return SwitchReason::kEgressHigh;
  }
  if (now - still_since_ >= patience_) return SwitchReason::kStill;
  return std::nullopt;
}

// Packets in front of path `i` of the task, or inside its function.
std::uint32_t Scheduler::Waiting(const TaskState& task, std::uint32_t i) const noexcept {
  const std::uint32_t ingress = monitor_.NumPkts(paths_[task.first_path + i].in);
  return task.crew == kNone ? ingress : ingress + insides_[task.first_path + i].packets;
}

// A thread that only passes on what another takes has work when that one has taken much since, or
// after a round of the others, and after twice as many each time that it then passed on nothing.
bool Scheduler::HasWorkInside(const TaskState& task, const PathState& path) const noexcept {
  const Crew& crew = crews_[task.crew];
  const bool feeds = crew.taker == kNone || &task == &tasks_[crew.taker];
  const bool fed = !feeds && task.moves.puts && !task.moves.takes;
  if (fed && crew.turns - task.turns < task.waits * (crew.threads - 1))
    return WorthASwitch(AboveMin(crew.taken - task.taken), path);
  const std::size_t i = static_cast<std::size_t>(&path - paths_.data());
  return insides_[i].packets > 0 || WorthASwitch(AboveMin(monitor_.NumPkts(path.in)), path);
}

}  // namespace unis
