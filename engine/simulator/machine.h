// Virtual cores that run poll-mode NFs, and the rings between them. Who runs is a policy's business
// (policy.h): the machine carries out hand-overs and reports the end of polls.
//
// An NF takes a burst, works on it, and puts it into its egress; what does not fit is lost with the
// work done on it, as poll-mode functions do. One that finds its ingress empty polls again and
// again; these polls are not simulated one by one unless the policy wants to see them.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "engine/scheduler/components.h"
#include "engine/simulator/packets.h"
#include "engine/simulator/scenario.h"
#include "engine/simulator/traffic.h"

namespace unis::sim {

// Told by the machine what a polling NF could itself act upon: the co-operative baseline.
class PollObserver {
 public:
  virtual ~PollObserver() = default;
  // `nf` finished a burst, or a poll that found nothing. May hand the core over.
  virtual void OnPollEnd(CoreIndex core, NfIndex nf, bool empty, Time now) = 0;
  virtual bool WantsEmptyPolls(CoreIndex core, NfIndex nf) const = 0;
};

class Machine final : public InterfaceMonitor {
 public:
  explicit Machine(const Scenario& scenario);

  // The NFs as the scheduler sees them; their links are those of this monitor.
  const std::vector<ScheduledNf>& scheduled_nfs() const { return scheduled_; }
  const std::vector<std::uint32_t>& cpus() const { return cpus_; }
  CoreIndex cores() const { return static_cast<CoreIndex>(cpus_.size()); }
  std::uint32_t NumPkts(LinkIndex link) const noexcept override;
  std::uint32_t PktCap(LinkIndex link) const noexcept override;

  void Observe(PollObserver& observer) { observer_ = &observer; }
  // Runs `nf` on its core, which runs nothing, from now on.
  void Start(NfIndex nf, Time now);
  // The core's NF runs until `stop`, `to` from `start` on, in between nobody does. Hand-overs take
  // effect in the order in which they were asked for.
  void HandOver(NfIndex to, Time stop, Time start);

  // When something happens on each core; kNever if it waits for packets.
  const std::vector<Time>& agenda() const { return agenda_; }
  void OnCoreEvent(CoreIndex core, Time now);
  void Arrive(std::size_t chain, std::uint32_t count, Time now);
  // Saturating traffic: the first ring is full when the NFs begin. Where the platform takes no time
  // it stays so, and what comes out of a chain is delivered at once.
  void FillFirstRings(Time now);

  // What source and sink do where the platform takes time.
  std::size_t chains() const { return chains_.size(); }
  bool HasRoom(std::size_t chain, std::uint32_t packets) const;  // false: traffic not saturating
  bool SourceHasRoom(std::uint32_t packets) const;               // for any chain
  bool SinkHasPackets() const;
  std::uint32_t Deliver(std::size_t chain, std::uint32_t most, Time now);

  // The warm-up is over: all counts begin anew.
  void BeginMeasuring(Time now);
  // Counts up to now; checks that every packet is accounted for.
  void Collect(Time now, Result& result);

 private:
  enum class Activity : std::uint8_t { kNone, kWorking, kSpinning };

  struct Nf {
    std::size_t chain;
    CoreIndex core;
    LinkIndex ingress, egress;
    std::vector<Time> cost;  // per size class
    double pass_ratio;
    double pass_credit = 0;        // fraction of a packet still to be sent on
    std::vector<PacketRun> burst;  // in hand, also while another NF runs
    std::uint32_t in_hand = 0;     // packets
    Time work_left = 0;            // of the burst in hand, when it was preempted
    Time busy = 0;
    Time spinning = 0;
    NfResult counts;
  };

  struct Link {
    PacketQueue queue;
    std::optional<NfIndex> reader;  // none: the sink
  };

  struct Chain {
    Chain(const ChainSpec& spec, std::uint64_t seed);
    std::vector<NfIndex> nfs;
    LinkIndex first_link = 0;
    LinkIndex last_link = 0;
    bool saturating;
    bool sizes_matter;
    PacketSizes sizes;
    Random random;
    ChainResult counts;
  };

  struct PendingHandOver {
    NfIndex to;
    Time stop, start;
    bool stopped = false;
  };

  struct Core {
    std::optional<NfIndex> running;
    Activity activity = Activity::kNone;
    Time since = 0;     // accounted until then
    Time due = kNever;  // end of the burst, or of the poll that will find something
    Time spin_begin = 0;
    Time run_begin = 0;
    std::uint64_t run_packets = 0;
    std::optional<std::size_t> last_run;  // position in runs_
    std::deque<PendingHandOver> hand_overs;
  };

  void AddChain(const ChainSpec& spec);
  void Poll(CoreIndex core, Time now);
  void EndPoll(CoreIndex core, Time now);
  void FinishBurst(Nf& nf, Time now);
  std::uint32_t Filter(Nf& nf, std::uint32_t count);
  static void RecordDelivery(Chain& chain, const PacketRun& run, Time now);
  void WakeReader(LinkIndex link, Time now);
  void Resume(CoreIndex core, NfIndex nf, Time now);
  void Stop(CoreIndex core, Time now);
  void Account(Core& core, Time now);
  void EndRun(CoreIndex core, Time now);
  void Reschedule(CoreIndex core);
  std::uint64_t InFlight(const Chain& chain) const;

  Time poll_;
  std::uint32_t batch_;
  bool trace_;
  bool platform_takes_time_;
  std::uint64_t seed_;
  std::vector<std::uint32_t> cpus_;
  std::vector<ScheduledNf> scheduled_;
  std::vector<Nf> nfs_;
  std::vector<Link> links_;
  std::vector<Chain> chains_;
  std::vector<Core> cores_;
  std::vector<Time> agenda_;
  std::vector<PacketRun> delivered_;  // of one burst
  std::vector<RunInterval> runs_;
  std::uint64_t switches_ = 0;
  PollObserver* observer_ = nullptr;
};

}  // namespace unis::sim
