// What a deployment tells of itself: its ports and links, and the packets that are under way.

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

template <typename Wanted>
pid_t Deployment::FirstPoller(const std::string& name, Wanted wanted) const {
  const auto function = topology_.FindFunction(name);
  for (std::size_t i = 0; function && i < topology_.functions[*function].ports.size(); ++i) {
    const PortShm* shm = port(*function, i);
    if (shm == nullptr) continue;
    if (const pid_t tid = shm->Read().polling_tid; tid > 0 && wanted(tid)) return tid;
  }
  return 0;
}

pid_t Deployment::PollerOf(const std::string& name) const {
  return FirstPoller(name, [](pid_t) { return true; });
}

pid_t Deployment::PolledBy(const std::string& name) const {
  return FirstPoller(name, [](pid_t tid) { return ProcessRuns(tid); });
}

Link& Deployment::link(LinkIndex direction) const {
  return *links_.at(topology_.link_of(direction).config.name());
}

Occupancy Deployment::occupancy(LinkIndex direction) const {
  return link(direction).occupancy(direction - topology_.link_of(direction).first);
}

const LinkProgress* Deployment::progress(LinkIndex link) const {
  return sampler_ ? sampler_->progress(link) : nullptr;
}

absl::Status Deployment::FindLinks(const v1::AttachRequest& request) {
  absl::Status all;
  const auto& of_function = topology_.functions[*topology_.FindFunction(request.function())];
  for (std::size_t i = 0; i < of_function.ports.size(); ++i) {
    const auto& port = of_function.ports[i];
    const LinkIndex at = port.rx ? *port.rx : *port.tx;
    const Topology::Link& where = topology_.link_of(at);
    const unsigned end = port.rx ? *port.rx - where.first : 0;
    v1::PortConfig config = of_function.config.ports(static_cast<int>(i));
    for (const auto& told : request.xdp_sockets()) {
      if (told.port() != i) continue;
      auto& socket = *config.add_sockets();
      socket.set_inode(told.inode());
      socket.set_xdp(true);
    }
    auto found = where.is_wire() ? link(at).FindCounts(request.pid(), i)
                 : config.sockets().empty() && !foreign()
                     ? link(at).Find(request.pid(), end)
                     : link(at).FindNamed(request.pid(), end, config);
    if (!found.ok()) {
      all.Update(found.status());
      continue;
    }
    if (*found == nullptr) continue;
    // In one go: until then the sampler reads what was found before.
    sampler_->Do([&] {
      link(at).Take(*std::move(found));
      WatchReadable(where);
    });
  }
  return all;
}

void Deployment::WatchReadable(const Topology::Link& where) {
  for (LinkIndex at = where.first; at < where.first + where.directions(); ++at)
    if (occupancy(at).readable()) sampler_->Watch(at, link(at), at - where.first);
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

std::uint64_t Deployment::WaitingInside() const {
  std::uint64_t packets = 0;
  for (const auto& link : topology_.links)
    if (link.kind->in_group()) packets += occupancy(link.first).Packets();
  return packets;
}

// Directions that lead to a function or to the engine: others nobody fills.
std::uint64_t Deployment::WaitingOutside() const {
  std::set<LinkIndex> used;
  for (const auto& path : topology_.paths)
    for (const auto* ends : {&path.in, &path.out})
      for (const auto& end : *ends) used.insert(end.link);
  std::uint64_t packets = 0;
  for (const LinkIndex at : used)
    if (!topology_.link_of(at).kind->in_group()) packets += monitor_.NumPkts(at);
  return packets;
}

std::uint64_t Deployment::SumOutside(Counter LinkEnd::*count) const {
  std::uint64_t packets = 0;
  for (const auto& link : topology_.links)
    if (LinkEnd* end = links_.at(link.config.name())->end(); end && !link.kind->in_group())
      packets += (end->*count).value();
  return packets;
}

std::uint64_t Deployment::Dropped(LinkIndex direction) const {
  return link(direction).Dropped(direction - topology_.link_of(direction).first);
}

std::uint64_t Deployment::DroppedOnLinks() const {
  std::uint64_t packets = gone_.dropped_on_links;
  for (LinkIndex at = 0; at < topology_.directions(); ++at) packets += Dropped(at);
  return packets;
}

void Deployment::Rest(bool rests) {
  if (sink_) sink_->Rest(rests);
  if (bridges_) bridges_->Rest(rests);
}

// By the threads that send: the source into the first links, and who carries packets across.
bool Deployment::FreeSent() const {
  bool freed = !sink_ || sink_->FreeSent();
  const auto free = [&freed](Component& sender, const std::set<LinkEnd*>& ends) {
    if (!ends.empty())
      sender.Do([&] {
        for (LinkEnd* end : ends) freed &= end->FreeSent();
      });
  };
  std::set<LinkEnd*> of_source, of_bridges;
  const auto add = [this](std::set<LinkEnd*>& ends, LinkIndex at) {
    if (!topology_.link_of(at).kind->in_group()) ends.insert(link(at).end());
  };
  if (!foreign())
    for (const auto& chain : topology_.chains) add(of_source, chain.ingress);
  for (const auto& split : topology_.splits)
    for (const auto& branch : split.branches) add(of_bridges, branch.to);
  if (source_) free(*source_, of_source);
  if (bridges_) free(*bridges_, of_bridges);
  return freed;
}

std::uint64_t Deployment::SumWires(Counter Chain::*count) const {
  std::uint64_t packets = 0;
  if (!wired()) return packets;
  for (const auto& chain : chains_) packets += (*chain.*count).value();
  return packets;
}

std::uint32_t Deployment::HeldByLinks() const {
  std::uint32_t held = 0;
  for (const auto& [name, link] : links_) held += link->held();
  return held;
}

}  // namespace unis
