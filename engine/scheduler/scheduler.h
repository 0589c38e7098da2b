// Algorithm 1 of the paper (section 4.4) for one core: which of its tasks runs next, and for how
// long. Several paths of a task, which the paper does not know, are docs/scheduler.md's subject.
//
// Pure and replayable: the same answers of monitor, timer and controller give the same switches.
// One thread calls what is not const; a tick allocates nothing, takes no lock and makes no system
// call but the controller's switch. Schedulers of different cores share no mutable state, so each
// may have a thread of its own.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "engine/scheduler/components.h"
#include "engine/scheduler/cost_follower.h"
#include "engine/scheduler/quota_search.h"
#include "engine/scheduler/switch_time.h"
#include "engine/scheduler/task.h"

namespace unis {

inline constexpr std::uint32_t kBatch = 64;       // packets a burst (section 4.5)
inline constexpr std::uint32_t kUsualBurst = 32;  // packets a burst of DPDK's examples

// As they stand here, the printed algorithm.
struct SchedulerSettings {
  double gamma = 0.75;                     // γ (section 4.5)
  std::uint32_t theta_min = kBatch - 8;    // θmin = batch − 8 packets (section 4.5)
  std::optional<std::uint32_t> theta_max;  // θmax packets; absent: γ · capacity of the egress
  Nanoseconds interval = 1'000;            // T (section 4.5.3)
  bool occupancy = true;                   // interface occupancy based optimisation (section 4.4.2)

  // Not in the paper.

  // A switch takes several µs, in which the current task runs on. So it is left when the work it
  // has left (until ingress ≤ θmin, egress ≥ θmax or the end of the slice) lasts no longer than
  // this.
  Nanoseconds lead = 0;
  // From the decision until the next task runs, when its slice begins; absent: lead. With
  // `online_cost` that is where it starts (switch_time.h).
  std::optional<Nanoseconds> switch_time;
  // As printed, up to θmin packets may lie in a ring for ever when the traffic stops. A task with
  // packets in front that has neither run nor been seen without any for so long counts as having
  // work. 0: as printed, and 1 ms on cores that have a task with several paths.
  Nanoseconds max_wait = 0;
  // Looks again no sooner than a quarter of the time that the current task's work takes by its
  // cost. False: every T.
  bool lazy = false;
  // Tasks pass the CPU on by themselves, each to the next of the wait queue. The scheduler watches,
  // asks one to leave whose egress is full, preempts one that polls no more, and runs those that
  // cannot pass it on, between two turns of the others.
  bool handover = false;
  // Packets that they take in a turn, at most γ · capacity of the links; 0: found while they run
  // (quota_search.h).
  std::uint32_t quota = 0;
  // Follows what packets cost while tasks run (cost_follower.h): the costs given are where it
  // starts. It keeps them for functions with several threads on this core, and where the monitor
  // cannot tell what a link has carried. With `occupancy` a slice of a task of one path goes on
  // until it has taken γ · capacity of packets. False: all stay as they are given.
  bool online_cost = false;
  // When no task of the core has had a packet in front for so long, all are put to sleep, until one
  // has. 0: never, they spin.
  Nanoseconds idle_after = 0;
  // Slices are so many times as long as costs and γ say: what wrong costs do (section 5.7).
  double slice_factor = 1;

  bool operator==(const SchedulerSettings&) const = default;
};

class alignas(64) Scheduler {
 public:
  // Schedules the tasks of `tasks` that are on `core`: at least one, each with at least one path;
  // else std::invalid_argument. The references but that to `tasks` must outlive the scheduler;
  // `observer` may be null.
  Scheduler(const SchedulerSettings& settings, const TaskSet& tasks, CoreIndex core, Costs& costs,
            const InterfaceMonitor& monitor, const TimerSubsystem& timer,
            ProcessController& controller, SwitchObserver* observer = nullptr);

  // Runs the first task of the wait queue, or the first that can be started. False: none could.
  bool Start();

  // Lines 4 to 19: does nothing until T has passed since the last decision. True: it switched.
  bool Tick() noexcept { return Tick(timer_.Now()); }
  // The same for a caller that has just read the timer.
  bool Tick(Nanoseconds now) noexcept { return now >= next_decision_ && Decide(now); }

  // The current task has passed the CPU to `now_runs`, another task of this core, by itself.
  void OnSelfSwitch(TaskIndex now_runs) noexcept;

  CoreIndex core() const noexcept { return core_; }
  TaskIndex Current() const noexcept { return tasks_[current_].index; }
  std::uint64_t Switches() const noexcept;  // with those that tasks made
  std::uint64_t FailedSwitches() const noexcept { return failed_switches_; }
  std::uint64_t SwitchedIn(TaskIndex task) const noexcept;  // times chosen; 0: of another core
  std::uint64_t Rests() const noexcept { return rests_; }   // times that all were put to sleep
  bool resting() const noexcept { return resting_; }
  // Packets that a turn takes, the best found so far; 0: tasks do not hand the CPU over.
  std::uint32_t Quota() const noexcept;
  // The search of another scheduler for the same tasks goes on here, if that had the same γ. To be
  // called before Start().
  const std::optional<QuotaSearch>& search() const noexcept { return search_; }
  void GoOnWith(const QuotaSearch& search) noexcept;
  std::uint64_t Decisions() const noexcept { return decisions_; }  // looks at the core
  const SchedulerSettings& settings() const noexcept { return settings_; }

  // cost · γ · capacity(egress) (section 4.4.2); the least over the paths that hold packets, or
  // over all if none does. `task` is of this core.
  Nanoseconds TimeSlice(TaskIndex task) const noexcept;

  // From the decision until the next task runs, as it was seen last.
  Nanoseconds SwitchNs() const noexcept { return switch_time_.ns(); }

  // The invariant: current task and wait queue are a permutation of the tasks. For tests.
  bool QueueIsSound() const noexcept;

 private:
  using Slot = std::uint32_t;  // position in tasks_
  static constexpr Slot kNone = ~Slot{0};
  static constexpr Nanoseconds kNotDenied = -1;
  static constexpr Nanoseconds kNotIdle = -1;
  static constexpr Nanoseconds kLongestFollowed = 20'000'000;  // slice

  struct PathState {
    LinkIndex in, out;
    FunctionIndex function;
    std::uint32_t theta_max;      // packets in `out`
    double quota;                 // γ · capacity of `out`, packets
    double most_lead;             // packets: as many are worth a switch, however long the lead
    bool read_elsewhere = false;  // `out`, by a task of another core
  };

  // Whether packets were taken from an ingress, put into an egress.
  struct Moves {
    bool takes = false, puts = false;
  };

  // A cache line each: what one scheduler writes no other has in its cache.
  struct alignas(64) TaskState {
    TaskIndex index;
    std::uint32_t first_path, paths;
    Slot behind = kNone;                 // in the wait queue
    Nanoseconds idle_at = 0;             // when it last ran or was seen without packets
    Nanoseconds denied_at = kNotDenied;  // since when it has work, but would lose packets
    std::uint64_t switched_in = 0;
    // Of a function that has several threads on this core.
    std::uint32_t crew = kNone;  // in crews_
    std::uint32_t taken = 0;     // Crew::taken when its last turn ended
    std::uint32_t turns = 0;     // Crew::turns then
    std::uint32_t waits = 1;     // rounds of the others after which it is looked for packets
    Moves moves{};               // in the last turn in which it moved any
    bool moved = false;          // in this turn, or in its last
  };

  // The threads of one function.
  struct Crew {
    std::uint32_t first_path, paths, threads;
    Slot taker = kNone;       // who was last seen to take packets
    std::uint32_t taken = 0;  // packets; wraps
    std::uint32_t turns = 0;  // wraps
    std::uint32_t still = 0;  // turns in a row in which nothing moved
  };

  // What a crew has taken on a path and not passed on.
  struct Inside {
    std::uint16_t received = 0, sent = 0;  // of the links, when looked at last
    std::uint32_t packets = 0;
  };

  // A task that passes the CPU on, and may sleep while others work.
  struct Dozer {
    bool dozes = false;
    std::uint16_t moved = 0;       // packets, ever, when looked at last; wraps
    Nanoseconds since = kNotIdle;  // it had no packets, or it dozes
    Nanoseconds patience = 0;      // so long it must have had none
  };

  // An ingress when it was looked at last, and its packets.
  struct LastSeen {
    std::uint16_t received = 0;
    std::uint32_t packets = 0;
  };

  // What is to be expected of a task, were it to run.
  struct Outlook {
    bool packets = false;     // in front of a path
    bool work = false;        // of which some go into an egress < θmax
    bool meaningful = false;  // more than θmin of them, for longer than the lead
    std::uint32_t held = 0;   // packets in front of blocked paths: running loses them
  };

  struct Choice {
    Slot task = kNone;    // kNone: the current one stays
    Slot before = kNone;  // its predecessor in the wait queue
  };

  void Add(const TaskSet& tasks, TaskIndex index);
  void Join(TaskIndex index);
  bool IsReadElsewhere(const TaskSet& tasks, LinkIndex link) const noexcept;
  bool Decide(Nanoseconds now) noexcept;
  bool SwitchTo(const Choice& next, SwitchReason reason, Nanoseconds now) noexcept;
  bool Settled(Nanoseconds now) noexcept;
  void AwaitFirstPackets(SwitchReason reason, Nanoseconds now) noexcept;
  Nanoseconds BurstOf(const TaskState& task) const noexcept;
  void Run(Slot next, SwitchReason reason, Nanoseconds now) noexcept;
  void Record(TaskIndex previous, SwitchReason reason, Nanoseconds now) noexcept;
  Nanoseconds SliceOf(const TaskState& task) const noexcept;
  Nanoseconds switch_time() const noexcept { return switch_time_.ns(); }
  Slot SlotOf(TaskIndex task) const noexcept;

  // decide.cc
  std::int64_t AboveMin(std::uint32_t ingress) const noexcept;  // packets more than θmin
  std::int64_t BelowMax(const PathState& path) const noexcept;  // until the egress has θmax
  std::optional<SwitchReason> LeaveReason(Nanoseconds now) noexcept;
  std::optional<SwitchReason> LeaveReasonOfPaths(Nanoseconds now) noexcept;
  bool Prolongs(Nanoseconds now) noexcept;
  bool Waited(const TaskState& task, Nanoseconds now) const noexcept;
  bool WorthASwitch(std::int64_t packets, const PathState& path) const noexcept;
  bool HasMeaningfulWork(TaskState& task, Nanoseconds now) noexcept;
  Choice Choose(SwitchReason reason, Nanoseconds now) noexcept;
  Outlook Look(const TaskState& task) const noexcept;
  bool IsOfFirstRank(TaskState& task, const Outlook& outlook, Nanoseconds now) noexcept;
  Choice ChooseByRank(SwitchReason reason, Nanoseconds now) noexcept;
  static Nanoseconds QuietUntil(Nanoseconds now, std::int64_t packets, double cost_ns,
                                Nanoseconds lead) noexcept;
  static bool LastLonger(std::int64_t packets, double cost_ns, Nanoseconds lead) noexcept;

  // handover.cc
  bool Watch(Nanoseconds now) noexcept;
  void See(const ProcessController::Turn& turn, Nanoseconds now) noexcept;
  std::optional<SwitchReason> LeaveReasonInTurn(Nanoseconds now) noexcept;
  bool LosesPackets(Nanoseconds now) noexcept;
  Choice ChooseOfThoseWeRun(Nanoseconds now, bool before_line) noexcept;
  Choice FirstInLine() const noexcept;

  // quota.cc
  std::uint32_t MostInTurn(const TaskState& task) const noexcept;
  std::uint32_t MostInTurn() const noexcept;  // of any task
  void CountWork() noexcept;
  void SearchQuota(Nanoseconds now) noexcept;
  void SetQuota(std::uint32_t packets) noexcept;
  Nanoseconds RoundOf(std::uint32_t quota) const noexcept;
  bool HasBacklog(std::uint32_t quota) const noexcept;

  // doze.cc
  void MakeDozers();
  bool Dozes(Slot task) const noexcept { return !dozers_.empty() && dozers_[task].dozes; }
  std::uint16_t TakenBy(const TaskState& task) const noexcept;  // packets, ever; wraps
  std::uint16_t MovedBy(const TaskState& task) const noexcept;  // taken and sent
  bool Feeds(const TaskState& task, const TaskState& other) const noexcept;
  void LookForDozers(Nanoseconds now) noexcept;
  void LookAtDozers(Nanoseconds now) noexcept;
  void WakeDozer(Slot task, Nanoseconds dozed, Nanoseconds now) noexcept;
  void ForgetDozers() noexcept;
  Nanoseconds NextLook(Nanoseconds now) const noexcept;

  // rest.cc
  static constexpr Nanoseconds kRenewEvery = ProcessController::kRestHolds / 5;  // looks come late
  Nanoseconds WaitAfterRest(Nanoseconds rested, Nanoseconds waited) const noexcept;
  bool HasPackets(const TaskState& task) const noexcept;
  bool AnyHasPackets() const noexcept;
  std::uint16_t MovedByAll() const noexcept;  // packets taken and sent, ever; wraps
  void LookForRest(Nanoseconds now) noexcept;
  bool LookForWork(Nanoseconds now) noexcept;
  bool WakeUp(Nanoseconds now) noexcept;
  Choice FirstWithWork() const noexcept;

  // crew.cc
  Moves LookAt(Crew& crew) noexcept;
  bool Credit(Slot thread, Moves moves) noexcept;
  void BeginTurn(Slot thread) noexcept;
  void EndTurn(Slot thread) noexcept;
  Nanoseconds Patience(const TaskState& task) const noexcept;
  std::optional<SwitchReason> LeaveReasonOfThread(Nanoseconds now) noexcept;
  std::uint32_t Waiting(const TaskState& task, std::uint32_t path) const noexcept;
  bool HasWorkInside(const TaskState& task, const PathState& path) const noexcept;

  // follow.cc
  CostFollower::Seen SeeLinks(const TaskState& task) noexcept;
  bool Follows(const TaskState& task) const noexcept;
  void FollowSwitch(Slot left, SwitchReason reason, Nanoseconds now, Nanoseconds began) noexcept;
  void FollowCost(Nanoseconds now) noexcept;
  void Believe(double ns, double before) noexcept;
  Nanoseconds QuietAtMost(Nanoseconds until) const noexcept;

  // The wait queue, linked through TaskState::behind.
  void Push(Slot task) noexcept;
  void Remove(const Choice& waiting) noexcept;
  void PassTo(const Choice& next) noexcept;

  // What every tick reads stands first.
  Nanoseconds next_decision_ = 0;
  Nanoseconds settled_ = 0;  // until then the last switch is under way
  Nanoseconds slice_end_ = 0;
  Slot current_ = 0;
  bool awaited_ = false;            // the first packets of who was switched to
  std::uint16_t taken_before_ = 0;  // what the current task had taken when it was switched to
  bool ranks_ = false;  // a task of this core has several paths, or a function several threads
  bool all_pass_on_ = false;  // the tasks of this core
  Slot left_ = kNone;         // the thread of a crew that was left last, until its turn has ended
  std::vector<TaskState> tasks_;
  std::vector<PathState> paths_;
  Costs& costs_;
  const InterfaceMonitor& monitor_;
  const TimerSubsystem& timer_;
  SchedulerSettings settings_;
  std::vector<Crew> crews_;
  std::vector<Inside> insides_;          // per path
  std::vector<CostFollower> followers_;  // per task, where costs are followed
  std::vector<LastSeen> last_seen_;      // per path, likewise
  Nanoseconds still_since_ = 0;  // the current thread of a crew has moved no packet since then
  Nanoseconds patience_ = 0;     // and may do so for so long
  std::uint64_t decisions_ = 0;
  Nanoseconds quiet_until_ = 0;  // settings.lazy: nothing can happen before

  // What a path's packets count, and how many it has ever taken, modulo 2^16.
  struct Worth {
    double ns = 0;
    std::uint16_t received = 0;
  };
  std::optional<QuotaSearch> search_;  // none: the quota is given
  std::uint32_t quota_ = 0;            // where it is
  std::vector<Worth> worths_;          // per path
  double work_ = 0;                    // ns, ever
  Nanoseconds counted_ = 0;            // when `work_` was right

  bool watches_ = false;        // there are tasks that pass the CPU on
  Nanoseconds watch_ = 0;       // the line is looked at next
  Nanoseconds watch_full_ = 0;  // until then closely, for an egress was full
  std::vector<Dozer> dozers_;   // per task; empty: none may doze
  std::uint32_t dozing_ = 0;
  Nanoseconds doze_look_ = 0;  // for others
  Nanoseconds dozes_renewed_ = 0;

  bool resting_ = false;
  bool eager_ = false;  // any packet is work
  Nanoseconds eager_until_ = 0;
  Nanoseconds idle_since_ = kNotIdle;  // no packet was seen in front of anybody since then
  Nanoseconds idle_wait_ = 0;          // so long nobody must have any; 0: they never rest
  std::uint16_t moved_by_all_ = 0;
  Nanoseconds rest_began_ = 0;
  Nanoseconds renewed_ = 0;
  std::uint64_t rests_ = 0;

  ProcessController& controller_;
  SwitchObserver* observer_;
  const CoreIndex core_;
  SwitchTime switch_time_;
  Nanoseconds decided_ = 0;  // the last switch
  Slot head_ = kNone;        // of the wait queue
  Slot tail_ = kNone;
  Nanoseconds max_wait_ = 0;  // 0: none
  Nanoseconds slice_ = 0;
  std::uint64_t switches_ = 0;
  std::uint64_t failed_switches_ = 0;
};

}  // namespace unis
