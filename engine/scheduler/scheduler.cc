#include "engine/scheduler/scheduler.h"

#include <cmath>
#include <stdexcept>
#include <utility>

namespace unis {
namespace {

constexpr Nanoseconds kNotWaiting = -1;

}  // namespace

Scheduler::Scheduler(const SchedulerSettings& settings, std::vector<ScheduledNf> nfs,
                     CoreIndex cores, const InterfaceMonitor& monitor, const TimerSubsystem& timer,
                     ProcessController& controller, SwitchObserver* observer)
    : settings_(settings),
      nfs_(std::move(nfs)),
      waiting_since_(nfs_.size(), kNotWaiting),
      switched_in_(nfs_.size()),
      monitor_(monitor),
      timer_(timer),
      controller_(controller),
      observer_(observer) {
  cores_.assign(cores, Core(nfs_.size()));
  std::vector<bool> populated(cores, false);
  for (NfIndex nf = 0; nf < nfs_.size(); ++nf) {
    const CoreIndex core = nfs_[nf].core;
    if (core >= cores) throw std::invalid_argument("an NF is mapped to a core that is not there");
    populated[core] = true;
    cores_[core].wait_queue.Push(nf);
    theta_max_.push_back(settings_.theta_max.value_or(
        static_cast<std::uint32_t>(std::ceil(settings_.gamma * monitor_.PktCap(nfs_[nf].egress)))));
  }
  for (const bool has_nf : populated) {
    if (!has_nf) throw std::invalid_argument("a core without an NF cannot be scheduled");
  }
}

void Scheduler::Start() {
  const Nanoseconds now = timer_.Now();
  for (CoreIndex index = 0; index < cores_.size(); ++index) {
    Core& core = cores_[index];
    core.current = core.wait_queue.Pop();
    controller_.Start(index, core.current);
    Run(index, core.current, SwitchReason::kStart, now);
  }
  next_decision_ = now + settings_.interval;
}

std::uint32_t Scheduler::Tick() noexcept {
  Nanoseconds now = timer_.Now();
  std::uint32_t switched = 0;
  if (now < next_decision_) return switched;                // line 4
  for (CoreIndex core = 0; core < cores_.size(); ++core) {  // line 5
    if (!TickCore(core, now)) continue;
    ++switched;
    now = timer_.Now();  // a switch takes its time
  }
  ++decisions_;
  next_decision_ = now + settings_.interval;  // line 19
  return switched;
}

bool Scheduler::TickCore(CoreIndex index, Nanoseconds now) noexcept {
  Core& core = cores_[index];
  if (now < core.settled) return false;
  const auto reason = LeaveReason(core, now);  // lines 6 and 7
  if (!reason) return false;
  core.wait_queue.Push(core.current);                              // line 8
  NfIndex next = core.wait_queue.Pop();                            // line 9
  while (next != core.current && !HasMeaningfulWork(next, now)) {  // line 10
    core.wait_queue.Push(next);
    next = core.wait_queue.Pop();
  }
  if (next == core.current) return false;  // line 14
  const NfIndex previous = core.current;
  controller_.Switch(index, previous, next);  // lines 15 and 16
  Run(index, next, *reason, now);
  return true;
}

// Lines 13, 17 and 18, and the record of the switch.
void Scheduler::Run(CoreIndex index, NfIndex next, SwitchReason reason, Nanoseconds now) noexcept {
  Core& core = cores_[index];
  const Nanoseconds slice = TimeSlice(next);
  const NfIndex previous = core.current;
  core.current = next;
  core.settled = now + settings_.switch_time.value_or(settings_.lead);
  core.slice_end = core.settled + slice;
  waiting_since_[next] = kNotWaiting;
  if (reason != SwitchReason::kStart) ++core.switches;
  ++switched_in_[next];
  if (observer_ == nullptr) return;
  observer_->OnSwitch({.time = now,
                       .core = index,
                       .from = previous,
                       .to = next,
                       .reason = reason,
                       .from_ingress = monitor_.NumPkts(nfs_[previous].ingress),
                       .from_egress = monitor_.NumPkts(nfs_[previous].egress),
                       .to_ingress = monitor_.NumPkts(nfs_[next].ingress),
                       .to_egress = monitor_.NumPkts(nfs_[next].egress),
                       .slice = slice});
}

Nanoseconds Scheduler::TimeSlice(NfIndex nf) const noexcept {
  return static_cast<Nanoseconds>(nfs_[nf].cost_ns * settings_.gamma *
                                  monitor_.PktCap(nfs_[nf].egress));
}

std::optional<SwitchReason> Scheduler::LeaveReason(const Core& core,
                                                   Nanoseconds now) const noexcept {
  if (core.slice_end - now <= settings_.lead) return SwitchReason::kSliceExpired;
  if (!settings_.occupancy) return std::nullopt;
  const ScheduledNf& nf = nfs_[core.current];
  const double lead_packets =
      nf.cost_ns > 0 ? static_cast<double>(settings_.lead) / nf.cost_ns : 0.0;
  const auto above_min = static_cast<double>(monitor_.NumPkts(nf.ingress)) - settings_.theta_min;
  if (above_min <= lead_packets) return SwitchReason::kIngressLow;
  const double below_max =
      static_cast<double>(ThetaMax(core.current)) - monitor_.NumPkts(nf.egress);
  if (below_max <= lead_packets) return SwitchReason::kEgressHigh;
  return std::nullopt;
}

bool Scheduler::HasMeaningfulWork(NfIndex nf, Nanoseconds now) noexcept {
  if (!settings_.occupancy) return true;
  const std::uint32_t ingress = monitor_.NumPkts(nfs_[nf].ingress);
  const bool room = monitor_.NumPkts(nfs_[nf].egress) < ThetaMax(nf);
  if (ingress > settings_.theta_min) return room;
  if (settings_.max_wait == 0) return false;
  if (ingress == 0) {
    waiting_since_[nf] = kNotWaiting;
    return false;
  }
  if (waiting_since_[nf] == kNotWaiting) waiting_since_[nf] = now;
  return room && now - waiting_since_[nf] >= settings_.max_wait;
}

}  // namespace unis
