// The line with threads in it that poll only rings inside their program. Such a thread never
// yields. If no task that yields has its turn, the next such thread in the order of the line is
// running. The scheduler must send it to the end of the line. RingLine says when.
//
// A thread that moves packets at the links of its function has its turn until it moves no more. A
// thread that moves none has a turn of fixed length, because nobody sees what it does. Both rules
// also hold for the threads of such a program that poll ports: they may wait for the others.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/scheduler/core_tasks.h"

namespace unis {

class RingLine {
 public:
  RingLine(const CoreTasks& tasks, YieldingTasks& yielding) : tasks_(tasks), yielding_(yielding) {}

  // Before anything else: which threads do. Where no task of the core yields, none may join.
  void Find();
  bool any() const noexcept { return any_; }
  Slot first() const noexcept { return first_; }

  std::size_t threads() const noexcept;  // that poll only rings

  // They are in line from now on, with turns of this length; `current` is at its end. The turns of
  // one of them, counted from 1, end at once; 0: of nobody.
  void Join(Slot current, Nanoseconds turn, std::size_t spared, Nanoseconds now) noexcept;
  // `current` ran last.
  void Leave(Slot current) noexcept;
  bool joined() const noexcept { return joined_; }
  // It was made anew again and again, and nobody had a turn: a task in it does not run, say because
  // a signal has stopped it.
  bool lost() const noexcept { return joined_ && lost_ >= kMostLost; }

  // While they are in line:

  bool PollsRings(Slot slot) const noexcept { return joined_ && members_[slot].rings; }
  // A thread of a program in which some poll rings.
  bool IsAmongRings(Slot slot) const noexcept { return joined_ && members_[slot].among_rings; }
  // A look at the line, after CurrentTurn(): who runs, as far as can be seen.
  Slot Front(Nanoseconds now) noexcept;
  // Whether the turn of the front, which IsAmongRings(), is over.
  bool IsOver(Nanoseconds now) noexcept;
  // The front has been sent to the end of the line.
  void SentBack(Nanoseconds now) noexcept;
  // A task that is not in line had the CPU until now.
  void GoOn(Nanoseconds now) noexcept { since_ = now, looked_ = false; }
  // The front has ended its turn, and the next one has not been seen yet.
  bool passing() const noexcept { return passing_; }
  // Who runs, or will next.
  Slot expected() const noexcept { return passing_ ? After(front_) : front_; }
  Slot After(Slot slot) const noexcept;

 private:
  static constexpr std::uint32_t kMostLost = 20;
  static constexpr std::uint64_t kNoTurn = ~std::uint64_t{0};
  struct Member {
    bool rings = false, among_rings = false;
    bool in_line = false;
    std::uint64_t turns = 0;            // that it had begun when it was last at the front
    std::uint64_t sent_back = kNoTurn;  // in which it was sent back, and which it has not ended
  };

  TaskIndex Index(Slot slot) const noexcept { return tasks_[slot].index; }
  void FindMembers() noexcept;
  std::uint64_t TurnsOf(Slot slot) const noexcept { return yielding_.TurnsOf(Index(slot)); }
  void MoveTo(Slot slot, Nanoseconds now) noexcept;

  const CoreTasks& tasks_;
  YieldingTasks& yielding_;
  std::vector<Member> members_;  // per task
  bool any_ = false, joined_ = false;
  Slot first_ = 0;
  Slot front_ = 0;
  bool passing_ = false;    // the one after the front has not begun its turn yet
  Nanoseconds since_ = 0;   // it is at the front, or is passing
  std::uint32_t lost_ = 0;  // times that the line was made anew since a turn was seen
  Nanoseconds turn_ = 0;
  std::size_t spared_ = 0;
  Slot spared_slot_ = kNoSlot;
  bool looked_ = false;       // at what the front moves
  std::uint16_t moved_ = 0;   // packets, ever; wraps
  Nanoseconds moved_at_ = 0;  // when it was last seen to move some
};

}  // namespace unis
