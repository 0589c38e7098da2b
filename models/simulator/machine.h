// Virtual cores that run poll-mode functions. Who runs is a policy's business (policy.h): the
// machine carries out hand-overs and reports the end of polls.
//
// A function polls its links in turn: it takes a burst from the first that has packets, works on
// it, and puts it into its egresses; what does not fit is lost with the work done on it, as
// poll-mode functions do. A poll of an empty link on the way to a loaded one takes no time. One
// that finds every link empty polls again and again; these polls are not simulated one by one
// unless the policy wants to see them.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "models/simulator/packets.h"
#include "models/simulator/rings.h"
#include "models/simulator/scenario.h"

namespace unis::sim {

// Told by the machine what a polling function could itself act upon: where functions yield.
class PollObserver {
 public:
  virtual ~PollObserver() = default;
  // `task` finished a burst of so many packets; 0: a poll that found nothing. May hand the core
  // over.
  virtual void OnPollEnd(CoreIndex core, TaskIndex task, std::uint32_t packets, Time now) = 0;
  virtual bool WantsEmptyPolls(CoreIndex core, TaskIndex task) const = 0;
};

class Machine {
 public:
  explicit Machine(const Scenario& scenario);

  const Rings& rings() const { return rings_; }
  CoreIndex cores() const { return static_cast<CoreIndex>(cpus_.size()); }

  void Observe(PollObserver& observer) { observer_ = &observer; }
  // Runs `task` on its core, which runs nothing, from now on.
  void Start(TaskIndex task, Time now);
  // The core's task runs until `stop`, `to` from `start` on, in between nobody does. Hand-overs
  // take effect in the order in which they were asked for.
  void HandOver(TaskIndex to, Time stop, Time start);

  // When something happens on each core; kNever if it waits for packets.
  const std::vector<Time>& agenda() const { return agenda_; }
  void OnCoreEvent(CoreIndex core, Time now);

  void FillFirstRings(Time now) { rings_.FillFirst(now); }
  void Arrive(std::size_t chain, std::uint32_t count, Time now);
  std::uint32_t Deliver(std::size_t chain, std::uint32_t most, Time now);

  // The warm-up is over: all counts begin anew.
  void BeginMeasuring(Time now);
  // Counts up to now; checks that every packet is accounted for.
  void Collect(Time now, Result& result);

 private:
  enum class Activity : std::uint8_t { kNone, kWorking, kSpinning };

  struct Function {
    CoreIndex core;
    Range hops;
    HopIndex next_hop = 0;         // that it polls first, of its own
    HopIndex hop = 0;              // of the burst in hand
    std::vector<PacketRun> burst;  // in hand, also while another function runs
    std::uint32_t in_hand = 0;     // packets
    Time work_left = 0;            // of the burst in hand, when it was preempted
    Time busy = 0;
    Time spinning = 0;
    std::uint64_t switched_in = 0;
  };

  struct PendingHandOver {
    TaskIndex to;
    Time stop, start;
    bool stopped = false;
  };

  struct Core {
    std::optional<TaskIndex> running;
    Activity activity = Activity::kNone;
    Time since = 0;     // accounted until then
    Time due = kNever;  // end of the burst, or of the poll that will find something
    Time spin_begin = 0;
    Time run_begin = 0;
    std::uint64_t run_packets = 0;
    std::optional<std::size_t> last_run;  // position in runs_
    std::deque<PendingHandOver> hand_overs;
  };

  void Poll(CoreIndex core, Time now);
  void EndPoll(CoreIndex core, Time now);
  bool TakeBurst(Function& function, Time now);
  void Wake(TaskIndex reader, Time now);
  void WakeReaders(Time now);
  void Resume(CoreIndex core, TaskIndex task, Time now);
  void Stop(CoreIndex core, Time now);
  void Account(Core& core, Time now);
  void EndRun(CoreIndex core, Time now);
  void Reschedule(CoreIndex core);

  Time poll_;
  bool trace_;
  std::vector<std::uint32_t> cpus_;
  Rings rings_;
  std::vector<Function> functions_;
  std::vector<Core> cores_;
  std::vector<Time> agenda_;
  std::vector<RunInterval> runs_;
  std::uint64_t switches_ = 0;
  PollObserver* observer_ = nullptr;
};

}  // namespace unis::sim
