// The chains of a scenario as rings of packets: arrivals, bursts taken and put back, deliveries,
// and the count of all of them. Who takes when is the machine's business.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "engine/base/random.h"
#include "engine/scheduler/task.h"
#include "engine/simulator/packets.h"
#include "engine/simulator/scenario.h"
#include "engine/simulator/traffic.h"

namespace unis::sim {

using PathIndex = std::uint32_t;  // in Rings::paths()

class Rings final : public InterfaceMonitor {
 public:
  // `cores`: the core of each function.
  Rings(const Scenario& scenario, const std::vector<CoreIndex>& cores);

  // Function f is task f. It has a path for each time that a chain passes through it.
  const TaskSet& tasks() const { return tasks_; }
  Range PathsOf(FunctionIndex function) const { return ranges_[function]; }
  const std::vector<double>& scheduled_costs() const { return scheduled_costs_; }  // ns
  std::uint32_t NumPkts(LinkIndex link) const noexcept override;
  std::uint32_t PktCap(LinkIndex link) const noexcept override;
  std::uint16_t Received(LinkIndex link) const noexcept override;

  std::size_t chains() const { return chains_.size(); }
  // Whose packets they are; the function that polls the chain's first link.
  TaskIndex FirstReader(std::size_t chain) const;

  void Arrive(std::size_t chain, std::uint32_t count, Time now);
  // Saturating traffic keeps the first link full, where the platform takes no time.
  void FillFirst(Time now);
  bool HasRoom(std::size_t chain, std::uint32_t packets) const;  // false: traffic not saturating
  bool SinkHasPackets() const;
  std::uint32_t Deliver(std::size_t chain, std::uint32_t most, Time now);

  // A burst into a function's hands; returns how many packets.
  std::uint32_t Take(PathIndex path, std::vector<PacketRun>& burst, Time now);
  Time WorkOn(PathIndex path, const std::vector<PacketRun>& burst, Time now) const;
  // Out of its hands again, worked on; what does not fit into the egress is lost. Returns the
  // function that polls the egress if there are packets now.
  std::optional<TaskIndex> Put(PathIndex path, const std::vector<PacketRun>& burst, Time now);

  // The warm-up is over: all counts begin anew.
  void BeginMeasuring();
  // Throws std::logic_error if packets got lost uncounted.
  std::vector<ChainResult> Chains() const;
  const std::vector<FunctionResult>& functions() const { return functions_; }  // packets only

 private:
  struct Hop {
    TaskIndex function;
    std::size_t chain;
    std::vector<Time> cost;  // per size class
    double pass_ratio;
    double pass_credit = 0;  // fraction of a packet still to be sent on
    double cost_factor;
    Time cost_changes_at;
  };

  struct Chain {
    Chain(const ChainSpec& spec, const Scenario& scenario);
    LinkIndex first_link = 0;
    LinkIndex last_link = 0;
    bool saturating;
    bool sizes_matter;
    PacketSizes sizes;
    Random random{0};
    std::uint64_t in_hand = 0;  // packets
    ChainResult counts;
  };

  struct Link {
    PacketQueue queue;
    std::optional<TaskIndex> reader;  // none: the sink
    std::uint16_t received = 0;       // packets ever taken by it; wraps
  };

  void AddChain(const ChainSpec& spec, const Scenario& scenario);
  void AddTask(FunctionIndex function, const Scenario& scenario, CoreIndex core);
  static std::uint32_t Filter(Hop& hop, std::uint32_t count);
  static void RecordDelivery(Chain& chain, const PacketRun& run, Time now);
  std::uint64_t InFlight(const Chain& chain) const;

  bool platform_takes_time_;
  TaskSet tasks_;
  std::vector<Path> paths_;
  std::vector<Range> ranges_;  // of paths_, per function
  std::vector<double> scheduled_costs_;
  std::vector<Hop> hops_;  // per path
  std::vector<Link> links_;
  std::vector<Chain> chains_;
  std::vector<FunctionResult> functions_;
  std::vector<PacketRun> delivered_;  // of one burst
};

}  // namespace unis::sim
