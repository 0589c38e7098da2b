// Threads that begin to poll while the chain runs.
#include <algorithm>
#include <chrono>

#include "engine/run/thread_registry.h"

namespace unis {
namespace {

// Without a sleep: more than a thread that woke up for a moment's work takes, and less than is left
// in the time of a census for one that polls where the engine's own threads go first.
constexpr auto kRan = std::chrono::milliseconds(5);
// Looks in a row. A thread that polls does not sleep; one that computed for a while, say what was
// asked of it at a console, does for the rest of its time.
constexpr int kAsleepForLong = 15;

}  // namespace

std::vector<pid_t> ThreadRegistry::Attached::Late() const {
  std::vector<pid_t> late;
  if (!let_go && !told_dead) late = census.Pollers();
  std::erase_if(late, [this](pid_t tid) {
    return census.Ran(tid) < kRan || std::ranges::count(refused, tid) > 0;
  });
  return late;
}

std::unique_ptr<ThreadRegistry::Member> ThreadRegistry::Attached::TakeTried(pid_t tid) {
  const auto found = std::ranges::find_if(
      tried, [tid](const auto& member) { return member->thread.tid() == tid; });
  if (found == tried.end()) return nullptr;
  auto member = std::move(*found);
  tried.erase(found);
  return member;
}

void ThreadRegistry::Attached::LookForSleepers() {
  for (const auto& member : threads)
    member->asleep = member->thread.sleeps() ? member->asleep + 1 : 0;
}

// Where none is awake, as of programs that wait for packets, all stay: a function has a thread.
bool ThreadRegistry::Attached::HasSleepers() const {
  return std::ranges::any_of(threads, [](const auto& one) { return one->asleep == 0; }) &&
         std::ranges::any_of(threads,
                             [](const auto& one) { return one->asleep >= kAsleepForLong; });
}

absl::Status ThreadRegistry::Attached::GiveBackSleepers() {
  absl::Status status;
  if (!HasSleepers()) return status;
  std::erase_if(threads, [&status](const auto& member) {
    if (member->asleep < kAsleepForLong) return false;
    member->asleep = 0;
    const auto restored = member->thread.Restore();
    status.Update(restored);
    return restored.ok();
  });
  return status;
}

// One at a time, and none before the engine's own threads, whatever class it gave itself.
absl::StatusOr<std::unique_ptr<ThreadRegistry::Member>> ThreadRegistry::Try(
    const Attached& attached, pid_t tid, unsigned elsewhere) {
  auto member = Note(attached, tid);
  if (!member.ok()) return member;
  HeldThread& thread = (*member)->thread;
  const HeldThread::Original& before = thread.before();
  if (before.kernel_class.priority > 0 || before.nice < 0)
    if (auto status = thread.SetClass(SCHED_IDLE, 0); !status.ok()) return status;
  if (auto status = thread.Pin(elsewhere); !status.ok()) return status;
  return member;
}

std::set<std::string> ThreadRegistry::LookForLate(unsigned elsewhere,
                                                  const std::set<unsigned>& rested) {
  std::set<std::string> found;
  for (Attached& attached : attached_) {
    if (attached.let_go || attached.told_dead) continue;
    std::vector<pid_t> known;
    for (const auto& member : attached.threads) known.push_back(member->thread.tid());
    attached.census.Look(known);
    const auto function = deployment_.topology().FindFunction(attached.name);
    if (!function || !rested.contains(deployment_.topology().functions[*function].config.cpu()))
      attached.LookForSleepers();
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
    if (!attached.Late().empty() || attached.HasSleepers()) found.insert(attached.name);
  }
  return found;
}

absl::Status ThreadRegistry::TakeLate(const std::set<std::string>& functions) {
  absl::Status status;
  for (Attached& attached : attached_) {
    if (!functions.contains(attached.name)) continue;
    for (const pid_t tid : attached.Late()) {
      auto member = Hold(attached, tid);
      if (member.ok()) {
        attached.threads.push_back(*std::move(member));
      } else {
        attached.refused.push_back(tid);
        status.Update(member.status());
      }
    }
    status.Update(attached.GiveBackSleepers());
    attached.census = PollerCensus(attached.pid);
  }
  return status;
}

}  // namespace unis
