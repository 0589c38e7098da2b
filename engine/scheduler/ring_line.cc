#include "engine/scheduler/ring_line.h"

#include <algorithm>
#include <utility>

namespace unis {
namespace {

// If nobody has been seen to have a turn for so long, the line is not as it was believed to be: a
// thread has slept, and came back at its end.
constexpr Nanoseconds kLost = 200'000;

// A thread that has moved packets moves no more, if it moved none for a quarter of a turn, but
// between these.
constexpr Nanoseconds kLeastStill = 4'000;
constexpr Nanoseconds kMostStill = 10'000;
// Even if it goes on moving packets.
constexpr Nanoseconds kLongestTurn = 1'000'000;

}  // namespace

void RingLine::Find() {
  members_.resize(tasks_.size());
  FindMembers();
  bool any_rings = false, any_yield = false;
  for (Slot slot = 0; slot < tasks_.size(); ++slot) {
    const Member& member = members_[slot];
    any_rings |= member.rings;
    any_yield |= yielding_.SupportsYield(Index(slot)) || (member.among_rings && !member.rings);
  }
  any_ = any_rings && any_yield;
}

void RingLine::FindMembers() noexcept {
  std::ranges::fill(members_, Member{});
  for (Slot slot = tasks_.size(); slot-- > 0;) {
    if (!yielding_.PollsRings(Index(slot))) continue;
    members_[slot].rings = true;
    first_ = slot;
    for (Slot other = 0; other < tasks_.size(); ++other)
      members_[other].among_rings |= tasks_[other].function == tasks_[slot].function;
  }
}

std::size_t RingLine::threads() const noexcept {
  return static_cast<std::size_t>(std::ranges::count(members_, true, &Member::rings));
}

void RingLine::Join(Slot current, Nanoseconds turn, std::size_t spared, Nanoseconds now) noexcept {
  turn_ = turn;
  spared_ = spared;
  joined_ = true;
  lost_ = 0;
  yielding_.LetRingsJoin(true, Index(current));
  FindMembers();
  spared_slot_ = kNoSlot;
  std::size_t thread = 0;
  for (Slot slot = 0; slot < members_.size(); ++slot)
    if (members_[slot].rings && ++thread == spared) spared_slot_ = slot;
  (void)yielding_.CurrentTurn(tasks_.core());  // what was before
  for (Slot slot = 0; slot < members_.size(); ++slot) {
    members_[slot].in_line = members_[slot].rings || yielding_.SupportsYield(Index(slot));
    members_[slot].turns = TurnsOf(slot);
    // All were sent to the end, so whoever has a turn goes on with it only when it is at the front.
    const bool in_turn = yielding_.InTurn(Index(slot));
    members_[slot].sent_back = in_turn ? members_[slot].turns : kNoTurn;
  }
  front_ = current;
  SentBack(now);
}

void RingLine::Leave(Slot current) noexcept {
  joined_ = false;
  yielding_.LetRingsJoin(false, Index(current));
}

Slot RingLine::After(Slot slot) const noexcept {
  do {
    slot = slot + 1 < members_.size() ? slot + 1 : 0;
  } while (!members_[slot].in_line);
  return slot;
}

void RingLine::MoveTo(Slot slot, Nanoseconds now) noexcept {
  front_ = slot;
  since_ = now;
  passing_ = looked_ = false;
}

Slot RingLine::Front(Nanoseconds now) noexcept {
  // Who has a turn is at the front, unless it was sent back in this turn.
  Slot slot = front_;
  for (std::size_t i = 0; i < members_.size(); ++i, slot = After(slot)) {
    const std::uint64_t turns = TurnsOf(slot);
    const Member& member = members_[slot];
    if (member.rings || member.sent_back == turns || !yielding_.InTurn(Index(slot))) continue;
    const bool goes_on = slot == front_ && member.turns == turns && !passing_;
    for (Slot other = 0; other < members_.size(); ++other) members_[other].turns = TurnsOf(other);
    if (!goes_on) MoveTo(slot, now);
    lost_ = 0;
    return front_;
  }
  // Nobody has. Turns that were over before anybody saw them:
  for (std::size_t i = 0; i < members_.size(); ++i) {
    const Slot next = After(front_);
    if (members_[next].rings || members_[next].turns == TurnsOf(next)) break;
    members_[next].turns = TurnsOf(next);
    MoveTo(next, now);
  }
  if (members_[front_].rings && !passing_) return front_;
  const Slot next = After(front_);
  if (members_[next].rings) {
    MoveTo(next, now);
  } else if (yielding_.InTurn(Index(next))) {
    members_[next].sent_back = kNoTurn;  // it goes on with that turn
    MoveTo(next, now);
  } else if (!passing_) {
    passing_ = true;
    since_ = now;
  } else if (now - since_ > kLost) {
    const std::uint32_t lost = lost_;
    Join(front_, turn_, spared_, now);
    lost_ = lost + 1;
  }
  return front_;
}

bool RingLine::IsOver(Nanoseconds now) noexcept {
  if (passing_) return false;
  const TaskState& task = tasks_[front_];
  const std::uint16_t moved = tasks_.MovedBy(task);
  if (std::exchange(looked_, true) && moved != moved_) moved_at_ = now;
  moved_ = moved;
  if (moved_at_ <= since_) return front_ == spared_slot_ || now - since_ >= turn_;
  if (now - moved_at_ >= std::clamp(turn_ / 4, kLeastStill, kMostStill)) return true;
  const auto is_full = [&](const EgressState& out) {
    return out.share > 0 && tasks_.Room(out) <= 0;
  };
  return now - since_ >= kLongestTurn || std::ranges::any_of(tasks_.Out(task), is_full);
}

void RingLine::SentBack(Nanoseconds now) noexcept {
  if (yielding_.InTurn(Index(front_))) members_[front_].sent_back = TurnsOf(front_);
  const Slot next = After(front_);
  if (members_[next].rings) return MoveTo(next, now);
  since_ = now;
  passing_ = true;
}

}  // namespace unis
