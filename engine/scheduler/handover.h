// Hand-over: the tasks of a core yield by themselves, each to the next of the line, which keeps the
// order of the chains. A task yields when it has found no packets, or has taken its budget.
//
// The scheduler watches. It asks a task to yield whose egress is full, preempts one that polls no
// longer, and runs tasks that do not support yielding as Algorithm 1 says, between the turns of the
// others. A task of which nobody knows whether it has packets has its turn like any other, and
// finds out. Where no task of the core yields, Algorithm 1 alone decides. Threads that poll only
// rings inside their program may be in line too, if more passes so.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "engine/scheduler/algorithm_one.h"
#include "engine/scheduler/line_order.h"
#include "engine/scheduler/line_search.h"
#include "engine/scheduler/ring_line.h"
#include "engine/scheduler/short_rests.h"

namespace unis {

class Handover final : public AlgorithmOne {
 public:
  // As AlgorithmOne; controller.yielding() is not null.
  Handover(const SchedulerSettings& settings, const TaskSet& set, CoreIndex core, Costs& costs,
           const InterfaceMonitor& monitor, const TimerSubsystem& timer,
           ProcessController& controller, SwitchObserver* observer = nullptr);

  bool Start() override;
  CoreStatistics statistics() const noexcept override;
  Nanoseconds idle_until() const noexcept override {
    return short_rests_.active() ? short_rests_.idle_until() : AlgorithmOne::idle_until();
  }
  // Tasks that wait to be granted packets, or fill an egress, are looked at more often. So are
  // tasks that are parked alone, and those whose readers on other cores may fall behind.
  Nanoseconds nap(Nanoseconds now) const noexcept override {
    if (!may_nap() || now < watch_full_) return 0;
    const bool in_time = parking_.any_parked() || reads_elsewhere_;
    return in_time ? std::clamp<Nanoseconds>(next_decision_ - now, 0, settings().platform_nap)
                   : settings().platform_nap;
  }
  bool may_nap() const noexcept override {
    return all_yield_ && !grants_ && tasks_.all_occupancies_known() && settings().platform_nap > 0;
  }
  Nanoseconds slack() const noexcept override {
    const bool sleep = short_rests_.active() || parking_.idle_until() > 0;
    return sleep ? settings().max_delay : may_nap() ? settings().platform_nap : 0;
  }
  std::uint64_t SwitchedIn(TaskIndex task) const noexcept override;

 private:
  bool Decide(Nanoseconds now) noexcept override;
  bool GoOnWith(const Place& next, Nanoseconds now) noexcept override;
  bool CountsItsTurns(Slot slot) const noexcept override { return Yields(slot); }

  bool Watch(Nanoseconds now) noexcept;
  bool LookWhileResting(Nanoseconds now) noexcept;
  void OnTurn(const YieldingTasks::Turn& turn, Nanoseconds now) noexcept;
  std::optional<SwitchReason> LeaveReasonInTurn(Nanoseconds now) noexcept;
  void GrantRoom(Nanoseconds now) noexcept;
  bool LosesPackets(Nanoseconds now) noexcept;
  Place FirstNotInLine(Nanoseconds now, bool before_line) noexcept;
  Place NextInLine() const noexcept;
  // Of threads that poll rings.
  void LookForBetterWay(Nanoseconds now) noexcept;
  void ServeRings(Nanoseconds turn, std::size_t spared, Nanoseconds now) noexcept;
  void FollowLine(const std::optional<YieldingTasks::Turn>& turn, Nanoseconds now) noexcept;
  std::optional<SwitchReason> LeaveReasonInLine(Nanoseconds now) noexcept;

  void FindYielding() noexcept;
  std::uint32_t BudgetOf(const TaskState& task) const noexcept;
  bool Yields(Slot slot) const noexcept { return yielding_.SupportsYield(tasks_[slot].index); }
  bool IsInLine(Slot slot) const noexcept { return Yields(slot) || rings_.PollsRings(slot); }

  YieldingTasks& yielding_;
  ShortRests short_rests_;
  LineOrder order_;
  RingLine rings_;
  LineSearch search_;
  bool any_yields_ = false, all_yield_ = false;
  bool grants_;            // tasks have several links, or the engine splits or merges behind them
  bool circular_;          // they may wait for each other
  bool reads_elsewhere_;   // tasks of other cores read links of this one
  Nanoseconds watch_ = 0;  // the line is looked at next
  Nanoseconds grant_ = 0;  // what tasks may take is said next
  Nanoseconds watch_full_ = 0;  // until then closely, because an egress was full
};

}  // namespace unis
