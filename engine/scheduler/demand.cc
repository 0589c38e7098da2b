#include "engine/scheduler/demand.h"

#include <cmath>

namespace unis {

constexpr Nanoseconds kMaxWaitOfRanks = 1'000'000;

Demand::Demand(CoreTasks& tasks, const ThreadGroups& groups)
    : tasks_(tasks),
      groups_(groups),
      compensation_(static_cast<double>(tasks.settings().latency_compensation)),
      max_wait_(tasks.settings().max_wait) {
  if (max_wait_ == 0 && tasks.needs_ranks()) max_wait_ = kMaxWaitOfRanks;
}

bool Demand::IsMeaningful(const TaskState& task, std::uint32_t packets,
                          Nanoseconds now) const noexcept {
  const IngressState& in = tasks_.In(task).front();
  if (HasWaited(task, now)) return tasks_.Room(tasks_.Out(task).front()) > 0;
  const double cost = tasks_.CostOf(task);
  return IsWorthASwitch(static_cast<double>(AboveMin(packets)), cost, in.worth_a_switch) &&
         HasRoom(task);
}

bool Demand::HasMuch(Slot slot, std::uint32_t ingress, double cost_ns) const noexcept {
  const TaskState& task = tasks_[slot];
  const IngressState& in = tasks_.ingresses()[ingress];
  if (!in.known) return true;
  const bool fed = task.IsThread() && groups_.WaitsToBeFed(slot);
  if (task.IsThread() && !fed && groups_.Inside(ingress) > 0) return true;
  const std::uint32_t packets = fed ? groups_.FedWith(slot) : tasks_.Packets(in);
  return IsWorthASwitch(static_cast<double>(AboveMin(packets)), cost_ns, in.worth_a_switch);
}

// A packet of an ingress can leave by every egress that the ingress reaches, because nobody knows
// which one it will be; each counts by its share of the packets. Egresses are read only where there
// are packets for them.
PathDemand Demand::OfPackets(Slot slot, std::uint32_t i, std::uint32_t waiting) const noexcept {
  const TaskState& task = tasks_[slot];
  const std::uint32_t end = task.ingress.begin + task.ingress.size;
  const auto out = tasks_.Out(task);
  const double cost = tasks_.CostOf(task);
  PathDemand demand{.packets = true};
  std::uint64_t looked_at = 0, used = 0, blocked = 0, scarce = 0;  // egresses
  for (; i < end; waiting = ++i < end ? Waiting(task, i) : 0) {
    if (waiting == 0) continue;
    const std::uint64_t reaches = tasks_.ingresses()[i].reaches;
    ForEachBit(reaches & ~looked_at, [&](std::uint32_t j) {
      const std::uint64_t bit = std::uint64_t{1} << j;
      looked_at |= bit;
      if (out[j].share == 0) return;
      used |= bit;
      const auto room = static_cast<double>(tasks_.Room(out[j]));
      if (room <= 0) blocked |= bit;
      if (!IsWorthASwitch(room, cost / out[j].share, out[j].worth_a_switch)) scarce |= bit;
    });
    ForEachBit(reaches & blocked, [&](std::uint32_t j) {
      demand.lost += static_cast<std::uint32_t>(std::ceil(waiting * out[j].share));
    });
    const std::uint64_t leaves_by = reaches & used;
    if (leaves_by != 0 && (leaves_by & ~blocked) == 0) continue;
    demand.work = true;
    demand.meaningful |= (leaves_by & scarce) == 0 && HasMuch(slot, i, cost);
  }
  return demand;
}

bool Demand::IsOfFirstRank(Slot slot, const PathDemand& demand, Nanoseconds now) noexcept {
  TaskState& task = tasks_[slot];
  if (!demand.packets) task.idle_at = now;
  if (!demand.work || demand.lost == 0) task.denied_at = TaskState::kNotDenied;
  if (!demand.work) return false;
  if (demand.lost == 0) return demand.meaningful || HasWaited(task, now);
  if (task.denied_at == TaskState::kNotDenied) task.denied_at = now;
  return now - task.denied_at >= max_wait_;
}

// The current task first: while there is traffic it mostly has some.
bool Demand::AnyHasPackets(Slot current) const noexcept {
  if (HasPackets(current)) return true;
  for (Slot slot = 0; slot < tasks_.size(); ++slot)
    if (HasPackets(slot)) return true;
  return false;
}

}  // namespace unis
