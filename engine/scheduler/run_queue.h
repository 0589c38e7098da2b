// The wait queue of a core: its tasks but the current one, in the order of the chains at first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace unis {

using Slot = std::uint32_t;  // position of a task among those of its core
inline constexpr Slot kNoSlot = ~Slot{0};

class RunQueue {
 public:
  // A waiting task; its predecessor is there so that it can be unlinked.
  struct Place {
    Slot task = kNoSlot;    // kNoSlot: none
    Slot before = kNoSlot;  // kNoSlot: it is the first
    bool found() const noexcept { return task != kNoSlot; }
  };

  void Add() { behind_.push_back(kNoSlot), Push(static_cast<Slot>(behind_.size() - 1)); }
  Slot head() const noexcept { return head_; }

  // The first task that `wanted` accepts, asked in the order of the queue.
  template <typename Wanted>
  Place FirstThat(Wanted wanted) const {
    Slot before = kNoSlot;
    for (Slot slot = head_; slot != kNoSlot; before = slot, slot = behind_[slot]) {
      if (wanted(slot)) return {slot, before};
    }
    return {};
  }

  void Push(Slot task) noexcept {
    behind_[task] = kNoSlot;
    (head_ == kNoSlot ? head_ : behind_[tail_]) = task;
    tail_ = task;
  }

  void Remove(const Place& waiting) noexcept {
    const Slot behind = behind_[waiting.task];
    (waiting.before == kNoSlot ? head_ : behind_[waiting.before]) = behind;
    if (behind == kNoSlot) tail_ = waiting.before;
  }

  void MoveToEnd(const Place& waiting) noexcept {
    Remove(waiting);
    Push(waiting.task);
  }

  // Lines 8 to 12 of Algorithm 1 at once: `current` goes to the back of the queue, the tasks that
  // were passed over go behind it in their order, and `next` leaves the queue.
  void PassTo(const Place& next, Slot current) noexcept {
    const Slot passed = next.before == kNoSlot ? kNoSlot : head_;
    const Slot rest = behind_[next.task];
    if (rest == kNoSlot) tail_ = kNoSlot;
    head_ = rest;
    Push(current);
    if (passed == kNoSlot) return;
    behind_[tail_] = passed;
    tail_ = next.before;
    behind_[tail_] = kNoSlot;
  }

  // The invariant: the current task and the queue are a permutation of the tasks.
  bool IsSound(Slot current) const noexcept {
    std::size_t waiting = 0;
    Slot last = kNoSlot;
    for (Slot slot = head_; slot != kNoSlot; slot = behind_[slot]) {
      if (slot == current || ++waiting >= behind_.size()) return false;
      last = slot;
    }
    return waiting + 1 == behind_.size() && last == tail_;
  }

 private:
  std::vector<Slot> behind_;  // per task
  Slot head_ = kNoSlot;
  Slot tail_ = kNoSlot;
};

}  // namespace unis
