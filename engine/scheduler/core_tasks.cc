#include "engine/scheduler/core_tasks.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace unis {

CoreTasks::CoreTasks(const SchedulerSettings& settings, const TaskSet& set, CoreIndex core,
                     Costs& costs, const InterfaceMonitor& monitor)
    : costs_(costs), monitor_(monitor), settings_(settings), core_(core) {
  for (TaskIndex index = 0; index < set.tasks.size(); ++index) {
    if (set.tasks[index].core == core) Add(set, index);
  }
  if (tasks_.empty()) throw std::invalid_argument("a core without a task cannot be scheduled");
  for (EgressState& out : egresses_) {
    out.read_elsewhere = IsReadElsewhere(set, out.link);
    out.read_here = std::ranges::count(ingresses_, out.link, &IngressState::link) > 0;
  }
  needs_ranks_ = std::ranges::any_of(
      tasks_, [](const TaskState& task) { return task.IsThread() || !task.HasOneLinkEach(); });
  all_occupancies_known_ = std::ranges::all_of(ingresses_, &IngressState::known);
}

void CoreTasks::Add(const TaskSet& set, TaskIndex index) {
  const Task& task = set.tasks[index];
  if (task.ingress.size == 0 || task.egress.size == 0)
    throw std::invalid_argument("a task without an ingress or an egress cannot be scheduled");
  if (!tasks_.empty() && set.tasks[tasks_.back().index].ingress.begin == task.ingress.begin) {
    TaskState& first = tasks_.back();
    if (!first.IsThread()) first.group = static_cast<std::uint32_t>(tasks_.size() - 1);
    TaskState thread = first;
    thread.index = index;
    tasks_.push_back(thread);
    return;
  }
  TaskState added{.index = index,
                  .function = task.function,
                  .ingress = {static_cast<std::uint32_t>(ingresses_.size()), task.ingress.size},
                  .egress = {static_cast<std::uint32_t>(egresses_.size()), task.egress.size}};
  tasks_.push_back(added);
  for (const LinkIndex link : task.egress.Of(set.egresses)) {
    const double filled = settings_.gamma * monitor_.PktCap(link);
    const auto theta_max =
        settings_.theta_max.value_or(static_cast<std::uint32_t>(std::ceil(filled)));
    egresses_.push_back({.link = link,
                         .theta_max = theta_max,
                         .filled = filled,
                         .worth_a_switch = static_cast<double>(theta_max) - settings_.theta_min,
                         .known = monitor_.HasOccupancy(link)});
  }
  // A quarter of what lies between the thresholds of the links is always worth a switch: a small
  // ring never holds work for longer than the latency compensation.
  for (const Ingress& ingress : task.ingress.Of(set.ingresses)) {
    double least = settings_.gamma * monitor_.PktCap(ingress.link) - settings_.theta_min;
    const auto out = added.egress.Of(egresses_);
    const double alone = least;
    ForEachBit(ingress.reaches, [&](std::uint32_t i) {
      least = std::min(least, out[i].worth_a_switch);
      out[i].worth_a_switch = std::min(out[i].worth_a_switch, alone);
    });
    ingresses_.push_back({.link = ingress.link,
                          .reaches = ingress.reaches,
                          .known = monitor_.HasOccupancy(ingress.link),
                          .worth_a_switch = std::max(0.0, least / 4)});
  }
  for (EgressState& out : added.egress.Of(egresses_))
    out.worth_a_switch = std::max(0.0, out.worth_a_switch / 4);
}

bool CoreTasks::IsReadElsewhere(const TaskSet& set, LinkIndex link) const noexcept {
  if (std::ranges::count(set.read_elsewhere, link) > 0) return true;
  return std::ranges::any_of(set.tasks, [&](const Task& task) {
    const auto in = task.ingress.Of(set.ingresses);
    return task.core != core_ && std::ranges::find(in, link, &Ingress::link) != in.end();
  });
}

std::uint16_t CoreTasks::TakenBy(const TaskState& task) const noexcept {
  std::uint16_t packets = 0;
  for (const IngressState& in : In(task))
    packets = static_cast<std::uint16_t>(packets + monitor_.Received(in.link));
  return packets;
}

std::uint16_t CoreTasks::SentBy(const TaskState& task) const noexcept {
  std::uint16_t packets = 0;
  for (const EgressState& out : Out(task))
    packets = static_cast<std::uint16_t>(packets + monitor_.Sent(out.link));
  return packets;
}

bool CoreTasks::SentIsCountedLate(const TaskState& task) const noexcept {
  return std::ranges::any_of(
      Out(task), [this](const EgressState& out) { return monitor_.CountsLate(out.link); });
}

std::uint16_t CoreTasks::MovedBy(const TaskState& task) const noexcept {
  return static_cast<std::uint16_t>(TakenBy(task) + SentBy(task));
}

std::uint16_t CoreTasks::MovedByAll() const noexcept {
  std::uint16_t packets = 0;
  for (const IngressState& in : ingresses_)
    packets = static_cast<std::uint16_t>(packets + monitor_.Received(in.link));
  for (const EgressState& out : egresses_)
    packets = static_cast<std::uint16_t>(packets + monitor_.Sent(out.link));
  return packets;
}

std::uint16_t CoreTasks::SentAway() const noexcept {
  std::uint16_t packets = 0;
  for (const EgressState& out : egresses_)
    if (!out.read_here) packets = static_cast<std::uint16_t>(packets + monitor_.Sent(out.link));
  return packets;
}

bool CoreTasks::Feeds(const TaskState& task, const TaskState& other) const noexcept {
  return std::ranges::any_of(Out(task), [&](const EgressState& out) {
    const auto in = In(other);
    return std::ranges::find(in, out.link, &IngressState::link) != in.end();
  });
}

Slot CoreTasks::SlotOf(TaskIndex task) const noexcept {
  for (Slot slot = 0; slot < tasks_.size(); ++slot) {
    if (tasks_[slot].index == task) return slot;
  }
  return kNoSlot;
}

}  // namespace unis
