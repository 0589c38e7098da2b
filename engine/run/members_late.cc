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
  std::erase_if(late, [this](pid_t tid) { return census.Ran(tid) < kRan; });
  return late;
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
      auto member = Note(attached.name, attached.pid, tid);
      // One that is gone, or may not be moved, is none of ours.
      if (member.ok() && (*member)->thread.Pin(elsewhere).ok())
        attached.tried.push_back(*std::move(member));
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
      else
        status.Update(member.status());
    }
    attached.census = PollerCensus(attached.pid);
  }
  return status;
}

}  // namespace unis
