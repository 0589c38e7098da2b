// Links, chains, traffic and packet memory of one run: everything that needs no function to run.
// What belongs to it can be added and removed until the chains start.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "engine/monitor/link_monitor.h"
#include "engine/platform/bridge.h"
#include "engine/platform/chain.h"
#include "engine/platform/links/memif.h"
#include "engine/platform/links/ring.h"
#include "engine/platform/packet_memory.h"
#include "engine/platform/port_shm.h"
#include "engine/platform/sink.h"
#include "engine/platform/traffic_source.h"
#include "engine/run/memif_sampler.h"
#include "engine/run/topology.h"
#include "unis/v1/engine.pb.h"

namespace unis {

class Deployment {
 public:
  struct Options {
    std::set<unsigned> cpus;               // that functions may be put on
    std::vector<unsigned> service_lcores;  // source, sink and bridges are spread over them
  };

  // An error leaves nothing behind.
  static absl::StatusOr<std::unique_ptr<Deployment>> Create(const v1::DeployRequest& config,
                                                            Options options);
  ~Deployment();

  // Brings what is there to `config`: makes what is new, drops what is gone. Not while packets are
  // under way. An error changes nothing.
  absl::Status Apply(const v1::DeployRequest& config);

  const v1::DeployRequest& config() const { return config_; }
  const Topology& topology() const { return topology_; }
  const PacketMemory& memory() const { return memory_; }
  const Chains& chains() const { return chains_; }  // in the order of the topology's
  TrafficSource& source() { return *source_; }      // there is one where there are chains
  const TrafficSource& source() const { return *source_; }
  Sink& sink() { return *sink_; }
  const LinkMonitor& monitor() const { return monitor_; }
  std::vector<const Component*> components() const;  // source, sink, bridges

  // What a net_unis port has counted; null for the ports of programs over memif.
  const PortShm* port(std::size_t function, std::size_t port) const;
  // The thread that polls a port of the function, as that port tells, if it still runs; 0: none.
  pid_t PolledBy(const std::string& function) const;
  rte_ring* ring(LinkIndex link) const;  // null: a memif
  Memif* memif(LinkIndex link) const;    // null: a ring
  // What went through one direction of a memif, as last sampled; null where nobody can tell.
  const MemifProgress* progress(LinkIndex link) const;
  // Finds the memory of a function's memifs among its open files: until then nobody knows how full
  // they are. To be called again and again while it connects; NotFound: which is not there yet.
  absl::Status FindMemifs(std::size_t function, pid_t pid);

  // mbufs that ports of the platform keep, as measured when they were opened.
  std::uint32_t held_by_ports() const { return held_by_ports_; }
  std::uint64_t InRings() const;   // packets that wait in rings
  std::uint64_t InMemifs() const;  // packets that wait in memifs
  // What the engine has carried into memifs, and taken out of them.
  std::uint64_t IntoMemifs() const;
  std::uint64_t OutOfMemifs() const;
  // Packets that functions took of the estimator's and kept: nobody offered them.
  std::uint64_t probes_kept() const { return probes_kept_; }
  void AddProbesKept(std::uint64_t packets) { probes_kept_ += packets; }
  // From now on there may be packets under way that nobody offered: no account is exact any more.
  void Spoil(std::string why);
  const std::string& spoilt() const { return spoilt_; }  // why; empty: it is not
  // Sink and bridges take no packet while they rest.
  void Rest(bool rests);
  // Frees what was sent out of the sink's port and is still in its queue. False: the port cannot
  // tell.
  bool FreeSent() const;
  // Frames for the estimator, of `size` bytes with FCS, that the classifier steers into a chain.
  Frames ProbeFrames(std::size_t chain, std::uint32_t size) const;

 private:
  // What a configuration adds to what is there, by name.
  struct Additions {
    std::map<std::string, std::unique_ptr<Ring>> rings;
    std::map<std::string, std::unique_ptr<Memif>> memifs;
    std::map<std::string, std::unique_ptr<PortShm>> ports;
  };

  struct Traffic {
    Classifier classifier;
    std::vector<Frames> frames;  // a list for each chain, or one for all
  };

  Deployment(PacketMemory memory, Options options)
      : memory_(std::move(memory)), options_(std::move(options)) {}

  absl::StatusOr<Additions> Make(const Topology& topology) const;
  void Take(Additions additions, Topology topology);
  absl::Status OpenPorts(const v1::TrafficConfig& traffic);
  static absl::StatusOr<Traffic> PrepareTraffic(const v1::DeployRequest& config);
  void MakeTraffic(Traffic traffic);
  void MakeBridges();
  absl::Status RunComponents();
  void ReadLinksAnew();

  PacketMemory memory_;  // goes last: links and ports hold its packets
  Options options_;
  v1::DeployRequest config_;
  Topology topology_;
  std::map<std::string, std::unique_ptr<Ring>> rings_;     // by name of the link
  std::map<std::string, std::unique_ptr<Memif>> memifs_;   // by name of the link
  std::map<std::string, std::unique_ptr<PortShm>> ports_;  // by name
  LinkMonitor monitor_{std::vector<Link>{}};
  Chains chains_;
  std::shared_ptr<EthPort> source_port_, sink_port_;  // null: none
  std::uint32_t held_by_ports_ = 0;
  std::uint64_t probes_kept_ = 0;
  std::string spoilt_;
  std::unique_ptr<Bridges> bridges_;
  std::unique_ptr<MemifSampler> sampler_;  // null: no memifs
  std::unique_ptr<TrafficSource> source_;
  std::unique_ptr<Sink> sink_;
};

}  // namespace unis
