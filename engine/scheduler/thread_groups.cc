#include "engine/scheduler/thread_groups.h"

#include <algorithm>

namespace unis {
namespace {

// Turns for each thread in which nothing moves at the links, until packets inside count as kept: a
// burst may pass from thread to thread a few packets at a time, and a dropped packet never leaves.
constexpr std::uint32_t kStillRounds = 16;

// After so many rounds without packets to send, a thread is like any other again: it may have been
// taken for another one, because only the time tells which thread moved a packet.
constexpr std::uint32_t kMostRounds = 4;

}  // namespace

ThreadGroups::ThreadGroups(const CoreTasks& tasks) : tasks_(tasks) {
  std::uint32_t last = TaskState::kNoGroup;
  for (Slot slot = 0; slot < tasks.size(); ++slot) {
    const TaskState& task = tasks[slot];
    if (!task.IsThread()) continue;
    if (task.group != last) groups_.push_back({.ingress = task.ingress, .egress = task.egress});
    last = task.group;
    ++groups_.back().threads;
    threads_.resize(tasks.size());
    threads_[slot].group = static_cast<std::uint32_t>(groups_.size() - 1);
  }
  if (groups_.empty()) return;
  insides_.resize(tasks.ingresses().size());
  sent_.resize(tasks.egresses().size());
}

void ThreadGroups::Start() noexcept {
  for (Group& group : groups_) LookAt(group);
  for (Inbound& inside : insides_) inside.packets = 0;
}

// What has moved since the last look. A packet that leaves came in by an ingress that reaches the
// egress; of several such ingresses the first one that has packets inside is debited.
ThreadGroups::Moves ThreadGroups::LookAt(Group& group) noexcept {
  Moves moves;
  const auto in = group.ingress.Of(tasks_.ingresses());
  const auto out = group.egress.Of(tasks_.egresses());
  const auto inside = group.ingress.Of(insides_);
  for (std::size_t i = 0; i < in.size(); ++i) {
    const std::uint16_t received = tasks_.monitor().Received(in[i].link);
    const auto taken = static_cast<std::uint16_t>(received - inside[i].received);
    inside[i].received = received;
    inside[i].packets += taken;
    group.taken += taken;
    moves.takes |= taken > 0;
  }
  for (std::size_t j = 0; j < out.size(); ++j) {
    std::uint16_t& last = sent_[group.egress.begin + j];
    const std::uint16_t sent = tasks_.monitor().Sent(out[j].link);
    auto put = static_cast<std::uint32_t>(static_cast<std::uint16_t>(sent - last));
    last = sent;
    moves.puts |= put > 0;
    for (std::size_t i = 0; i < in.size() && put > 0; ++i) {
      if ((in[i].reaches >> j & 1) == 0) continue;
      const std::uint32_t debited = std::min(put, inside[i].packets);
      inside[i].packets -= debited;
      put -= debited;
    }
  }
  return moves;
}

bool ThreadGroups::Credit(Thread& thread, Slot slot, Moves moves) noexcept {
  if (!moves.takes && !moves.puts) return false;
  Group& group = groups_[thread.group];
  if (!thread.moved) thread.moves = {};  // what it did in turns before
  thread.moved = true;
  thread.moves.takes |= moves.takes;
  thread.moves.puts |= moves.puts;
  if (moves.takes) group.taker = slot;
  group.still = 0;
  return true;
}

void ThreadGroups::EndTurn(Slot slot) noexcept {
  Thread& thread = threads_[slot];
  Group& group = groups_[thread.group];
  if (!Credit(thread, slot, LookAt(group)) && !thread.moved) ++group.still;
  thread.waits = thread.moved ? 1 : 2 * thread.waits;
  if (thread.waits > kMostRounds) thread.waits = 1, thread.moves = {};
  thread.taken = group.taken;
  thread.turns = ++group.turns;
  if (group.still < kStillRounds * group.threads) return;
  group.still = 0;
  for (Inbound& inside : group.ingress.Of(insides_)) inside.packets = 0;
}

// The turn of a thread that moved nothing in its last turn is over after `patience_`, and the
// switch starts earlier by the latency compensation. The others have as long from when they last
// moved a packet. `patience_` is the work of a burst; what is short against a switch, which varies,
// might be no turn at all.
Nanoseconds ThreadGroups::BeginTurn(Slot slot, Nanoseconds settled,
                                    Nanoseconds switch_latency) noexcept {
  Thread& thread = threads_[slot];
  const Nanoseconds early = thread.moved ? 0 : tasks_.settings().latency_compensation;
  thread.moved = false;
  const double burst = kBatch * tasks_.CostOf(tasks_[slot]);
  patience_ = std::max(static_cast<Nanoseconds>(burst), switch_latency / 4);
  still_since_ = settled - early;
  return std::min(settled, std::max(settled - switch_latency, still_since_ + patience_));
}

void ThreadGroups::Look(Slot slot, Nanoseconds now) noexcept {
  Thread& thread = threads_[slot];
  if (Credit(thread, slot, LookAt(groups_[thread.group]))) still_since_ = now;
}

// It has work when another thread has taken much since its last turn, or after a round of the
// others, and after twice as many rounds each time that it then sent nothing.
bool ThreadGroups::WaitsToBeFed(Slot slot) const noexcept {
  const Thread& thread = threads_[slot];
  const Group& group = groups_[thread.group];
  const bool feeds = group.taker == kNoSlot || slot == group.taker;
  const bool fed = !feeds && thread.moves.puts && !thread.moves.takes;
  return fed && group.turns - thread.turns < thread.waits * (group.threads - 1);
}

std::uint32_t ThreadGroups::FedWith(Slot slot) const noexcept {
  return groups_[threads_[slot].group].taken - threads_[slot].taken;
}

}  // namespace unis
