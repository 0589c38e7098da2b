// The polling threads of a run's functions, which it holds, and what shows that they run.
//
// A polling thread that ends is not a function that ends: programs end and start such threads when
// they are configured anew. Only the end of the process is the end of the function.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/pidfd.h"
#include "engine/controller/held_thread.h"
#include "engine/run/deployment.h"
#include "engine/run/held_file.h"
#include "engine/run/pollers.h"
#include "engine/trace/activity.h"
#include "unis/v1/engine.pb.h"

namespace unis {

class ThreadRegistry {
 public:
  // In the order of the topology's functions. The guard learns from `held` who is taken hold of.
  ThreadRegistry(Deployment& deployment, HeldFile& held) : deployment_(deployment), held_(held) {}

  // An error: there is no such function, or a process of it lives and is attached.
  absl::Status MayAttach(const std::string& function) const;
  // Pins these threads of the process, which poll, to the function's CPU and lets them wait in
  // SCHED_IDLE, so that those that come after them on this CPU go first. An error: nothing is held.
  absl::Status Attach(const std::string& function, pid_t pid, Pidfd process,
                      const std::vector<pid_t>& tids);
  // Programs may start to poll late, or from other threads than at first. A census for each living
  // function of a DPDK group of its own, by name; those on net_unis name their threads.
  std::vector<std::pair<std::string, PollerCensus>> Censuses() const;
  // Takes hold of those alone that the censuses found.
  absl::Status Recount(const std::vector<std::pair<std::string, PollerCensus>>& censuses);

  // One look at the threads of living functions. Those functions of which some thread that nobody
  // took hold of is now known to poll, or some that was taken sleeps for long beside one that does
  // not. One that wants the CPU and gets nothing of it, as beside real-time functions, is given a
  // turn on `elsewhere` until it sleeps or is known: what woke up for a moment's work is done with
  // it there, and has its own CPUs again. On `rested` CPUs those that were taken sleep because they
  // were told to.
  std::set<std::string> LookForLate(unsigned elsewhere, const std::set<unsigned>& rested);
  // Of these functions takes hold of the ones, and gives the others back to the kernel. An error:
  // of those with which that could not be; the others are.
  absl::Status TakeLate(const std::set<std::string>& functions);
  // Puts a function's threads back as they were found: it goes on without us.
  absl::Status LetGo(const std::string& function);
  // Forgets functions that the topology no longer has.
  void ForgetOthers();
  // To the CPU that the topology has for it now.
  absl::Status Pin(const std::string& function);
  // Functions of which the process or a thread has ended and was not taken for ended yet.
  std::set<std::string> Ended() const;
  // Those of `functions` whose process has ended since the last call, attached or let go. Threads
  // that ended in a process that goes on are forgotten: nobody may schedule them meanwhile.
  std::vector<std::string> TakeEnded(const std::set<std::string>& functions);
  // A process of the function was attached, and has not been taken for ended yet.
  bool Remembers(const std::string& function) const;
  // Threads that are exiting run before all that the scheduler runs, and so can end.
  void BoostExiting();
  // Puts all back; what could not be.
  absl::Status Release();

  enum class Presence : std::uint8_t {
    kAbsent,      // not attached
    kPolling,     // with a thread at least
    kNotPolling,  // the process lives, and no thread of it is known to poll
    kEnded,       // until it is detached or attached anew
  };
  Presence PresenceOf(const std::string& function) const;
  pid_t ProcessOf(const std::string& function) const;  // 0: not attached
  // Also of one that has died, until it is attached anew.
  std::vector<HeldThread*> threads(const std::string& function) const;
  std::vector<HeldThread*> Living(const std::string& function) const;
  // An error with the first function that does not.
  absl::Status AllPoll() const;
  std::vector<HeldThread*> AllLiving() const;

 private:
  struct Member {
    HeldFile::Note note;  // outlives the thread, which is put back first
    HeldThread thread;
    int asleep = 0;  // at as many looks in a row
  };
  struct Attached {
    Attached(std::string function, pid_t number, Pidfd pidfd)
        : name(std::move(function)), pid(number), process(std::move(pidfd)), census(number) {}
    std::string name;
    pid_t pid;
    Pidfd process;
    std::vector<std::unique_ptr<Member>> threads;
    PollerCensus census;                         // of those that are not in `threads`
    std::vector<std::unique_ptr<Member>> tried;  // they have their turn elsewhere
    std::vector<pid_t> refused;                  // that poll and cannot be taken: asked once
    bool let_go = false;
    bool told_dead = false;
    absl::Status PutBack();           // its threads, as they were found; what could not be
    std::vector<pid_t> Late() const;  // they poll, and are not in `threads`
    // What was before a thread was tried is known there alone. Null: it was not.
    std::unique_ptr<Member> TakeTried(pid_t tid);
    void LookForSleepers();
    bool HasSleepers() const;
    absl::Status GiveBackSleepers();
  };

  Attached* Find(const std::string& function);  // null: none
  const Attached* Find(const std::string& function) const;
  absl::StatusOr<std::unique_ptr<Member>> Note(const Attached& attached, pid_t tid);
  absl::StatusOr<std::unique_ptr<Member>> Try(const Attached& attached, pid_t tid,
                                              unsigned elsewhere);
  absl::StatusOr<std::unique_ptr<Member>> Hold(Attached& attached, pid_t tid);
  absl::Status LetWait(HeldThread& thread);

  Deployment& deployment_;
  HeldFile& held_;
  std::vector<Attached> attached_;
};

// What a function's ports or links show: polls and packets of its paths. `deployment` outlives it.
std::unique_ptr<Activity> ActivityOf(const Deployment& deployment, std::size_t function);

}  // namespace unis
