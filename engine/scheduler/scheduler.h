// Algorithm 1 of the paper (section 4.4): which NF of each core runs next, and for how long.
//
// Pure and replayable: the same answers of monitor and timer give the same switches. One thread
// calls Tick(); a tick allocates nothing, takes no lock and makes no system call but the
// controller's switch.
//
// Two settings go beyond the paper; at 0 the algorithm is the printed one:
//  - lead: a switch takes several µs, in which the current NF runs on. So leave it when the work it
//    has left (until ingress ≤ θmin, egress ≥ θmax or the end of the slice) lasts no longer than
//    that.
//    The next one's slice begins when it runs, switch_time after the decision.
//  - max_wait: as printed, up to θmin packets may lie in a ring for ever when the traffic stops. An
//    NF whose ingress has been non-empty so long without a run counts as having work.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "engine/scheduler/components.h"

namespace unis {

struct SchedulerSettings {
  double gamma = 0.75;                     // γ (section 4.5)
  std::uint32_t batch = 64;                // packets a burst (section 4.5)
  std::uint32_t theta_min = 64 - 8;        // θmin = batch − 8 packets (section 4.5)
  std::optional<std::uint32_t> theta_max;  // θmax packets; absent: γ · capacity of the egress
  Nanoseconds interval = 1'000;            // T (section 4.5.3)
  bool occupancy = true;                   // interface occupancy based optimisation (section 4.4.2)
  Nanoseconds lead = 0;
  std::optional<Nanoseconds> switch_time;  // until the next NF runs; absent: lead
  Nanoseconds max_wait = 0;
};

// One NF as the scheduler sees it: a black box between two links.
struct ScheduledNf {
  CoreIndex core;
  LinkIndex ingress;
  LinkIndex egress;
  double cost_ns;  // per packet, from the Cycle Estimator
};

class Scheduler {
 public:
  // `nfs` in the order of the chains: the wait queues keep it. Every core in [0, cores) has at
  // least one NF. The references must outlive the scheduler; `observer` may be null.
  Scheduler(const SchedulerSettings& settings, std::vector<ScheduledNf> nfs, CoreIndex cores,
            const InterfaceMonitor& monitor, const TimerSubsystem& timer,
            ProcessController& controller, SwitchObserver* observer = nullptr);

  // Runs the first NF of every wait queue.
  void Start();

  // Lines 4 to 19: does nothing until T has passed since the last decision. Returns how many cores
  // it switched.
  std::uint32_t Tick() noexcept;

  NfIndex Current(CoreIndex core) const { return cores_[core].current; }
  std::uint64_t Switches(CoreIndex core) const { return cores_[core].switches; }
  std::uint64_t SwitchedIn(NfIndex nf) const { return switched_in_[nf]; }
  std::uint64_t Decisions() const { return decisions_; }  // intervals T in which it decided
  const SchedulerSettings& settings() const { return settings_; }

  // cost · γ · capacity(egress) (section 4.4.2).
  Nanoseconds TimeSlice(NfIndex nf) const noexcept;

  // A new estimate of an NF's cost takes effect at its next slice.
  void SetCost(NfIndex nf, double cost_ns) { nfs_[nf].cost_ns = cost_ns; }

 private:
  // The wait queue is a ring of fixed size: pushes and pops never allocate.
  class WaitQueue {
   public:
    explicit WaitQueue(std::size_t capacity) : slots_(capacity) {}
    void Push(NfIndex nf) noexcept {
      slots_[tail_] = nf;
      tail_ = Next(tail_);
    }
    NfIndex Pop() noexcept {
      const NfIndex nf = slots_[head_];
      head_ = Next(head_);
      return nf;
    }

   private:
    std::size_t Next(std::size_t slot) const noexcept {
      return slot + 1 == slots_.size() ? 0 : slot + 1;
    }

    std::vector<NfIndex> slots_;
    std::size_t head_ = 0;
    std::size_t tail_ = 0;
  };

  struct Core {
    explicit Core(std::size_t nfs) : wait_queue(nfs) {}
    WaitQueue wait_queue;
    NfIndex current = 0;
    Nanoseconds slice_end = 0;
    Nanoseconds settled = 0;  // until then the last switch is still under way
    std::uint64_t switches = 0;
  };

  bool TickCore(CoreIndex index, Nanoseconds now) noexcept;  // whether it switched
  std::optional<SwitchReason> LeaveReason(const Core& core, Nanoseconds now) const noexcept;
  bool HasMeaningfulWork(NfIndex nf, Nanoseconds now) noexcept;
  void Run(CoreIndex index, NfIndex next, SwitchReason reason, Nanoseconds now) noexcept;
  std::uint32_t ThetaMax(NfIndex nf) const noexcept { return theta_max_[nf]; }

  SchedulerSettings settings_;
  std::vector<ScheduledNf> nfs_;
  std::vector<std::uint32_t> theta_max_;    // per NF
  std::vector<Nanoseconds> waiting_since_;  // per NF: ingress seen non-empty while not running
  std::vector<std::uint64_t> switched_in_;  // per NF: how often it was chosen
  std::vector<Core> cores_;
  const InterfaceMonitor& monitor_;
  const TimerSubsystem& timer_;
  ProcessController& controller_;
  SwitchObserver* observer_;
  Nanoseconds next_decision_ = 0;
  std::uint64_t decisions_ = 0;
};

}  // namespace unis
