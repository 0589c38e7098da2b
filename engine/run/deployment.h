// Links, chains, traffic and packet memory of one run: everything that needs no function to run. A
// foreign one has chains and links alone, and these are others'.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "engine/monitor/link_monitor.h"
#include "engine/platform/bridge.h"
#include "engine/platform/chain.h"
#include "engine/platform/heartbeat.h"
#include "engine/platform/links/link.h"
#include "engine/platform/packet_memory.h"
#include "engine/platform/port_shm.h"
#include "engine/platform/sink.h"
#include "engine/platform/traffic_source.h"
#include "engine/run/link_sampler.h"
#include "engine/run/topology.h"
#include "unis/v1/engine.pb.h"

namespace unis {

// What the net_unis ports of a function have counted, those that were removed included: never less
// than before.
struct FunctionCounts {
  std::uint64_t rx = 0;
  std::uint64_t tx = 0;
  std::uint64_t refused = 0;
  std::uint64_t taken() const { return rx > tx + refused ? rx - tx - refused : 0; }
  void Add(const PortCounters& port) {
    rx += port.rx_packets;
    tx += port.tx_packets;
    refused += port.tx_refused;
  }
};

class Deployment {
  struct Traffic {
    Classifier classifier;
    std::vector<TrafficSource::List> lists;  // a list for each chain, or one for all
  };

 public:
  struct Options {
    std::set<unsigned> cpus;               // that functions may be put on
    std::vector<unsigned> service_lcores;  // source, sink and bridges are spread over them
  };

  // An error leaves nothing behind.
  static absl::StatusOr<std::unique_ptr<Deployment>> Create(const v1::DeployRequest& config,
                                                            Options options);
  ~Deployment();

  struct Gone {
    v1::Account chains;  // packets of chains that were removed
    // By the engine's ends of links outside its memory that were removed.
    std::uint64_t sent_outside = 0, received_from_outside = 0;
    std::uint64_t dropped_on_links = 0;
  };

  // A configuration that can be taken on.
  struct Prepared {
    v1::DeployRequest config;
    Topology topology;
    std::vector<Classifier> classifiers;  // of the topology's splits
    std::optional<Traffic> traffic;       // none: others make it
  };
  // All that may be wrong with `config`, or takes long, as a capture does: touches nothing.
  absl::StatusOr<Prepared> Prepare(const v1::DeployRequest& config) const;
  // Brings what is there to what was prepared: makes what is new, drops what is gone, with the
  // packets that still wait there. Meanwhile no packet moves, and no scheduler may read the links;
  // what stays goes on counting from where it was. An error changes nothing.
  absl::Status Apply(Prepared prepared);

  const v1::DeployRequest& config() const { return config_; }
  const Topology& topology() const { return topology_; }
  bool foreign() const { return !memory_; }
  // Packets come and go outside: there is neither source nor sink.
  bool wired() const { return config_.traffic().has_wire(); }
  // Brings what the chains at wires have been offered and have delivered up to date.
  void CountWires() const;
  const PacketMemory& memory() const { return *memory_; }                 // not of a foreign one
  std::uint32_t InUse() const { return memory_ ? memory_->InUse() : 0; }  // of it
  const Chains& chains() const { return chains_; }  // in the order of the topology's
  const Gone& gone() const { return gone_; }
  // What removed ports had counted, by function; also of functions that were removed.
  const std::map<std::string, FunctionCounts>& removed_ports() const { return removed_ports_; }
  Sink& sink() { return *sink_; }  // not of a foreign one, nor at wires
  // The source, where there is one.
  void Pause(bool paused) {
    if (source_) source_->SetPaused(paused);
  }
  // The source keeps to the rate and arrivals of `traffic` till the next call or Apply(). Refused
  // of a port's packets, and of others'.
  absl::Status ChangeRate(const v1::TrafficConfig& traffic);
  std::uint64_t unclassified() const { return source_ ? source_->unclassified() : 0; }
  std::vector<LatencyHistogram> Latencies() const;  // of each chain, as the sink has it now
  Heartbeat* heartbeat() { return heartbeat_ ? &*heartbeat_ : nullptr; }  // null: foreign
  const LinkMonitor& monitor() const { return monitor_; }
  std::vector<const Component*> components() const;  // source, sink, bridges

  // What a net_unis port has counted; null for ports outside the engine's group.
  const PortShm* port(std::size_t function, std::size_t port) const;
  // The thread that polls a port of the function, as that port tells; 0: none. PolledBy(): if it
  // still runs.
  pid_t PollerOf(const std::string& function) const;
  pid_t PolledBy(const std::string& function) const;
  Link& link(LinkIndex direction) const;  // that a direction belongs to
  Occupancy occupancy(LinkIndex direction) const;
  // What went through a link of others, as last sampled; null where nobody can tell.
  const LinkProgress* progress(LinkIndex link) const;
  // Finds a function's links in its process: until then nobody knows how full they are. To be
  // called again and again while it connects; NotFound: which is not there yet.
  absl::Status FindLinks(const v1::AttachRequest& request);
  // monitor() reads the links that were found since.
  void ReadLinksAnew();
  // The memory of links that were found elsewhere since goes: no scheduler reads it any more.
  void DropReplaced();
  // Finds what is on the way of links and was started anew, as a switch. System calls.
  void FollowLinks();

  // A function over rings rests between two bursts: what it has counted and what its rings say is
  // the same from here on, until it dies.
  void NotePositions(std::size_t function);
  // After the death of a function's process: what it left half-done in its rings is put right, what
  // it had not counted yet is counted, and its ports make room for the process that comes after.
  // Nobody tells how full its links outside the group are. No scheduler may read them meanwhile.
  void ReclaimPorts(std::size_t function);
  // Only that room: for a process that nobody took hold of.
  void FreeDevices(std::size_t function);
  // Drops what waits in the engine's memory for a function that is not there: counted.
  void EmptyBefore(std::size_t function);
  // While only these functions run: raises the chains that packets come through, and has the engine
  // drop, and count, the packets of branches that they do not.
  void Open(const std::function<bool(std::size_t)>& runs);
  // Nothing moves: buffers that are neither free nor in a ring went with processes that died, as
  // far as those may have had them.
  void WriteOff();

  // Those of source and sink: the same, where one is both; null: none.
  const EthPort* source_port() const { return source_port_.get(); }
  const EthPort* sink_port() const { return sink_port_.get(); }
  // mbufs that are not under way though they are in use: kept by ports of the platform since they
  // were opened, or written off.
  std::uint32_t kept() const { return kept_ + HeldByLinks(); }
  // Packets that wait in links within the engine's memory, and in links outside, which hold copies.
  std::uint64_t WaitingInside() const;
  std::uint64_t WaitingOutside() const;
  // What the engine has sent into links outside, and received from them; also what came over wires
  // and left over them.
  std::uint64_t SentOutside() const {
    return gone_.sent_outside + SumOutside(&LinkEnd::sent) + SumWires(&Chain::offered);
  }
  std::uint64_t ReceivedFromOutside() const {
    return gone_.received_from_outside + SumOutside(&LinkEnd::received) +
           SumWires(&Chain::delivered);
  }
  // What links themselves have dropped: system calls.
  std::uint64_t Dropped(LinkIndex direction) const;
  std::uint64_t DroppedOnLinks() const;
  std::uint64_t copied() const { return bridges_ ? bridges_->copied() : 0; }
  std::uint64_t copies_dropped() const { return bridges_ ? bridges_->copies_dropped() : 0; }
  std::uint64_t copies_ended() const { return sink_ ? sink_->copies_ended() : 0; }
  std::uint64_t CarriedByEngine() const { return bridges_ ? bridges_->handled() : 0; }
  // By a split from one link to another.
  const Carried& carried(LinkIndex from, LinkIndex to) const {
    return carried_.at(NamesOf(from, to));
  }
  // Sink and bridges take no packet while they rest.
  void Rest(bool rests);
  // Frees what was sent out of ports and is still in their queues. False: one cannot tell.
  bool FreeSent() const;
  // Whether links may drop packets of which nobody tells.
  bool may_lose_unseen() const {
    return std::ranges::any_of(
        topology_.links, [](const auto& link) { return !link.kind->tells_of_drops(link.config); });
  }
  // Frames for the estimator, of `size` bytes with FCS, that the classifier steers into a chain.
  Frames ProbeFrames(std::size_t chain, std::uint32_t size) const;

 private:
  // What a configuration adds to what is there, by name.
  struct Additions {
    std::map<std::string, std::unique_ptr<Link>> links;
    std::map<std::string, std::unique_ptr<PortShm>> ports;
  };

  Deployment(std::optional<PacketMemory> memory, Options options)
      : memory_(std::move(memory)), options_(std::move(options)) {}

  struct Positions {
    std::uint32_t taken = 0, put = 0;  // of the links, less what the port has counted
  };
  class Standstill;

  absl::StatusOr<Additions> Make(const Topology& topology) const;
  void Take(Additions additions, Topology topology);
  void CountGone(const Topology& topology, const std::set<std::string>& ports);
  void Renumber(const Topology& before);
  void TakeChains();
  void TakeTraffic(Traffic traffic);
  absl::Status OpenPorts(const v1::TrafficConfig& traffic);
  absl::Status RoomFor(const v1::DeployRequest& config) const;
  static absl::StatusOr<Traffic> PrepareTraffic(const v1::DeployRequest& config);
  void LayBridges(std::vector<Classifier> classifiers);
  std::pair<std::string, std::string> NamesOf(LinkIndex from, LinkIndex to) const;
  Chain::Ends EndsOf(const Topology::Chain& chain) const;
  void WatchLinks();
  void Watch(const Topology::Link& link);
  void WatchReadable(const Topology::Link& where);
  void ReclaimPort(const Topology::Port& at, PortShm& shm);
  std::uint32_t ForgetCache(unsigned lcore);
  template <typename Wanted>
  pid_t FirstPoller(const std::string& function, Wanted wanted) const;
  std::uint64_t SumOutside(Counter LinkEnd::*count) const;
  std::uint64_t SumWires(Counter Chain::*count) const;
  absl::Status CheckWires(const v1::DeployRequest& config, const Topology& topology) const;
  std::uint32_t HeldByLinks() const;
  absl::Status RunComponentsFor(const Topology& topology);

  std::optional<PacketMemory> memory_;  // goes last: links and ports hold its packets
  Options options_;
  v1::DeployRequest config_;
  Topology topology_;
  std::map<std::string, std::unique_ptr<Link>> links_;     // by name
  std::map<std::string, std::unique_ptr<PortShm>> ports_;  // by name
  LinkMonitor monitor_{std::vector<Occupancy>{}};
  Chains chains_;
  std::shared_ptr<EthPort> source_port_, sink_port_;  // null: none
  std::optional<Heartbeat> heartbeat_;
  std::uint32_t kept_ = 0;  // not by links
  std::uint64_t lost_ = 0;  // at most, with who died since something was written off last
  Gone gone_;
  std::map<std::string, FunctionCounts> removed_ports_;
  std::map<std::string, Positions> positions_;                      // by name of the port
  std::map<std::pair<std::string, std::string>, Carried> carried_;  // by names of links
  std::unique_ptr<Bridges> bridges_;                                // null: none were needed yet
  std::unique_ptr<LinkSampler> sampler_;  // null: no links yet of which nobody tells
  std::shared_ptr<PassageLog> passages_;
  std::unique_ptr<TrafficSource> source_;
  std::unique_ptr<Sink> sink_;
};

}  // namespace unis
