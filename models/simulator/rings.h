// The chains of a scenario as links with packets: arrivals, bursts taken and put back, deliveries,
// and the count of all of them. Who takes when is the machine's business.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "engine/base/random.h"
#include "engine/scheduler/task.h"
#include "models/simulator/packets.h"
#include "models/simulator/scenario.h"
#include "models/simulator/traffic.h"

namespace unis::sim {

using HopIndex = std::uint32_t;  // a link that a function polls

class Rings final : public InterfaceMonitor {
 public:
  // `cores`: the core of each function.
  Rings(const Scenario& scenario, const std::vector<CoreIndex>& cores);

  // Function f is task f. It has a hop for each link that it polls.
  const TaskSet& tasks() const { return tasks_; }
  Range HopsOf(FunctionIndex function) const { return hops_of_[function]; }
  const std::vector<double>& scheduled_costs() const { return scheduled_costs_; }  // ns
  std::uint32_t NumPkts(LinkIndex link) const noexcept override;
  std::uint32_t PktCap(LinkIndex link) const noexcept override;
  std::uint16_t Sent(LinkIndex link) const noexcept override { return links_[link].sent; }
  std::uint16_t Received(LinkIndex link) const noexcept override { return links_[link].received; }

  std::size_t chains() const { return chains_.size(); }

  void Arrive(std::size_t chain, std::uint32_t count, Time now);
  // Saturating traffic keeps the first links full, where the platform takes no time.
  void FillFirst(Time now);
  bool HasRoom(std::size_t chain, std::uint32_t packets) const;  // false: traffic not saturating
  bool SinkHasPackets() const;
  std::uint32_t Deliver(std::size_t chain, std::uint32_t most, Time now);

  // A burst into a function's hands; returns how many packets.
  std::uint32_t Take(HopIndex hop, std::vector<PacketRun>& burst, Time now);
  Time WorkOn(HopIndex hop, const std::vector<PacketRun>& burst, Time now) const;
  // Out of its hands again, worked on; what does not fit into an egress is lost.
  void Put(HopIndex hop, const std::vector<PacketRun>& burst, Time now);
  // Calls `wake` for each function that may have got packets since the last call.
  template <typename Wake>
  void WakeReaders(Wake wake) {
    for (const TaskIndex reader : readers_) wake(reader);
    readers_.clear();
  }

  // The warm-up is over: all counts begin anew.
  void BeginMeasuring();
  // Throws std::logic_error if packets got lost uncounted.
  std::vector<ChainResult> Chains() const;
  const std::vector<FunctionResult>& functions() const { return functions_; }  // packets only

 private:
  struct Out {
    LinkIndex link;
    double weight;
    bool copy = false;
  };

  // Chooses one of several links for each packet, by weight.
  struct Choice {
    std::vector<Out> outs;  // no copies
    double total = 0;
    Random random{0};
    void Add(const Out& out) { outs.push_back(out), total += out.weight; }
    LinkIndex Draw();
  };

  // A link that a function polls, and where it sends the packets.
  struct Hop {
    TaskIndex function;
    std::size_t chain;
    LinkIndex in;
    Choice out;
    std::vector<Time> cost;  // per size class
    double pass_ratio;
    double pass_credit = 0;  // fraction of a packet still to be sent on
    double cost_factor;
    Time cost_changes_at;
  };

  // Of the engine, behind a link: it takes no time, and waits where there is no room but for a
  // copy.
  struct Split {
    Choice choice;
    std::vector<LinkIndex> copies;
    std::optional<LinkIndex> next;  // where the first packet of the link goes
  };

  struct Chain {
    Chain(const ChainSpec& spec, const Scenario& scenario);
    LinkIndex begin = 0, end = 0;  // links
    Split first;                   // from the source
    std::vector<LinkIndex> last;
    std::vector<LinkIndex> edges;  // as in the result
    bool saturating;
    bool sizes_matter;
    PacketSizes sizes;
    Random random{0};
    std::uint64_t in_hand = 0;  // packets
    ChainResult counts;
  };

  struct Link {
    PacketQueue queue;
    std::size_t chain;
    std::optional<TaskIndex> reader = {};   // none: the sink, or a split
    std::optional<std::size_t> split = {};  // behind it
    std::optional<LinkIndex> fed_by = {};   // a link with a split
    bool first = false;                     // of its chain
    std::uint16_t received = 0, sent = 0;   // packets ever; wrap
    EdgeResult counts = {};
    bool IsLast() const { return !reader && !split; }
  };

  // A function of a chain, while the chain is read.
  struct Stage {
    FunctionIndex function;
    std::vector<LinkIndex> in;
    std::vector<Out> out;
  };

  LinkIndex AddLink(std::uint32_t capacity, std::size_t chain);
  void AddChain(const ChainSpec& spec, const Scenario& scenario);
  void AddPath(const ChainSpec& spec, Chain& chain, std::vector<Stage>& stages);
  void AddGraph(const ChainSpec& spec, Chain& chain, std::vector<Stage>& stages);
  void AddTask(FunctionIndex function, const Scenario& scenario, CoreIndex core);
  bool HasRoomFor(LinkIndex link, std::uint32_t packets) const;
  void ArriveAt(LinkIndex link, const PacketRun& run);
  std::uint32_t Push(LinkIndex link, const PacketRun& run, Time now);  // returns what was lost
  void Distribute(LinkIndex link, Time now);
  void Copy(const Split& split, const PacketRun& packet, Time now);
  void TakeFrom(LinkIndex link, std::uint32_t most, std::vector<PacketRun>& burst, Time now);
  static std::uint32_t Filter(Hop& hop, std::uint32_t count);
  static void RecordDelivery(Chain& chain, const PacketRun& run, Time now);
  std::uint64_t InFlight(const Chain& chain) const;

  bool platform_takes_time_;
  TaskSet tasks_;
  std::vector<Range> hops_of_;  // per function
  std::vector<double> scheduled_costs_;
  std::vector<Hop> hops_;
  std::vector<Link> links_;
  std::vector<Split> splits_;
  std::vector<Chain> chains_;
  std::vector<std::vector<Stage>> stages_;  // per chain
  std::vector<FunctionResult> functions_;
  std::vector<PacketRun> taken_;  // of one burst
  std::vector<TaskIndex> readers_;
};

}  // namespace unis::sim
