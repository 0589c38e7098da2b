// Algorithm 1 of the paper (section 4.4) for one core: which task runs next, and for how long.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "engine/scheduler/core_scheduler.h"
#include "engine/scheduler/core_tasks.h"
#include "engine/scheduler/cost.h"
#include "engine/scheduler/demand.h"
#include "engine/scheduler/parking.h"
#include "engine/scheduler/room_waits.h"
#include "engine/scheduler/run_queue.h"
#include "engine/scheduler/shares.h"
#include "engine/scheduler/switch_latency.h"
#include "engine/scheduler/thread_groups.h"

namespace unis {

class AlgorithmOne : public CoreScheduler {
 public:
  // Schedules the tasks of `set` that are on `core`, as CoreTasks takes them. The references but
  // that to `set` must outlive the scheduler; `observer` may be null.
  AlgorithmOne(const SchedulerSettings& settings, const TaskSet& set, CoreIndex core, Costs& costs,
               const InterfaceMonitor& monitor, const TimerSubsystem& timer,
               ProcessController& controller, SwitchObserver* observer = nullptr);

  bool Start() override;
  // The current task has yielded the CPU to `now_runs`, another task of the core, by itself.
  void OnSelfSwitch(TaskIndex now_runs) noexcept;
  CoreStatistics statistics() const noexcept override;
  Nanoseconds idle_until() const noexcept override { return parking_.idle_until(); }
  std::uint64_t SwitchedIn(TaskIndex task) const noexcept override;
  Nanoseconds WaitedForRoom(TaskIndex task) const noexcept override;
  bool QueueIsSound() const noexcept override { return queue_.IsSound(current_); }
  // Of a task of this core. For tests.
  Nanoseconds TimeSlice(TaskIndex task) const noexcept {
    return SliceOf(tasks_[tasks_.SlotOf(task)]);
  }

 protected:
  using Place = RunQueue::Place;
  static constexpr Nanoseconds kLongestFollowedSlice = 20'000'000;
  static constexpr double kLeastShare = 1 / 16.0;  // of an egress, in a slice
  // Of a task of which nobody knows whether it has packets: others may have some.
  static constexpr Nanoseconds kLongestBlindSlice = 100'000;

  // Lines 4 to 19.
  bool Decide(Nanoseconds now) noexcept override;

  // Lines 6 and 7: why the current task is left; none: it stays.
  std::optional<SwitchReason> LeaveReason(Nanoseconds now) noexcept;
  bool HasWork(Slot slot, Nanoseconds now) noexcept;
  // Lines 13 to 18.
  bool SwitchTo(const Place& next, SwitchReason reason, Nanoseconds now) noexcept;
  void Run(Slot next, SwitchReason reason, Nanoseconds now) noexcept;

  // What comes before a decision: whether the last switch is over, and what was seen of its turn.
  bool IsSettled(Nanoseconds now) noexcept;
  bool LookAtTurn(Nanoseconds now) noexcept;
  // While all tasks are parked.
  bool LookWhileParked(Nanoseconds now) noexcept;
  // The turns of tasks that were parked begin now.
  void BeginAnew(Nanoseconds now) noexcept;
  virtual bool GoOnWith(const Place& next, Nanoseconds now) noexcept;
  // The turns of such a task are no switches of the scheduler: it counts them itself.
  virtual bool CountsItsTurns(Slot) const noexcept { return false; }
  // What moved while nobody looked counts for no thread.
  void ForgetThreads() noexcept { groups_.Start(), left_ = kNoSlot; }

  TaskIndex Current() const noexcept { return tasks_[current_].index; }
  TaskState& current_task() noexcept { return tasks_[current_]; }
  const TaskState& current_task() const noexcept { return tasks_[current_]; }
  const SchedulerSettings& settings() const noexcept { return tasks_.settings(); }
  bool IsTraced() const noexcept { return observer_ != nullptr && observer_->wants(); }
  Nanoseconds QuietUntil(Nanoseconds now, double packets, double cost_ns,
                         Nanoseconds compensation) const noexcept;

  // What every tick reads stands first.
  Nanoseconds settled_ = 0;  // until then the last switch is under way
  Nanoseconds slice_end_ = 0;
  Nanoseconds slice_ = 0;
  Nanoseconds quiet_until_ = 0;  // nothing can happen before
  Slot current_ = 0;
  std::uint64_t decisions_ = 0;
  CoreTasks tasks_;
  RunQueue queue_;
  ThreadGroups groups_;
  Demand demand_;
  Shares shares_;
  CostTracking costs_;
  Parking parking_;
  RoomWaits room_waits_;

 private:
  bool Prolongs(Nanoseconds now) noexcept;
  std::optional<SwitchReason> LeaveReasonOfLinks(Nanoseconds now) noexcept;
  std::optional<SwitchReason> LeaveReasonOfThread(Nanoseconds now) noexcept;
  Place Choose(SwitchReason reason, Nanoseconds now) noexcept;
  Place ChooseByRank(SwitchReason reason, Nanoseconds now) noexcept;
  Nanoseconds SliceOf(const TaskState& task) const noexcept;
  void AwaitFirstPackets(SwitchReason reason, Nanoseconds now) noexcept;
  void Record(Slot previous, SwitchReason reason, Nanoseconds now) noexcept;

  bool awaits_packets_ = false;     // the first ones of the task that was switched to
  std::uint16_t taken_before_ = 0;  // packets, by the current task until it was switched to
  Slot left_ = kNoSlot;             // a thread of a group, until its turn has ended
  const TimerSubsystem& timer_;
  ProcessController& controller_;
  SwitchObserver* observer_;
  SwitchLatency switch_latency_;
  Nanoseconds decided_ = 0;                                 // the last switch
  std::array<std::uint64_t, kSwitchReasons> reasons_ = {};  // of switches, by SwitchReason
  std::uint64_t failed_switches_ = 0;
};

}  // namespace unis
