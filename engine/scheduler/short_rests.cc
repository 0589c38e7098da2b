#include "engine/scheduler/short_rests.h"

#include <algorithm>
#include <utility>

namespace unis {
namespace {

constexpr Nanoseconds kRenewSleep = ProcessController::kParkHolds / 5;  // looks come late
// A pass over fewer packets would cost more to wake up for than to do.
constexpr std::uint32_t kMuchOfCapacity = 8;
// Smaller links run over before the first task has woken up.
constexpr std::uint32_t kLeastCapacity = kMuchOfCapacity * kBatch - 1;
// A turn that lasts for longer is one that the scheduler must end.
constexpr Nanoseconds kLongTurn = 1'000'000;
// Two looks so far apart must find little: one may just come between two full bursts.
constexpr Nanoseconds kCalmFor = 20'000;
// A thread that was woken has begun a turn by then, or will not.
constexpr Nanoseconds kLateStart = 200'000;
// Tasks that run for so long without catching up have no time to sleep.
constexpr Nanoseconds kBehindFor = 200'000;

}  // namespace

void ShortRests::Start(bool possible) {
  const auto is_large = [this](const IngressState& in) {
    return tasks_.monitor().PktCap(in.link) >= kLeastCapacity;
  };
  allowed_ = possible && tasks_.settings().max_delay > 0 && tasks_.all_occupancies_known() &&
             std::ranges::all_of(tasks_.ingresses(), is_large);
  active_ = false;
  calm_since_ = kNever;
  woken_.assign(tasks_.size(), false);
}

ShortRests::Waiting ShortRests::Look() const noexcept {
  Waiting waiting = Waiting::kNone;
  for (const IngressState& in : tasks_.ingresses()) {
    const std::uint32_t packets = tasks_.Packets(in), capacity = tasks_.monitor().PktCap(in.link);
    if (packets == 0) continue;
    const std::uint32_t much = std::max(capacity / kMuchOfCapacity, kBatch);
    waiting = std::max(waiting, 2 * packets >= capacity ? Waiting::kHalfFull
                                : packets >= much       ? Waiting::kMuch
                                                        : Waiting::kLittle);
  }
  return waiting;
}

bool ShortRests::BeginsAfter(bool turn_seen, Nanoseconds now) noexcept {
  if (!allowed_) return false;
  if (!turn_seen || Look() >= Waiting::kMuch) {
    calm_since_ = kNever;
    return false;
  }
  if (calm_since_ == kNever) calm_since_ = now;
  if (now - calm_since_ < kCalmFor) return false;
  calm_since_ = kNever;
  if (!std::ranges::all_of(
          tasks_, [this](const TaskState& task) { return controller_.CanPark(task.index); }))
    return false;
  ParkAll(now);
  active_ = true;
  ++times_;
  woken_at_ = turn_at_ = now;
  started_ = true;
  out_of_turn_ = false;
  since_ = behind_since_ = kNever;
  return true;
}

bool ShortRests::Look(bool turn_seen, Nanoseconds now) noexcept {
  if (now - renewed_ >= kRenewSleep) ParkAll(now);
  if (turn_seen) {
    started_ = true;
    turn_at_ = now;
  }
  const Waiting waiting = Look();
  // Between two turns nobody has one, for a moment.
  const bool out_before =
      std::exchange(out_of_turn_, !controller_.yielding()->AnyInTurn(tasks_.core()));
  const bool sleep =
      out_before && out_of_turn_ && !turn_seen && (started_ || now - woken_at_ >= kLateStart);
  if (!sleep) {
    since_ = kNever;
    if (waiting < Waiting::kMuch)
      behind_since_ = kNever;
    else if (behind_since_ == kNever)
      behind_since_ = now;
    const bool full = waiting == Waiting::kHalfFull && started_;
    const bool behind = behind_since_ != kNever && now - behind_since_ >= kBehindFor;
    const bool long_turn = started_ && !out_of_turn_ && now - turn_at_ >= kLongTurn;
    if (!full && !behind && !long_turn) return true;
    End();
    return false;
  }
  behind_since_ = kNever;
  if (waiting == Waiting::kNone) {
    since_ = kNever;
    return true;
  }
  if (since_ == kNever) since_ = now;
  if (waiting >= Waiting::kMuch || now - since_ >= tasks_.settings().max_delay) Wake(now);
  return true;
}

void ShortRests::ParkAll(Nanoseconds now) noexcept {
  renewed_ = now;
  for (const TaskState& task : tasks_) controller_.Park(task.index);
}

void ShortRests::End() noexcept {
  active_ = false;
  for (const TaskState& task : tasks_) controller_.Unpark(task.index);
}

// With the tasks to which they will pass packets, which would be woken one after the other, each a
// look later. They sleep again where they find their ports empty.
void ShortRests::Wake(Nanoseconds now) noexcept {
  ++wakes_;
  woken_at_ = turn_at_ = renewed_ = now;
  started_ = out_of_turn_ = false;
  since_ = kNever;
  const auto size = static_cast<Slot>(tasks_.size());
  for (Slot slot = 0; slot < size; ++slot) {
    const auto in = tasks_.In(tasks_[slot]);
    woken_[slot] = std::ranges::any_of(
        in, [this](const IngressState& ingress) { return tasks_.Packets(ingress) > 0; });
  }
  for (bool more = true; more;) {
    more = false;
    for (Slot slot = 0; slot < size; ++slot) {
      if (woken_[slot]) continue;
      for (Slot other = 0; other < size && !woken_[slot]; ++other)
        woken_[slot] = woken_[other] && tasks_.Feeds(tasks_[other], tasks_[slot]);
      more |= woken_[slot];
    }
  }
  for (Slot slot = 0; slot < size; ++slot)
    if (woken_[slot]) controller_.Unpark(tasks_[slot].index);
  for (Slot slot = 0; slot < size; ++slot) controller_.Park(tasks_[slot].index);
}

}  // namespace unis
