// The tasks of one core with their links and thresholds, and the components that tell about them.
// Every part of a core's scheduler looks at the same object.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/scheduler/components.h"
#include "engine/scheduler/run_queue.h"
#include "engine/scheduler/settings.h"
#include "engine/scheduler/task.h"

namespace unis {

struct IngressState {
  LinkIndex link;
  std::uint64_t reaches;      // as in Ingress
  bool known;                 // how many packets it holds; else it may hold some at any time
  double worth_a_switch = 0;  // packets that are always worth one
};

struct EgressState {
  LinkIndex link;
  std::uint32_t theta_max;      // packets
  double filled;                // γ · capacity, packets
  double worth_a_switch = 0;    // room that is always worth a switch, packets
  double share = 1;             // packets that leave here for each that the task takes
  bool read_elsewhere = false;  // by a task of another core
  bool read_here = false;       // by a task of this core
  bool known = true;            // how many packets it holds; else it never counts as full
};

// A cache line each: what one scheduler writes, no other has in its cache.
struct alignas(64) TaskState {
  static constexpr std::uint32_t kNoGroup = ~std::uint32_t{0};
  static constexpr Nanoseconds kNotDenied = -1;

  TaskIndex index;
  FunctionIndex function;
  Range ingress, egress;
  std::uint32_t group = kNoGroup;      // in ThreadGroups
  Nanoseconds idle_at = 0;             // when it last ran or was seen without packets
  Nanoseconds denied_at = kNotDenied;  // since when it has work, but would lose packets
  std::uint64_t switched_in = 0;

  bool IsThread() const noexcept { return group != kNoGroup; }
  bool HasOneLinkEach() const noexcept { return ingress.size == 1 && egress.size == 1; }
};

class CoreTasks {
 public:
  // The tasks of `set` that are on `core`: at least one, each with a link on either side; else
  // std::invalid_argument. The references but that to `set` must outlive the object.
  CoreTasks(const SchedulerSettings& settings, const TaskSet& set, CoreIndex core, Costs& costs,
            const InterfaceMonitor& monitor);

  std::size_t size() const noexcept { return tasks_.size(); }
  TaskState& operator[](Slot slot) noexcept { return tasks_[slot]; }
  const TaskState& operator[](Slot slot) const noexcept { return tasks_[slot]; }
  auto begin() noexcept { return tasks_.begin(); }
  auto end() noexcept { return tasks_.end(); }
  auto begin() const noexcept { return tasks_.begin(); }
  auto end() const noexcept { return tasks_.end(); }

  std::vector<IngressState>& ingresses() noexcept { return ingresses_; }
  std::vector<EgressState>& egresses() noexcept { return egresses_; }
  const std::vector<IngressState>& ingresses() const noexcept { return ingresses_; }
  const std::vector<EgressState>& egresses() const noexcept { return egresses_; }
  std::span<const IngressState> In(const TaskState& task) const noexcept {
    return task.ingress.Of(ingresses_);
  }
  std::span<const EgressState> Out(const TaskState& task) const noexcept {
    return task.egress.Of(egresses_);
  }

  double CostOf(const TaskState& task) const noexcept { return costs_.Ns(task.function); }
  void SetCost(const TaskState& task, double ns) noexcept {
    costs_.Set(task.function, ns, CostSource::kFollowed);
  }
  // How the threads of the task's program that poll only rings are served best: a way of
  // LineSearch. Absent: not known yet.
  std::optional<std::size_t> RingWayOf(const TaskState& task) const noexcept {
    return costs_.RingWay(task.function);
  }
  void SetRingWay(const TaskState& task, std::size_t way) noexcept {
    costs_.SetRingWay(task.function, way);
  }
  std::uint32_t Packets(const IngressState& in) const noexcept { return monitor_.NumPkts(in.link); }
  std::uint32_t Packets(const EgressState& out) const noexcept {
    return monitor_.NumPkts(out.link);
  }
  // Packets that may wait there: where nobody can look, as if a burst did.
  std::uint32_t MayWait(const IngressState& in) const noexcept {
    return in.known ? Packets(in) : kBatch;
  }
  // Packets until the egress has θmax of them.
  std::int64_t Room(const EgressState& out) const noexcept {
    return std::int64_t{out.theta_max} - monitor_.NumPkts(out.link);
  }
  // Egresses of the task that packets in front of it, or those that may be there, may leave by: bit
  // i is egress i.
  std::uint64_t Loaded(const TaskState& task) const noexcept {
    std::uint64_t loaded = 0;
    for (const IngressState& in : In(task))
      if (MayWait(in) > 0) loaded |= in.reaches;
    return loaded;
  }
  // Whether it is known how many packets are in front of the task, by each of its ingresses.
  bool SeesIngresses(const TaskState& task) const noexcept {
    return all_occupancies_known_ || std::ranges::all_of(In(task), &IngressState::known);
  }
  // Packets that the task has ever taken; sent; taken and sent. All wrap.
  std::uint16_t TakenBy(const TaskState& task) const noexcept;
  std::uint16_t SentBy(const TaskState& task) const noexcept;
  bool SentIsCountedLate(const TaskState& task) const noexcept;
  std::uint16_t MovedBy(const TaskState& task) const noexcept;
  std::uint16_t MovedByAll() const noexcept;
  // Packets that have ever been put into links that no task of this core reads. Wraps.
  std::uint16_t SentAway() const noexcept;
  bool Feeds(const TaskState& task, const TaskState& other) const noexcept;

  // kNoSlot: it is on another core.
  Slot SlotOf(TaskIndex task) const noexcept;
  // Whether a task has several links on a side, or a function several threads.
  bool needs_ranks() const noexcept { return needs_ranks_; }
  bool all_occupancies_known() const noexcept { return all_occupancies_known_; }  // of ingresses
  const SchedulerSettings& settings() const noexcept { return settings_; }
  const InterfaceMonitor& monitor() const noexcept { return monitor_; }
  CoreIndex core() const noexcept { return core_; }

 private:
  void Add(const TaskSet& set, TaskIndex index);
  bool IsReadElsewhere(const TaskSet& set, LinkIndex link) const noexcept;

  std::vector<TaskState> tasks_;
  std::vector<IngressState> ingresses_;
  std::vector<EgressState> egresses_;
  Costs& costs_;
  const InterfaceMonitor& monitor_;
  SchedulerSettings settings_;
  CoreIndex core_;
  bool needs_ranks_ = false;
  bool all_occupancies_known_ = true;
};

// Calls `visit` with the position of every bit that is set.
template <typename Visit>
void ForEachBit(std::uint64_t bits, Visit visit) {
  for (; bits != 0; bits &= bits - 1) visit(static_cast<std::uint32_t>(__builtin_ctzll(bits)));
}

}  // namespace unis
