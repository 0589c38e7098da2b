#include "engine/scheduler/short_rests.h"

#include <algorithm>
#include <utility>

namespace unis {
namespace {

// A pass over fewer packets would cost more to wake up for than to do.
constexpr std::uint32_t kMuchOfCapacity = 4;
// Smaller links run over before the first task has woken up.
constexpr std::uint32_t kLeastCapacity = 511;  // packets
constexpr std::uint32_t kLeastOfSlow = 255;    // of a link that fills slowly
// The scheduler must end a longer turn.
constexpr Nanoseconds kLongTurn = 1'000'000;
// Two looks so far apart must find little: one may just come between two full bursts.
constexpr Nanoseconds kCalmFor = 20'000;
// A task that is alone and had such a turn goes on spinning for so long: it may compute, and poll
// nothing.
constexpr Nanoseconds kAfterLongTurn = 10'000'000;
// A thread that was woken has begun a turn by then, or will not.
constexpr Nanoseconds kLateStart = 200'000;
// Tasks that have not caught up after this time have no time to sleep.
constexpr Nanoseconds kBehindFor = 200'000;
// Wake-ups so rare cost nothing worth a delay: the first packet after such a time does not wait.
constexpr Nanoseconds kRareWakes = 1'000'000;
// A task keeps packets and sends them by a timer if it was seen so often in so short a time to send
// without having taken anything. One that says hello to its neighbours does so more seldom.
constexpr std::uint8_t kProofs = 3;
constexpr Nanoseconds kProofsWithin = 1'000'000'000;
// What moves so soon after the tasks fell asleep was done before: links that are counted by looks
// show it late.
constexpr Nanoseconds kCountsBehind = 100'000;

}  // namespace

void ShortRests::Start(bool possible) {
  const auto is_large = [this](const IngressState& in) {
    const InterfaceMonitor& monitor = tasks_.monitor();
    const bool slow = monitor.FillsSlowly(in.link);
    return monitor.PktCap(in.link) >= (slow ? kLeastOfSlow : kLeastCapacity);
  };
  allowed_ = possible && tasks_.settings().max_delay > 0 && tasks_.all_occupancies_known() &&
             std::ranges::all_of(tasks_.ingresses(), is_large);
  active_ = false;
  calm_since_ = kNever;
  woken_.assign(tasks_.size(), false);
  asleep_.assign(tasks_.size(), {});
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
  if (!allowed_ || now < not_before_) return false;
  // A task that is alone may find packets at each poll, and its turn never ends.
  if (!(turn_seen || tasks_.size() == 1) || Look() >= Waiting::kMuch) {
    calm_since_ = kNever;
    return false;
  }
  if (calm_since_ == kNever) calm_since_ = now;
  if (now - calm_since_ < kCalmFor) return false;
  calm_since_ = kNever;
  if (!parking_.CanParkAll()) return false;
  ParkAll(now);
  active_ = true;
  looked_before_ = looked_at_ = now;
  seen_asleep_ = false;
  idle_until_ = 0;
  ++times_;
  woken_at_ = turn_at_ = now;
  started_ = true;
  out_of_turn_ = false;
  since_ = behind_since_ = kNever;
  return true;
}

bool ShortRests::Look(bool turn_seen, Nanoseconds now) noexcept {
  const Nanoseconds two_looks_ago = std::exchange(looked_before_, std::exchange(looked_at_, now));
  if (now - renewed_ >= ProcessController::kRenewParkEvery) ParkAll(now);
  if (turn_seen) {
    started_ = true;
    turn_at_ = now;
  }
  const Waiting waiting = Look();
  // While the CPU passes from one task to the next, no task has a turn: one such look proves
  // nothing.
  const bool out_before =
      std::exchange(out_of_turn_, !controller_.yielding()->AnyInTurn(tasks_.core()));
  const bool sleep =
      out_before && out_of_turn_ && !turn_seen && (started_ || now - woken_at_ >= kLateStart);
  // A task that runs may send at any time, also without packets in its ingresses.
  const bool idle = sleep && waiting == Waiting::kNone;
  idle_until_ = idle ? renewed_ + ProcessController::kRenewParkEvery : 0;
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
    if (long_turn && tasks_.size() == 1) not_before_ = now + kAfterLongTurn;
    return SpinAgain();
  }
  // Tasks that fall asleep with much in front of them, again and again, are behind all the same.
  if (waiting < Waiting::kMuch) behind_since_ = kNever;
  if (behind_since_ != kNever && now - behind_since_ >= kBehindFor) return SpinAgain();
  if (waiting == Waiting::kNone) {
    since_ = kNever;
    if (!FindTimers(now)) return true;
    allowed_ = false;
    return SpinAgain();
  }
  // The source naps with the scheduler. After a nap it may send what it has held since the nap
  // began only when the scheduler has looked again.
  if (since_ == kNever) since_ = two_looks_ago;
  if (waiting >= Waiting::kMuch || now - since_ >= tasks_.settings().max_delay ||
      now - woken_at_ >= kRareWakes)
    Wake(now);
  else
    idle_until_ = std::min(since_ + tasks_.settings().max_delay,
                           renewed_ + ProcessController::kRenewParkEvery);
  return true;
}

bool ShortRests::SpinAgain() noexcept {
  active_ = false;
  parking_.UnparkAll(0);
  return false;
}

// All sleep, and no packet waits. What differs from the last such look was done by a task that woke
// up by itself, at the latest after UNIS_REST_MS.
bool ShortRests::FindTimers(Nanoseconds now) noexcept {
  if (!std::exchange(seen_asleep_, true)) asleep_at_ = now;
  const bool compare = now - asleep_at_ >= kCountsBehind;
  for (Slot slot = 0; slot < tasks_.size(); ++slot) {
    Asleep& before = asleep_[slot];
    const std::uint16_t taken = tasks_.TakenBy(tasks_[slot]), sent = tasks_.SentBy(tasks_[slot]);
    const bool by_timer = compare && taken == before.taken && sent != before.sent &&
                          !tasks_.SentIsCountedLate(tasks_[slot]);
    before.taken = taken;
    before.sent = sent;
    if (!by_timer) continue;
    if (before.times == 0 || now - before.first > kProofsWithin) {
      before.times = 0;
      before.first = now;
    }
    if (++before.times == kProofs) sends_by_timer_ = tasks_[slot].index;
  }
  return sends_by_timer_.has_value();
}

void ShortRests::ParkAll(Nanoseconds now) noexcept {
  renewed_ = now;
  parking_.ParkAll();
}

// Woken tasks sleep again when they find their ports empty.
void ShortRests::Wake(Nanoseconds now) noexcept {
  ++wakes_;
  wake_delay_ += now - since_;
  seen_asleep_ = false;
  woken_at_ = turn_at_ = now;
  started_ = out_of_turn_ = false;
  since_ = kNever;
  woken_.assign(woken_.size(), false);  // allocates nothing
  for (Slot slot = 0; slot < tasks_.size(); ++slot) {
    const auto has_packets = [this](const IngressState& in) { return tasks_.Packets(in) > 0; };
    if (std::ranges::any_of(tasks_.In(tasks_[slot]), has_packets)) WakeChain(slot);
  }
  ParkAll(now);
}

// With the tasks to which it will pass packets: they would be woken one after the other, each a
// look later.
void ShortRests::WakeChain(Slot slot) noexcept {
  if (woken_[slot]) return;
  woken_[slot] = true;
  controller_.Unpark(tasks_[slot].index);
  for (Slot other = 0; other < tasks_.size(); ++other)
    if (tasks_.Feeds(tasks_[slot], tasks_[other])) WakeChain(other);
}

}  // namespace unis
