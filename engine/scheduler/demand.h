// What work tasks have: packets in front of them, and room behind them, against the thresholds.
#pragma once

#include <cstdint>
#include <utility>

#include "engine/scheduler/core_tasks.h"
#include "engine/scheduler/thread_groups.h"

namespace unis {

// What is to be expected of a task of any number of links, were it to run.
struct PathDemand {
  bool packets = false;     // in front of it
  bool work = false;        // of which some can leave by an egress < θmax
  bool meaningful = false;  // more than θmin of them, for longer than the latency compensation
  std::uint32_t lost = 0;   // packets that would be lost at egresses ≥ θmax
};

class Demand {
 public:
  Demand(CoreTasks& tasks, const ThreadGroups& groups);

  // Any packet is work, as after the tasks were parked.
  void set_eager(bool eager) noexcept { eager_ = eager; }
  Nanoseconds max_wait() const noexcept { return max_wait_; }

  // Packets more than θmin.
  std::int64_t AboveMin(std::uint32_t packets) const noexcept {
    return std::int64_t{packets} - (eager_ ? 0 : tasks_.settings().theta_min);
  }
  // Whether `packets` are work for longer than the latency compensation; without a cost any are.
  bool OutlastsASwitch(double packets, double cost_ns) const noexcept {
    return packets > 0 && (cost_ns <= 0 || packets * cost_ns > compensation_);
  }
  // As when a task is left, so that no task is chosen that would be left at once; but `enough`
  // packets always do.
  bool IsWorthASwitch(double packets, double cost_ns, double enough) const noexcept {
    if (eager_) return packets > 0;
    return OutlastsASwitch(packets, cost_ns) || (packets > 0 && packets > enough);
  }

  // Line 10 of Algorithm 1: whether a task of one link on either side has meaningful work.
  bool HasMeaningfulWork(Slot slot, Nanoseconds now) noexcept {
    if (!tasks_.settings().occupancy) return true;
    TaskState& task = tasks_[slot];
    const IngressState& in = tasks_.ingresses()[task.ingress.begin];
    if (!in.known) return HasRoom(task);
    const std::uint32_t packets = tasks_.Packets(in);
    if (packets > 0) return IsMeaningful(task, packets, now);
    task.idle_at = now;
    return false;
  }

  // For tasks of any number of links (docs/scheduler.md, "Tasks with several links").
  PathDemand Of(Slot slot) const noexcept {
    const auto [ingress, waiting] = FirstWaiting(tasks_[slot]);
    return waiting > 0 ? OfPackets(slot, ingress, waiting) : PathDemand{};
  }
  // Meaningful work and nothing to lose, or a wait that lasted too long.
  bool IsOfFirstRank(Slot slot, const PathDemand& demand, Nanoseconds now) noexcept;

  bool HasPackets(Slot slot) const noexcept { return FirstWaiting(tasks_[slot]).second > 0; }
  bool AnyHasPackets(Slot current) const noexcept;
  // Packets that may be in front of the ingress (in CoreTasks::ingresses()), or inside the task's
  // function.
  std::uint32_t Waiting(const TaskState& task, std::uint32_t ingress) const noexcept {
    const std::uint32_t packets = tasks_.MayWait(tasks_.ingresses()[ingress]);
    return task.IsThread() ? packets + groups_.Inside(ingress) : packets;
  }

 private:
  // The first ingress of the task that has packets, and how many; {0, 0}: none has.
  std::pair<std::uint32_t, std::uint32_t> FirstWaiting(const TaskState& task) const noexcept {
    for (std::uint32_t i = task.ingress.begin; i < task.ingress.begin + task.ingress.size; ++i)
      if (const std::uint32_t waiting = Waiting(task, i)) return {i, waiting};
    return {};
  }
  // The demand of a task with packets: `waiting` at ingress `i`, and none at an ingress before it.
  PathDemand OfPackets(Slot slot, std::uint32_t i, std::uint32_t waiting) const noexcept;
  bool HasWaited(const TaskState& task, Nanoseconds now) const noexcept {
    return max_wait_ > 0 && now - task.idle_at >= max_wait_;
  }
  // Behind a task of one link on either side, worth a switch.
  bool HasRoom(const TaskState& task) const noexcept {
    const EgressState& out = tasks_.Out(task).front();
    return IsWorthASwitch(static_cast<double>(tasks_.Room(out)), tasks_.CostOf(task),
                          out.worth_a_switch);
  }
  bool IsMeaningful(const TaskState& task, std::uint32_t packets, Nanoseconds now) const noexcept;
  bool HasMuch(Slot slot, std::uint32_t ingress, double cost_ns) const noexcept;

  CoreTasks& tasks_;
  const ThreadGroups& groups_;
  bool eager_ = false;
  double compensation_;
  Nanoseconds max_wait_;  // 0: none
};

}  // namespace unis
