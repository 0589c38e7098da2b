#include "engine/server/deployment.h"

#include <fmt/format.h>
#include <rte_lcore.h>

#include <algorithm>

#include "engine/server/convert.h"

namespace unis {
namespace {

// Every ring may be full, every NF may hold a few bursts, every lcore's cache may fill, and the
// estimator or a port may need as much again as a ring.
std::uint32_t PacketsFor(const v1::DeployRequest& request) {
  std::uint32_t packets = 4 * kPoolCache + 4096;
  for (const auto& chain : request.chains()) {
    const auto nfs = static_cast<std::uint32_t>(chain.nfs_size());
    packets += (nfs + 1) * chain.ring_size() + nfs * (4 * kBurst + 2 * kPoolCache);
  }
  return packets;
}

std::vector<std::vector<FlowMatch>> MatchesOf(const v1::DeployRequest& request) {
  std::vector<std::vector<FlowMatch>> matches;
  for (const auto& chain : request.chains()) matches.push_back(FromProto(chain.match()));
  return matches;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Deployment>> Deployment::Create(const v1::DeployRequest& request) {
  if (auto status = Validate(request); !status.ok()) return status;
  if (auto owner = NewPortOwner(); !owner.ok()) return owner.status();
  auto memory = PacketMemory::Create(PacketsFor(request));
  if (!memory.ok()) return memory.status();
  std::unique_ptr<Deployment> deployment(new Deployment(*std::move(memory)));
  if (auto status = deployment->AddChains(request); !status.ok()) return status;
  if (auto status = deployment->AddTraffic(request); !status.ok()) return status;
  return deployment;
}

absl::Status Deployment::AddChains(const v1::DeployRequest& request) {
  LinkIndex link = 0;
  for (const auto& config : request.chains()) {
    auto chain = Chain::Create(config.name(), static_cast<std::uint32_t>(chains_.size()),
                               static_cast<std::uint32_t>(nfs_.size()),
                               static_cast<std::uint32_t>(config.nfs_size()), config.ring_size());
    if (!chain.ok()) return chain.status();
    chains_.push_back(*std::move(chain));
    probe_match_.push_back(config.match().empty() ? FlowMatch{} : FromProto(config.match(0)));
    std::uint32_t position = 0;
    for (const auto& nf : config.nfs()) {
      nfs_.push_back({.name = nf.name(),
                      .chain = chains_.back().get(),
                      .position = position++,
                      .cpu = nf.cpu(),
                      .core = CoreOf(nf.cpu()),
                      .ingress = link,
                      .cost_ns = nf.cost_ns(),
                      .cooperates = nf.yield_every() > 0});
      ++link;
    }
    ++link;  // the ring behind the last NF
  }
  return absl::OkStatus();
}

absl::Status Deployment::AddTraffic(const v1::DeployRequest& request) {
  const v1::TrafficConfig& traffic = request.traffic();
  auto classifier = Classifier::Create(MatchesOf(request));
  if (!classifier.ok()) return classifier.status();
  const std::uint32_t before = memory_.InUse();
  std::shared_ptr<EthPort> source_port, sink_port;
  if (traffic.has_port()) {
    auto port = EthPort::Open(traffic.port().device(), memory_.pool());
    if (!port.ok()) return port.status();
    source_port = std::make_shared<EthPort>(*std::move(port));
  }
  if (!traffic.sink_device().empty() && traffic.has_port() &&
      traffic.sink_device() == traffic.port().device()) {
    sink_port = source_port;
  } else if (!traffic.sink_device().empty()) {
    auto port = EthPort::Open(traffic.sink_device(), memory_.pool());
    if (!port.ok()) return port.status();
    sink_port = std::make_shared<EthPort>(*std::move(port));
  }
  held_by_ports_ = memory_.InUse() - before;
  sink_ = std::make_unique<Sink>(memory_, chains_, std::move(sink_port));
  const Rate rate{.pps = traffic.pps(), .bps = traffic.bps()};
  if (source_port) {
    source_ = std::make_unique<TrafficSource>(memory_, chains_, *std::move(classifier),
                                              std::move(source_port));
    return absl::OkStatus();
  }
  std::vector<Frames> lists;
  if (traffic.has_replay()) {
    auto frames = ReadCapture(traffic.replay().file());
    if (!frames.ok()) return frames.status();
    lists.push_back(*std::move(frames));
  } else {
    for (const FlowMatch& match : probe_match_) {
      lists.push_back(MakeFrames(FromProto(traffic.synthetic()), match));
    }
  }
  source_ = std::make_unique<TrafficSource>(memory_, chains_, *std::move(classifier),
                                            std::move(lists), rate);
  return absl::OkStatus();
}

CoreIndex Deployment::CoreOf(unsigned cpu) {
  const auto found = std::find(cpus_.begin(), cpus_.end(), cpu);
  if (found != cpus_.end()) return static_cast<CoreIndex>(found - cpus_.begin());
  cpus_.push_back(cpu);
  return static_cast<CoreIndex>(cpus_.size() - 1);
}

std::vector<const rte_ring*> Deployment::Links() const {
  std::vector<const rte_ring*> links;
  for (const auto& chain : chains_) {
    for (std::size_t i = 0; i <= chain->nfs(); ++i) links.push_back(chain->link(i));
  }
  return links;
}

Frames Deployment::ProbeFrames(const Chain& chain, std::uint32_t size) const {
  FlowMatch match;
  for (std::size_t i = 0; i < chains_.size(); ++i) {
    if (chains_[i].get() == &chain) match = probe_match_[i];
  }
  return MakeFrames({.size = size}, match);
}

}  // namespace unis
