// The threads of one function on a core: which thread does what shows only in the packets that move
// at the function's links while it runs (docs/scheduler.md, "Functions with several threads").
#pragma once

#include <cstdint>
#include <vector>

#include "engine/scheduler/core_tasks.h"

namespace unis {

class ThreadGroups {
 public:
  explicit ThreadGroups(const CoreTasks& tasks);

  bool empty() const noexcept { return groups_.empty(); }
  void Start() noexcept;

  // `thread` runs from `settled` on. Returns when it may be left: earlier where it moved no packet
  // in its last turn.
  Nanoseconds BeginTurn(Slot thread, Nanoseconds settled, Nanoseconds switch_latency) noexcept;
  // The next thread can be expected to run: what has moved since counts for `thread`.
  void EndTurn(Slot thread) noexcept;
  // While `thread` runs. True: neither it nor its switch has moved a packet for so long that its
  // turn is over.
  void Look(Slot thread, Nanoseconds now) noexcept;
  bool IsStill(Nanoseconds now) const noexcept { return now - still_since_ >= patience_; }

  // Packets that came in by the ingress (in CoreTasks::ingresses()) and have not come out.
  std::uint32_t Inside(std::uint32_t ingress) const noexcept { return insides_[ingress].packets; }
  // Whether `thread` only sends what another thread takes, and waits for more of that.
  bool WaitsToBeFed(Slot thread) const noexcept;
  // Packets that were taken since its last turn.
  std::uint32_t FedWith(Slot thread) const noexcept;

 private:
  // Whether packets were taken from an ingress, put into an egress.
  struct Moves {
    bool takes = false, puts = false;
  };
  struct Group {
    Range ingress, egress;
    std::uint32_t threads = 0;
    Slot taker = kNoSlot;     // the thread that was last seen to take packets
    std::uint32_t taken = 0;  // packets; wraps
    std::uint32_t turns = 0;  // wraps
    std::uint32_t still = 0;  // turns in a row in which nothing moved
  };
  struct Thread {
    std::uint32_t group = 0;
    std::uint32_t taken = 0;  // Group::taken when its last turn ended
    std::uint32_t turns = 0;  // Group::turns then
    std::uint32_t waits = 1;  // rounds of the others after which it is looked for packets
    Moves moves{};            // in the last turn in which it moved any
    bool moved = false;       // in this turn, or in its last
  };
  struct Inbound {
    std::uint16_t received = 0;  // of the link, at the last look
    std::uint32_t packets = 0;   // inside
  };

  Moves LookAt(Group& group) noexcept;
  bool Credit(Thread& thread, Slot slot, Moves moves) noexcept;

  const CoreTasks& tasks_;
  std::vector<Group> groups_;
  std::vector<Thread> threads_;      // per task
  std::vector<Inbound> insides_;     // per ingress
  std::vector<std::uint16_t> sent_;  // per egress, of the link, at the last look
  Nanoseconds still_since_ = 0;      // the current thread has moved no packet since then
  Nanoseconds patience_ = 0;         // and may do so for so long
};

}  // namespace unis
