#include "engine/run/thread_registry.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>

#include "engine/base/proc.h"

namespace unis {
namespace {

// By the counters of its net_unis ports.
class PortActivity final : public Activity {
 public:
  explicit PortActivity(std::vector<const PortShm*> ports) : ports_(std::move(ports)) {}
  std::uint64_t Polls() const noexcept override {
    std::uint64_t polls = 0;
    for (const PortShm* port : ports_) polls += port->Polls();
    return polls;
  }
  std::uint64_t Packets() const noexcept override {
    std::uint64_t packets = 0;
    for (const PortShm* port : ports_) packets += port->Read().rx_packets;
    return packets;
  }

 private:
  std::vector<const PortShm*> ports_;
};

// By what it took from links of which nobody else tells: without packets it is not seen.
class LinkActivity final : public Activity {
 public:
  explicit LinkActivity(std::vector<const LinkProgress*> links) : links_(std::move(links)) {}
  std::uint64_t Polls() const noexcept override { return Packets(); }
  std::uint64_t Packets() const noexcept override {
    std::uint64_t packets = 0;
    for (const LinkProgress* link : links_) packets += link->received();
    return packets;
  }

 private:
  std::vector<const LinkProgress*> links_;
};

}  // namespace

std::unique_ptr<Activity> ActivityOf(const Deployment& deployment, std::size_t index) {
  const auto& function = deployment.topology().functions[index];
  if (function.counts()) {
    std::vector<const PortShm*> ports;
    for (std::size_t port = 0; port < function.ports.size(); ++port)
      ports.push_back(deployment.port(index, port));
    return std::make_unique<PortActivity>(std::move(ports));
  }
  std::vector<const LinkProgress*> links;
  for (const std::size_t path : function.paths)
    for (const auto& end : deployment.topology().paths[path].in)
      if (const auto* progress = deployment.progress(end.link)) links.push_back(progress);
  return std::make_unique<LinkActivity>(std::move(links));
}

absl::Status ThreadRegistry::MayAttach(const std::string& function) const {
  if (!deployment_.topology().FindFunction(function))
    return absl::InvalidArgumentError(fmt::format("there is no function {}", function));
  const Presence presence = PresenceOf(function);
  if (presence != Presence::kPolling && presence != Presence::kNotPolling) return absl::OkStatus();
  return absl::FailedPreconditionError(fmt::format("function {} is attached already", function));
}

absl::Status ThreadRegistry::Attach(const std::string& function, pid_t pid, Pidfd process,
                                    const std::vector<pid_t>& tids) {
  Attached attached(function, pid, std::move(process));
  for (const pid_t tid : tids) {
    auto held = Hold(attached, tid);
    if (!held.ok()) return held.status();
    attached.threads.push_back(*std::move(held));
  }
  std::erase_if(attached_, [&](const Attached& dead) {
    return dead.name == attached.name && !dead.let_go && dead.told_dead;
  });
  attached_.push_back(std::move(attached));
  return absl::OkStatus();
}

// Held, and nothing changed yet.
absl::StatusOr<std::unique_ptr<ThreadRegistry::Member>> ThreadRegistry::Note(
    const Attached& attached, pid_t tid) {
  auto held = HeldThread::Take(attached.name, attached.pid, tid);
  if (!held.ok()) return held.status();
  auto note = held_.Add(*held);
  if (!note.ok()) return note.status();
  return std::make_unique<Member>(*std::move(note), *std::move(held));
}

absl::StatusOr<std::unique_ptr<ThreadRegistry::Member>> ThreadRegistry::Hold(Attached& attached,
                                                                             pid_t tid) {
  absl::StatusOr<std::unique_ptr<Member>> member = attached.TakeTried(tid);
  if (*member == nullptr) member = Note(attached, tid);
  if (!member.ok()) return member;
  if (auto status = LetWait((*member)->thread); !status.ok()) return status;
  return member;
}

absl::Status ThreadRegistry::LetWait(HeldThread& thread) {
  const auto function = deployment_.topology().FindFunction(thread.name());
  const unsigned cpu = deployment_.topology().functions[*function].config.cpu();
  if (auto status = thread.Pin(cpu); !status.ok()) return status;
  // One that somebody else started goes on as it was, until it is scheduled.
  return deployment_.foreign() ? absl::OkStatus() : thread.SetClass(SCHED_IDLE, 0);
}

std::vector<std::pair<std::string, PollerCensus>> ThreadRegistry::Censuses() const {
  std::vector<std::pair<std::string, PollerCensus>> censuses;
  for (const Attached& attached : attached_) {
    const auto function = deployment_.topology().FindFunction(attached.name);
    if (!attached.let_go && function && !deployment_.topology().functions[*function].counts())
      censuses.emplace_back(attached.name, PollerCensus(attached.pid));
  }
  return censuses;
}

absl::Status ThreadRegistry::Recount(
    const std::vector<std::pair<std::string, PollerCensus>>& censuses) {
  for (const auto& [name, census] : censuses) {
    const std::vector<pid_t> pollers = census.Pollers();
    Attached* const attached = Find(name);
    if (pollers.empty() || attached == nullptr) continue;  // stopped, or gone: others will tell
    auto& threads = attached->threads;
    for (const pid_t tid : pollers) {
      const auto is_it = [tid](const auto& member) { return member->thread.tid() == tid; };
      if (std::ranges::any_of(threads, is_it)) continue;
      auto member = Hold(*attached, tid);
      if (!member.ok()) return member.status();
      threads.push_back(*std::move(member));
    }
    std::erase_if(threads, [&](const auto& member) {
      return std::ranges::count(pollers, member->thread.tid()) == 0;
    });
  }
  return absl::OkStatus();
}

// The one that was attached last.
ThreadRegistry::Attached* ThreadRegistry::Find(const std::string& function) {
  const auto found = std::find_if(attached_.rbegin(), attached_.rend(), [&](const auto& attached) {
    return attached.name == function && !attached.let_go;
  });
  return found == attached_.rend() ? nullptr : &*found;
}

const ThreadRegistry::Attached* ThreadRegistry::Find(const std::string& function) const {
  return const_cast<ThreadRegistry*>(this)->Find(function);
}

ThreadRegistry::Presence ThreadRegistry::PresenceOf(const std::string& function) const {
  const Attached* const attached = Find(function);
  if (attached == nullptr) return Presence::kAbsent;
  if (attached->told_dead || attached->process.ended()) return Presence::kEnded;
  return Living(function).empty() ? Presence::kNotPolling : Presence::kPolling;
}

pid_t ThreadRegistry::ProcessOf(const std::string& function) const {
  const Attached* const attached = Find(function);
  return attached == nullptr ? 0 : attached->pid;
}

std::vector<HeldThread*> ThreadRegistry::threads(const std::string& function) const {
  std::vector<HeldThread*> found;
  for (const Attached& attached : attached_) {
    if (attached.name != function || attached.let_go) continue;
    for (const auto& member : attached.threads) found.push_back(&member->thread);
  }
  return found;
}

std::vector<HeldThread*> ThreadRegistry::Living(const std::string& function) const {
  std::vector<HeldThread*> found = threads(function);
  std::erase_if(found, [](const HeldThread* thread) { return !thread->alive(); });
  return found;
}

std::vector<HeldThread*> ThreadRegistry::AllLiving() const {
  std::vector<HeldThread*> all;
  for (const auto& function : deployment_.topology().functions) {
    const auto living = Living(function.config.name());
    all.insert(all.end(), living.begin(), living.end());
  }
  return all;
}

// All threads of a process that exits do, also those that were never held. The number of a process
// that has ended may be a stranger's by now.
void ThreadRegistry::BoostExiting() {
  for (const Attached& attached : attached_) {
    if (attached.told_dead || attached.process.ended()) continue;
    const bool exiting =
        attached.threads.empty() || std::ranges::any_of(attached.threads, [](const auto& member) {
          return !member->thread.alive() || member->thread.Dying();
        });
    if (exiting) BoostExitingThreads(attached.pid);
  }
}

absl::Status ThreadRegistry::AllPoll() const {
  for (const auto& function : deployment_.topology().functions) {
    const std::string& name = function.config.name();
    const Presence presence = PresenceOf(name);
    if (presence == Presence::kPolling) continue;
    return absl::FailedPreconditionError(
        fmt::format("function {} {}", name,
                    presence == Presence::kAbsent  ? "is not attached"
                    : presence == Presence::kEnded ? "has ended"
                                                   : "has no thread that polls"));
  }
  return absl::OkStatus();
}

absl::Status ThreadRegistry::Attached::PutBack() {
  absl::Status status;
  for (const auto* list : {&threads, &tried}) {
    for (const auto& member : *list) {
      const auto restored = member->thread.Restore();
      if (restored.ok()) member->note = {};  // else the guard may have more luck
      status.Update(restored);
    }
  }
  if (status.ok()) tried.clear();
  return status;
}

absl::Status ThreadRegistry::LetGo(const std::string& function) {
  absl::Status status;
  for (Attached& attached : attached_) {
    if (attached.name != function || attached.let_go) continue;
    attached.let_go = true;
    status.Update(attached.PutBack());
  }
  return status;
}

void ThreadRegistry::ForgetOthers() {
  std::erase_if(attached_, [this](const Attached& attached) {
    return !deployment_.topology().FindFunction(attached.name);
  });
}

absl::Status ThreadRegistry::Pin(const std::string& function) {
  const auto at = deployment_.topology().FindFunction(function);
  for (HeldThread* thread : Living(function)) {
    auto status = thread->Pin(deployment_.topology().functions[*at].config.cpu());
    if (!status.ok() && thread->alive()) return status;
  }
  return absl::OkStatus();
}

std::vector<std::string> ThreadRegistry::TakeEnded(const std::set<std::string>& functions) {
  std::vector<std::string> ended;
  for (Attached& attached : attached_) {
    if (attached.told_dead || !functions.contains(attached.name)) continue;
    if (!attached.process.ended()) {
      const auto gone = std::erase_if(attached.threads,
                                      [](const auto& member) { return !member->thread.alive(); });
      if (gone > 0 && attached.threads.empty())
        spdlog::warn("function {} has no thread that polls; its process {} goes on", attached.name,
                     attached.pid);
      continue;
    }
    attached.told_dead = true;
    attached.tried.clear();
    for (const auto& member : attached.threads) member->note = {};
    ended.push_back(attached.name);
  }
  std::erase_if(attached_,
                [](const Attached& attached) { return attached.let_go && attached.told_dead; });
  return ended;
}

std::set<std::string> ThreadRegistry::Ended() const {
  std::set<std::string> ended;
  for (const Attached& attached : attached_) {
    const bool lost =
        attached.process.ended() || std::ranges::any_of(attached.threads, [](const auto& member) {
          return !member->thread.alive();
        });
    if (lost && !attached.told_dead) ended.insert(attached.name);
  }
  return ended;
}

bool ThreadRegistry::Remembers(const std::string& function) const {
  return std::ranges::any_of(attached_, [&](const Attached& attached) {
    return attached.name == function && !attached.told_dead;
  });
}

absl::Status ThreadRegistry::Release() {
  absl::Status status;
  for (Attached& attached : attached_) status.Update(attached.PutBack());
  return status;
}

}  // namespace unis
