// What a deployment tells of itself: its ports and links, and the packets that are under way.
#include <spdlog/spdlog.h>

#include "engine/base/proc.h"
#include "engine/run/deployment.h"

namespace unis {

std::vector<const Component*> Deployment::components() const {
  std::vector<const Component*> components;
  if (source_) components.push_back(source_.get());
  if (sink_) components.push_back(sink_.get());
  if (bridges_) components.push_back(bridges_.get());
  return components;
}

const PortShm* Deployment::port(std::size_t function, std::size_t port) const {
  const auto found = ports_.find(topology_.functions[function].ports[port].name);
  return found == ports_.end() ? nullptr : found->second.get();
}

pid_t Deployment::PolledBy(const std::string& name) const {
  const auto function = topology_.FindFunction(name);
  for (std::size_t i = 0; function && i < topology_.functions[*function].ports.size(); ++i) {
    const PortShm* shm = port(*function, i);
    if (shm == nullptr) continue;
    if (const pid_t tid = shm->Read().polling_tid; tid > 0 && ProcessRuns(tid)) return tid;
  }
  return 0;
}

rte_ring* Deployment::ring(LinkIndex link) const {
  const auto found = rings_.find(topology_.link_of(link).config.name());
  return found == rings_.end() ? nullptr : found->second->get();
}

Memif* Deployment::memif(LinkIndex link) const {
  const auto found = memifs_.find(topology_.link_of(link).config.name());
  return found == memifs_.end() ? nullptr : found->second.get();
}

const LinkProgress* Deployment::progress(LinkIndex link) const {
  return sampler_ ? sampler_->progress(link) : nullptr;
}

void Deployment::LookAtLinks(const std::function<void(const std::function<void()>&)>& look) {
  sampler_->Do([&] { look([this] { sampler_->Sample(); }); });
}

absl::Status Deployment::FindMemifs(std::size_t function, pid_t pid) {
  absl::Status all;
  for (const auto& port : topology_.functions[function].ports) {
    if (!port.rx || memif(*port.rx) == nullptr) continue;
    Memif& link = *memif(*port.rx);
    if (link.located() && link.region().HeldBy(pid)) continue;
    auto region = link.Find(pid);
    if (!region.ok()) {
      all.Update(region.status());
      continue;
    }
    // In one go: until then the sampler reads the old one.
    sampler_->Do([&] {
      link.Take(*std::move(region));
      Watch(topology_.link_of(*port.rx).first, link);
    });
  }
  return all;
}

// Copied on the sink's thread.
std::vector<LatencyHistogram> Deployment::Latencies() const {
  std::vector<LatencyHistogram> latencies(chains_.size());
  if (!sink_) return latencies;
  sink_->Do([&] {
    for (std::size_t i = 0; i < latencies.size(); ++i) latencies[i] = chains_[i]->latency;
  });
  return latencies;
}

std::uint64_t Deployment::InRings() const {
  std::uint64_t packets = 0;
  for (const auto& [name, ring] : rings_) packets += ring->occupancy().Packets();
  return packets;
}

std::uint64_t Deployment::InMemifs() const {
  std::uint64_t packets = 0;
  for (const auto& path : topology_.paths)
    if (memif(path.in) != nullptr) packets += monitor_.NumPkts(path.in);
  for (const auto& bridge : topology_.bridges)
    if (memif(bridge.from) != nullptr) packets += monitor_.NumPkts(bridge.from);
  return packets;
}

std::uint64_t Deployment::IntoMemifs() const { return bridges_ ? bridges_->carried_into() : 0; }

std::uint64_t Deployment::OutOfMemifs() const { return bridges_ ? bridges_->carried_out_of() : 0; }

void Deployment::Spoil(std::string why) {
  spdlog::warn("{}; no account of this run is exact any more", why);
  if (spoilt_.empty()) spoilt_ = std::move(why);
}

void Deployment::Rest(bool rests) {
  if (sink_) sink_->Rest(rests);
  if (bridges_) bridges_->Rest(rests);
}

bool Deployment::FreeSent() const { return !sink_ || sink_->FreeSent(); }

}  // namespace unis
