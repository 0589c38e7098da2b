// Chains, traffic and packet memory of one deployment: everything that does not need an NF to run.
#pragma once

#include <absl/status/statusor.h>

#include <memory>
#include <string>
#include <vector>

#include "unis/v1/engine.pb.h"
#include "engine/platform/chain.h"
#include "engine/platform/packet_memory.h"
#include "engine/platform/sink.h"
#include "engine/platform/traffic_source.h"

namespace unis {

class Deployment {
 public:
  struct Nf {
    std::string name;
    Chain* chain;
    std::uint32_t position;  // in its chain
    unsigned cpu;
    CoreIndex core;     // of the scheduler
    LinkIndex ingress;  // links are numbered chain by chain
    double cost_ns;     // per packet; 0: not known yet
    bool cooperates;

    const PortShm& port() const { return chain->port(position); }
  };

  static absl::StatusOr<std::unique_ptr<Deployment>> Create(const v1::DeployRequest& request);

  const PacketMemory& memory() const { return memory_; }
  const Chains& chains() const { return chains_; }
  std::vector<Nf>& nfs() { return nfs_; }
  const std::vector<Nf>& nfs() const { return nfs_; }
  const std::vector<unsigned>& cpus() const { return cpus_; }  // CPU of each core of the scheduler
  std::vector<const rte_ring*> Links() const;
  TrafficSource& source() { return *source_; }
  const TrafficSource& source() const { return *source_; }
  Sink& sink() { return *sink_; }
  // mbufs that a port of the platform keeps, as measured when it was opened.
  std::uint32_t held_by_ports() const { return held_by_ports_; }
  // Frames for the estimator, of `size` bytes with FCS, that the classifier steers into a chain.
  Frames ProbeFrames(const Chain& chain, std::uint32_t size) const;

 private:
  explicit Deployment(PacketMemory memory) : memory_(std::move(memory)) {}
  absl::Status AddChains(const v1::DeployRequest& request);
  absl::Status AddTraffic(const v1::DeployRequest& request);
  CoreIndex CoreOf(unsigned cpu);

  PacketMemory memory_;  // goes last: chains and ports hold its packets
  Chains chains_;
  std::vector<FlowMatch> probe_match_;  // per chain
  std::vector<Nf> nfs_;
  std::vector<unsigned> cpus_;
  std::uint32_t held_by_ports_ = 0;
  std::unique_ptr<TrafficSource> source_;
  std::unique_ptr<Sink> sink_;
};

}  // namespace unis
