// Threads that begin to poll while the chain runs.
#include <algorithm>
#include <chrono>

#include "engine/run/members.h"

namespace unis {
namespace {

// Without a sleep: more than a thread that woke up for a moment's work takes, and less than is left
// in the time of a census for one that polls where the engine's own threads go first.
constexpr auto kRan = std::chrono::milliseconds(5);

}  // namespace

std::vector<pid_t> Members::Attached::Late() const {
  std::vector<pid_t> late;
  if (!let_go && !told_dead) late = census.Pollers();
  std::erase_if(late, [this](pid_t tid) {
    return census.Ran(tid) < kRan || std::ranges::count(refused, tid) > 0;
  });
  return late;
}

// One at a time, and none before the engine's own threads, whatever class it gave itself.
absl::StatusOr<std::unique_ptr<Members::Member>> Members::Try(const Attached& attached, pid_t tid,
                                                              unsigned elsewhere) {
  auto member = Note(attached.name, attached.pid, tid);
  if (!member.ok()) return member;
  HeldThread& thread = (*member)->thread;
  const HeldThread::Original& before = thread.before();
  if (before.kernel_class.priority > 0 || before.nice < 0)
    if (auto status = thread.SetClass(SCHED_IDLE, 0); !status.ok()) return status;
  if (auto status = thread.Pin(elsewhere); !status.ok()) return status;
  return member;
}

bool Members::LookForLate(unsigned elsewhere) {
  bool found = false;
  for (Attached& attached : attached_) {
    if (attached.let_go || attached.told_dead) continue;
    std::vector<pid_t> known;
    for (const auto& member : attached.threads) known.push_back(member->thread.tid());
    attached.census.Look(known);
    std::erase_if(attached.tried,
                  [&](const auto& member) { return !attached.census.Wants(member->thread.tid()); });
    for (const pid_t tid : attached.census.Pollers()) {
      const auto is_it = [tid](const auto& member) { return member->thread.tid() == tid; };
      if (attached.census.Ran(tid) >= kRan || std::ranges::any_of(attached.tried, is_it)) continue;
      if (std::ranges::count(attached.refused, tid) > 0) continue;
      if (std::ranges::any_of(attached_, [](const auto& each) { return !each.tried.empty(); }))
        continue;
      // One that is gone, or may not be moved, is none of ours.
      if (auto member = Try(attached, tid, elsewhere); member.ok())
        attached.tried.push_back(*std::move(member));
      else
        attached.refused.push_back(tid);
    }
    found |= !attached.Late().empty();
  }
  return found;
}

absl::Status Members::TakeLate() {
  absl::Status status;
  for (Attached& attached : attached_) {
    for (const pid_t tid : attached.Late()) {
      const auto tried = std::ranges::find_if(
          attached.tried, [tid](const auto& member) { return member->thread.tid() == tid; });
      absl::StatusOr<std::unique_ptr<Member>> member = absl::UnknownError("");
      if (tried != attached.tried.end()) {  // what it was before is known there alone
        member = std::move(*tried);
        attached.tried.erase(tried);
      } else {
        member = Note(attached.name, attached.pid, tid);
      }
      if (member.ok())
        if (const auto waits = LetWait((*member)->thread); !waits.ok()) member = waits;
      if (member.ok())
        attached.threads.push_back(*std::move(member));
      else {
        attached.refused.push_back(tid);
        status.Update(member.status());
      }
    }
    attached.census = PollerCensus(attached.pid);
  }
  return status;
}

}  // namespace unis
