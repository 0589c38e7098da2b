#include "engine/scheduler/cost.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace unis {
namespace {

// Of a slice: what a sample is made of, how often a burst that begins or ends it is looked for, and
// how late it may be seen to be taken.
constexpr Nanoseconds kSampleShare = 4;
constexpr Nanoseconds kLookShare = 256;
constexpr Nanoseconds kLateShare = 16;
// The same where slices are short against the time between looks.
constexpr Nanoseconds kLeastLooks = 16;
constexpr Nanoseconds kLateLooks = 2;

// Turns in a row, each too short to come from one burst to the next.
constexpr std::uint32_t kWholeTurns = 4;

// What is far from the cost that is believed: so many times it, or the share of it. And what is
// near, for so long.
constexpr double kFar = 2;
constexpr double kNear = 1.25;
constexpr Nanoseconds kSure = 3'000'000;

// From so many packets on the burst in hand hardly counts.
constexpr std::uint32_t kBoundPackets = 4 * kBatch;

// Positions of links are a function's to write: what a packet can be said to cost, ns.
constexpr double kLeast = 0.1;
constexpr double kMost = 1e9;

}  // namespace

CostFollower::CostFollower(double start_ns) : ns_(start_ns) { samples_.fill(start_ns); }

void CostFollower::BeginTurn(const Turn& turn, const Seen& before) noexcept {
  in_turn_ += before.taken;
  if (whole_turns_) LookForMore();
  whole_turns_ = looked_ = busy_ = since_take_ = spanned_ = false;
  turn_ = turn;
  sampled_ = turn.begin < sure_until_;
  last_look_ = next_look_ = turn.begin;
  close_ = !sampled_;
  in_turn_ = 0;
}

void CostFollower::Look(Nanoseconds now, const Seen& seen) noexcept {
  const Nanoseconds gap = now - std::exchange(last_look_, now);
  busy_ = seen.busy;
  in_turn_ += seen.taken;
  taken_ += seen.taken;
  LookForLess(gap, seen.taken);
  if (!busy_) {
    since_take_ = false;
  } else if (seen.taken > 0 && IsTimely(gap)) {
    Take(now);
  }
  PlanNextLook(now);
}

// The ends of turns are not known as well as bursts are, so only what is far from `ns_` counts.
void CostFollower::LookForMore() noexcept {
  turns_.packets += in_turn_;
  if (++turns_summed_ < kWholeTurns || turns_.packets < kBatch) return;
  if (static_cast<double>(turns_.time) > kFar * turns_.packets * ns_) {
    (void)Sample(turns_);
    sure_until_ = 0;
  }
  turns_ = {};
  turns_summed_ = 0;
}

// Whether it had work or not, its packets have cost no more than the time in which it took them.
void CostFollower::LookForLess(Nanoseconds gap, std::uint32_t taken) noexcept {
  if (!std::exchange(looked_, true)) {
    at_most_ = {};
    return;
  }
  at_most_.time += gap;
  at_most_.packets += taken;
  if (at_most_.packets < kBoundPackets) return;
  if (kFar * static_cast<double>(at_most_.time) < at_most_.packets * ns_) {
    (void)Sample(at_most_);
    sure_until_ = 0;
    sum_ = {};
    since_take_ = false;
  }
  at_most_ = {};
}

// What a sample is made of.
Nanoseconds CostFollower::Enough() const noexcept {
  return std::max(turn_.slice / kSampleShare, kLeastLooks * turn_.interval);
}

// How long a look comes after the last burst was taken must be little, and alike where a span
// begins and where it ends. It is no longer than since the last look, nor than a burst takes.
bool CostFollower::IsTimely(Nanoseconds gap) const noexcept {
  const Nanoseconds most = std::max(turn_.slice / kLateShare, kLateLooks * turn_.interval);
  const Nanoseconds often = std::max(turn_.slice / kLookShare, turn_.interval);
  return gap <= often ||
         (close_ && std::min(static_cast<double>(gap), kBatch * ns_) <= static_cast<double>(most));
}

// Where a span begins and ends as soon as looks can come; in between later and later, for the cost
// may be far less than is believed. One sample a turn will do, where the scheduler does not look
// anyway: a look costs a cache line.
void CostFollower::PlanNextLook(Nanoseconds now) noexcept {
  const Nanoseconds often = std::max(turn_.slice / kLookShare, turn_.interval);
  const Nanoseconds so_far = since_take_ ? sum_.time + now - took_at_ : 0;
  const Nanoseconds missing = since_take_ ? Enough() - so_far : 0;
  const bool asks = busy_ && !sampled_;
  close_ = asks && missing <= often;
  next_look_ = asks ? now + std::max(often, std::min(so_far, missing))
                    : std::numeric_limits<Nanoseconds>::max();
}

// It has taken a burst right now.
void CostFollower::Take(Nanoseconds now) noexcept {
  if (since_take_) {
    sum_.time += now - took_at_;
    sum_.packets += taken_;
    spanned_ = true;
  }
  since_take_ = true;
  took_at_ = now;
  taken_ = 0;
  if (sum_.time < Enough() || sum_.packets < kBatch) return;
  if (Sample(sum_)) sure_until_ = now + kSure;
  sampled_ = true;
}

// A function that costs many times what is believed does not come from one burst to the next in one
// turn. Then whole turns are summed up, though their ends are not known as well.
void CostFollower::EndTurn(Nanoseconds ran) noexcept {
  whole_turns_ = busy_ && !spanned_;
  if (whole_turns_) {
    turns_.time += ran;
  } else {
    turns_ = {};
    turns_summed_ = 0;
  }
}

bool CostFollower::Sample(Span& span) noexcept {
  const double ns = static_cast<double>(span.time) / span.packets;
  const bool near = ns < kNear * ns_ && ns_ < kNear * ns;
  samples_[next_] = std::clamp(ns, kLeast, kMost);
  next_ = (next_ + 1) % kSamples;
  span = {};
  auto sorted = samples_;
  std::ranges::nth_element(sorted, sorted.begin() + kSamples / 2);
  ns_ = sorted[kSamples / 2];
  return near;
}

CostTracking::CostTracking(CoreTasks& tasks) : tasks_(tasks) {
  if (!tasks.settings().online_cost) return;
  for (const TaskState& task : tasks) followers_.emplace_back(tasks.CostOf(task));
  last_.resize(tasks.ingresses().size());
}

// A burst that is taken between two reads counts with the next look, and is missing in `packets`:
// never the other way round, so busy is only what was.
CostFollower::Seen CostTracking::SeeLinks(const TaskState& task) noexcept {
  CostFollower::Seen seen;
  const auto in = tasks_.In(task);
  const auto last = task.ingress.Of(last_);
  for (std::size_t i = 0; i < in.size(); ++i) {
    const std::uint16_t received = tasks_.monitor().Received(in[i].link);
    const auto taken = static_cast<std::uint16_t>(received - last[i].received);
    seen.taken += taken;
    seen.busy |= taken < last[i].packets;
    last[i] = {.received = received, .packets = tasks_.Packets(in[i])};
  }
  for (const EgressState& out : tasks_.Out(task))
    seen.busy &= tasks_.Packets(out) < tasks_.monitor().PktCap(out.link);
  return seen;
}

// What has been taken since the last look was taken during the controller's call, nobody knows
// when.
void CostTracking::BeginTurn(Slot slot, const CostFollower::Turn& turn) noexcept {
  if (!Follows(slot)) return;
  CostFollower& follower = followers_[slot];
  const double ns = tasks_.CostOf(tasks_[slot]);
  if (follower.ns() != ns) follower = CostFollower(ns);  // somebody else has measured it
  follower.BeginTurn(turn, SeeLinks(tasks_[slot]));
  UpdateCost(slot, ns);
}

void CostTracking::EndTurn(Slot slot, Nanoseconds ran) noexcept {
  if (Follows(slot)) followers_[slot].EndTurn(ran);
}

void CostTracking::Look(Slot slot, Nanoseconds now) noexcept {
  if (!Follows(slot)) return;
  const double before = followers_[slot].ns();
  followers_[slot].Look(now, SeeLinks(tasks_[slot]));
  UpdateCost(slot, before);
}

void CostTracking::UpdateCost(Slot slot, double before) noexcept {
  const double ns = followers_[slot].ns();
  if (ns != before) tasks_.SetCost(tasks_[slot], ns);
}

}  // namespace unis
