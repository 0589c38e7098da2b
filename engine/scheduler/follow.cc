// Follows what packets cost the tasks of this core, each while it has its turn.
#include <algorithm>

#include "engine/scheduler/scheduler.h"

namespace unis {

// A burst that is taken between two readings counts with the next look, and is missing in
// `packets`: never the other way round, so busy is only what was.
CostFollower::Seen Scheduler::SeeLinks(const TaskState& task) noexcept {
  CostFollower::Seen seen;
  bool room = true;
  for (std::uint32_t i = task.first_path; i < task.first_path + task.paths; ++i) {
    const PathState& path = paths_[i];
    LastSeen& last = last_seen_[i];
    const std::uint16_t received = monitor_.Received(path.in);
    const auto taken = static_cast<std::uint16_t>(received - last.received);
    seen.taken += taken;
    seen.busy |= taken < last.packets;
    room &= monitor_.NumPkts(path.out) < monitor_.PktCap(path.out);
    last = {.received = received, .packets = monitor_.NumPkts(path.in)};
  }
  seen.busy &= room;
  return seen;
}

// The threads of a crew keep the cost that they have: which of them does what is not known.
bool Scheduler::Follows(const TaskState& task) const noexcept {
  return settings_.online_cost && task.crew == kNone;
}

// The task of `left`, which has run since `began`, is left. What has been taken since the last look
// was taken during the controller's call, nobody knows when.
void Scheduler::FollowSwitch(Slot left, SwitchReason reason, Nanoseconds now,
                             Nanoseconds began) noexcept {
  const bool end_is_known = reason != SwitchReason::kStart && reason != SwitchReason::kSelf;
  if (end_is_known && Follows(tasks_[left]))
    followers_[left].EndTurn(std::max<Nanoseconds>(0, now + settings_.lead - began));
  const TaskState& task = tasks_[current_];
  if (!Follows(task)) return;
  CostFollower& follower = followers_[current_];
  const double ns = costs_.Ns(paths_[task.first_path].function);
  if (follower.ns() != ns) follower = CostFollower(ns);  // somebody else has measured it
  follower.BeginTurn({.begin = settled_, .slice = slice_, .interval = settings_.interval},
                     SeeLinks(task));
  Believe(follower.ns(), ns);
}

void Scheduler::FollowCost(Nanoseconds now) noexcept {
  const TaskState& task = tasks_[current_];
  if (!Follows(task) || now < settled_) return;
  CostFollower& follower = followers_[current_];
  const double before = follower.ns();
  follower.Look(now, SeeLinks(task));
  Believe(follower.ns(), before);
}

void Scheduler::Believe(double ns, double before) noexcept {
  if (ns != before) costs_.Set(paths_[tasks_[current_].first_path].function, ns);
}

Nanoseconds Scheduler::QuietAtMost(Nanoseconds until) const noexcept {
  if (!Follows(tasks_[current_])) return until;
  return std::min(until, followers_[current_].next_look());
}

}  // namespace unis
