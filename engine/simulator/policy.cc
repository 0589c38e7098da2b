#include "engine/simulator/policy.h"

#include <algorithm>
#include <deque>
#include <vector>

#include "engine/scheduler/scheduler.h"

namespace unis::sim {
namespace {

// NFs of each core in chain order; the first of each queue is the one that runs.
std::vector<std::deque<NfIndex>> QueuesOf(const Machine& machine) {
  std::vector<std::deque<NfIndex>> queues(machine.cores());
  const auto& nfs = machine.scheduled_nfs();
  for (NfIndex nf = 0; nf < nfs.size(); ++nf) queues[nfs[nf].core].push_back(nf);
  return queues;
}

// kFifo: SCHED_FIFO at equal priorities. The first NF of a core never blocks, so no other runs.
class RunToTheEnd : public CpuPolicy {
 public:
  explicit RunToTheEnd(Machine& machine) : machine_(machine), queues_(QueuesOf(machine)) {}

  void Start() override {
    for (const auto& queue : queues_) machine_.Start(queue.front(), 0);
  }

 protected:
  // The running NF goes to the back of its core's queue.
  void Rotate(CoreIndex core, Time stop, Time start) {
    auto& queue = queues_[core];
    queue.push_back(queue.front());
    queue.pop_front();
    machine_.HandOver(queue.front(), stop, start);
  }

  bool Alone(CoreIndex core) const { return queues_[core].size() == 1; }

 private:
  Machine& machine_;
  std::vector<std::deque<NfIndex>> queues_;
};

// kCooperative: as before, but an NF yields after so many bursts, or when it found nothing to do.
class Cooperative final : public RunToTheEnd {
 public:
  Cooperative(const Scenario& scenario, Machine& machine)
      : RunToTheEnd(machine), yield_(FromNs(scenario.machine.yield_ns)), bursts_(machine.cores()) {
    for (const ChainSpec& chain : scenario.chains) {
      for (const NfSpec& nf : chain.nfs) yield_every_.push_back(nf.yield_every);
    }
  }

  void OnPollEnd(CoreIndex core, NfIndex nf, bool empty, Time now) override {
    if (yield_every_[nf] == 0 || Alone(core)) return;
    if (!empty && ++bursts_[core] < yield_every_[nf]) return;
    bursts_[core] = 0;
    Rotate(core, now, now + yield_);
  }

  bool WantsEmptyPolls(CoreIndex core, NfIndex nf) const override {
    return yield_every_[nf] != 0 && !Alone(core);
  }

 private:
  Time yield_;
  std::vector<std::uint32_t> yield_every_;  // per NF
  std::vector<std::uint32_t> bursts_;       // per core, since the hand-over
};

// kRr, kOther and kBatch. A poll-mode NF is always runnable, so fair time sharing of equals (EEVDF,
// CFS) is a round robin too, only with a shorter slice; SCHED_BATCH differs from SCHED_OTHER in
// wake-ups alone, of which there are none.
class TimeSharing final : public RunToTheEnd {
 public:
  TimeSharing(const Scenario& scenario, Machine& machine, Nanoseconds slice)
      : RunToTheEnd(machine),
        switch_(FromNs(scenario.machine.kernel_switch_ns)),
        slice_(slice * kNanosecond),
        slice_end_(machine.cores(), kNever) {
    for (CoreIndex core = 0; core < slice_end_.size(); ++core) {
      if (!Alone(core)) slice_end_[core] = slice_;
    }
  }

  Time NextEvent() const override {
    return *std::min_element(slice_end_.begin(), slice_end_.end());
  }

  Time OnTime(Time now) override {
    for (CoreIndex core = 0; core < slice_end_.size(); ++core) {
      if (slice_end_[core] > now) continue;
      Rotate(core, now, now + switch_);
      slice_end_[core] = now + switch_ + slice_;
    }
    return now;
  }

 private:
  Time switch_;
  Time slice_;
  std::vector<Time> slice_end_;  // per core
};

// kUnis: the scheduler itself, on a service core of its own. Its calls take virtual time, in which
// it does not tick. The NF that it leaves runs on until the kernel takes the CPU from it.
class AlgorithmOne final : public CpuPolicy, TimerSubsystem, ProcessController {
 public:
  AlgorithmOne(const Scenario& scenario, Machine& machine, SwitchObserver& observer)
      : machine_(machine),
        interval_(scenario.scheduler.interval * kNanosecond),
        call_(FromNs(scenario.machine.switch_call_ns)),
        switch_(FromNs(scenario.machine.switch_ns)),
        preemption_(std::min(FromNs(scenario.machine.kernel_switch_ns), switch_)),
        scheduler_(scenario.scheduler, machine.scheduled_nfs(), machine.cores(), machine, *this,
                   *this, &observer) {}

  void Start() override { scheduler_.Start(); }

  Time NextEvent() const override { return next_tick_; }

  Time OnTime(Time now) override {
    clock_ = now;
    scheduler_.Tick();
    next_tick_ = std::max(now + interval_, clock_);
    return clock_;
  }

  bool IsScheduler() const override { return true; }

  std::uint64_t Decisions() const override { return scheduler_.Decisions(); }

 private:
  Nanoseconds Now() const noexcept override { return clock_ / kNanosecond; }

  void Start(CoreIndex, NfIndex first) noexcept override { machine_.Start(first, clock_); }

  void Switch(CoreIndex, NfIndex, NfIndex to) noexcept override {
    machine_.HandOver(to, clock_ + switch_ - preemption_, clock_ + switch_);
    clock_ += call_;
  }

  Machine& machine_;
  Time interval_;
  Time call_;
  Time switch_;
  Time preemption_;
  Time clock_ = 0;  // the service core's
  Time next_tick_ = 0;
  Scheduler scheduler_;
};

}  // namespace

std::unique_ptr<CpuPolicy> MakePolicy(const Scenario& scenario, Machine& machine,
                                      SwitchObserver& observer) {
  switch (scenario.policy) {
    case Policy::kUnis:
      return std::make_unique<AlgorithmOne>(scenario, machine, observer);
    case Policy::kCooperative:
      return std::make_unique<Cooperative>(scenario, machine);
    case Policy::kRr:
      return std::make_unique<TimeSharing>(scenario, machine, scenario.machine.rr_slice);
    case Policy::kOther:
    case Policy::kBatch:
      return std::make_unique<TimeSharing>(scenario, machine, scenario.machine.fair_slice);
    case Policy::kFifo:
      break;
  }
  return std::make_unique<RunToTheEnd>(machine);
}

}  // namespace unis::sim
