#include "engine/run/deployment.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <utility>

#include "engine/base/proc.h"
#include "engine/platform/own_ports.h"
#include "engine/run/account.h"
#include "engine/run/convert.h"
#include "engine/run/placement.h"
#include "engine/run/services.h"

namespace unis {
namespace {

// Every ring may be full, every function may hold a few bursts, every lcore's cache may fill, a
// port holds what its queues can, and the estimator may need as much again as a ring.
std::uint32_t PacketsFor(const v1::DeployRequest& config) {
  std::uint64_t packets = 4 * kPoolCache + 4096;
  for (const auto& link : config.links()) packets += FindLinkKind(link.kind())->packets(link);
  packets += static_cast<std::uint64_t>(config.functions_size()) * (4 * kBurst + 2 * kPoolCache);
  for (const PlatformPort& port : PortsOf(config.traffic()))
    packets += port.queues.rx + port.queues.tx;
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(packets, UINT32_MAX));
}

std::vector<std::vector<FlowMatch>> MatchesOf(const v1::DeployRequest& config) {
  std::vector<std::vector<FlowMatch>> matches;
  for (const auto& chain : config.chains()) matches.push_back(FromProto(chain.match()));
  return matches;
}

template <typename T>
void KeepOnly(std::map<std::string, std::unique_ptr<T>>& there,
              const std::set<std::string>& names) {
  std::erase_if(there, [&](const auto& entry) { return !names.contains(entry.first); });
}

absl::StatusOr<std::shared_ptr<EthPort>> OpenPort(const PlatformPort& wanted,
                                                  const PacketMemory& memory) {
  auto opened = EthPort::Open(wanted.device, memory.pool(), wanted.queues);
  if (!opened.ok()) return opened.status();
  const PortQueues& asked = wanted.queues;
  const PortQueues& has = opened->queues();
  spdlog::info("port {}: {} descriptors to receive, {} to send", wanted.device, has.rx, has.tx);
  if (has.rx > asked.rx || has.tx > asked.tx)
    spdlog::warn(
        "port {} takes no queues as short as {} and {} descriptors: more packets can be "
        "under way than were asked for",
        wanted.device, asked.rx, asked.tx);
  return std::make_shared<EthPort>(*std::move(opened));
}

}  // namespace

// As long as it lives no component of the deployment does anything.
class Deployment::Standstill {
 public:
  explicit Standstill(Deployment& deployment)
      : components_{deployment.source_.get(), deployment.bridges_.get(), deployment.sink_.get(),
                    deployment.sampler_.get()} {
    Rest(true);
  }
  ~Standstill() { Rest(false); }
  Standstill(const Standstill&) = delete;
  Standstill& operator=(const Standstill&) = delete;

 private:
  void Rest(bool rests) const {
    for (Component* component : components_)
      if (component != nullptr) component->Rest(rests);
  }

  const std::array<Component*, 4> components_;
};

absl::StatusOr<std::unique_ptr<Deployment>> Deployment::Create(const v1::DeployRequest& config,
                                                               Options options) {
  if (!config.has_scheduler())
    return absl::InvalidArgumentError("the deployment has no settings of the scheduler");
  if (config.foreign()) {
    std::unique_ptr<Deployment> others(new Deployment(std::nullopt, std::move(options)));
    auto prepared = others->Prepare(config);
    if (!prepared.ok()) return prepared.status();
    if (auto status = others->Apply(*std::move(prepared)); !status.ok()) return status;
    return others;
  }
  if (auto status = Validate(config.traffic()); !status.ok()) return status;
  if (auto owner = NewPortOwner(); !owner.ok()) return owner.status();
  if (auto status = KeepPortsFromSecondaries(); !status.ok()) return status;
  const std::uint32_t packets = PacketsFor(config);
  auto memory = PacketMemory::Create(packets + packets / 2);  // room for what is added later
  if (!memory.ok()) return memory.status();
  std::unique_ptr<Deployment> deployment(new Deployment(*std::move(memory), std::move(options)));
  auto heartbeat = Heartbeat::Create();
  if (!heartbeat.ok()) return heartbeat.status();
  deployment->heartbeat_ = *std::move(heartbeat);
  auto passages = PassageLog::Create();
  if (!passages.ok()) return passages.status();
  deployment->passages_ = *std::move(passages);
  if (auto status = deployment->OpenPorts(config.traffic()); !status.ok()) return status;
  auto prepared = deployment->Prepare(config);
  if (!prepared.ok()) return prepared.status();
  if (auto status = deployment->Apply(*std::move(prepared)); !status.ok()) return status;
  const Placement on =
      PlaceComponents(deployment->options_.service_lcores, deployment->topology_.cpus.size());
  absl::Status status;
  if (deployment->source_) status = RunFavoured(*deployment->source_, on.source);
  if (status.ok() && deployment->sink_) status = RunFavoured(*deployment->sink_, on.sink);
  if (!status.ok()) return status;
  return deployment;
}

// Components first: they use what goes then.
Deployment::~Deployment() {
  source_.reset();
  sink_.reset();
  sampler_.reset();
  bridges_.reset();
}

absl::Status Deployment::OpenPorts(const v1::TrafficConfig& traffic) {
  const std::uint32_t before = InUse();
  for (const PlatformPort& wanted : PortsOf(traffic)) {
    auto port = OpenPort(wanted, memory());
    if (!port.ok()) return port.status();
    if (wanted.is_source) source_port_ = *port;
    if (wanted.is_sink) sink_port_ = *port;
  }
  kept_ = InUse() - before;
  return absl::OkStatus();
}

absl::StatusOr<Deployment::Prepared> Deployment::Prepare(const v1::DeployRequest& config) const {
  auto topology = Topology::Resolve(config, options_.cpus);
  if (!topology.ok()) return topology.status();
  Prepared prepared{
      .config = config, .topology = *std::move(topology), .classifiers = {}, .traffic = {}};
  for (const auto& split : prepared.topology.splits) {
    std::vector<std::vector<FlowMatch>> matches;
    for (const auto& branch : split.branches)
      if (!branch.config.copy()) matches.push_back(FromProto(branch.config.match()));
    auto classifier = Classifier::Create(matches);
    if (!classifier.ok()) return classifier.status();
    prepared.classifiers.push_back(*std::move(classifier));
  }
  if (foreign()) return prepared;
  if (auto status = Validate(config.traffic()); !status.ok()) return status;
  if (auto status = CheckWires(config, prepared.topology); !status.ok()) return status;
  auto traffic = PrepareTraffic(config);
  if (!traffic.ok()) return traffic.status();
  prepared.traffic = *std::move(traffic);
  if (auto status = RoomFor(config); !status.ok()) return status;
  return prepared;
}

// A chain's wires are its ends for good: what passed them is counted by the chain.
absl::Status Deployment::CheckWires(const v1::DeployRequest& config,
                                    const Topology& topology) const {
  const auto ends = [](const v1::ChainConfig& chain) {
    return std::pair(chain.ingress(), chain.egress());
  };
  for (const auto& was : topology_.chains)
    for (const auto& now : topology.chains)
      if (now.config.name() == was.config.name() &&
          (config.traffic().has_wire() != wired() ||
           (wired() && ends(now.config) != ends(was.config))))
        return absl::FailedPreconditionError(fmt::format(
            "the ends of chain {} stay: wires cannot be changed while it runs", was.config.name()));
  return absl::OkStatus();
}

absl::Status Deployment::Apply(Prepared prepared) {
  auto additions = Make(prepared.topology);
  if (!additions.ok()) return additions.status();
  if (auto status = RunComponentsFor(prepared.topology); !status.ok()) return status;
  const Standstill standstill(*this);
  Take(*std::move(additions), std::move(prepared.topology));
  config_ = std::move(prepared.config);
  TakeChains();
  if (prepared.traffic) TakeTraffic(*std::move(prepared.traffic));
  LayBridges(std::move(prepared.classifiers));
  WatchLinks();
  return absl::OkStatus();
}

absl::Status Deployment::RoomFor(const v1::DeployRequest& config) const {
  const std::uint32_t packets = PacketsFor(config);
  if (packets <= memory().size()) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      fmt::format("{} packet buffers are needed, and {} were made when the run began: with shorter "
                  "rings or fewer functions they suffice, else begin a run anew",
                  packets, memory().size()));
}

absl::StatusOr<Deployment::Additions> Deployment::Make(const Topology& topology) const {
  Additions additions;
  for (const auto& link : topology.links) {
    const std::string& name = link.config.name();
    if (links_.contains(name)) continue;
    auto made = link.kind->Make(link.config, foreign(), memory_ ? memory_->pool() : nullptr);
    if (!made.ok()) return made.status();
    additions.links[name] = *std::move(made);
  }
  for (const auto& function : topology.functions) {
    if (!function.counts()) continue;
    for (const auto& port : function.ports) {
      if (ports_.contains(port.name)) continue;
      auto shm = PortShm::Create(port.name);
      if (!shm.ok()) return shm.status();
      additions.ports[port.name] = std::make_unique<PortShm>(*std::move(shm));
    }
  }
  return additions;
}

void Deployment::Take(Additions additions, Topology topology) {
  std::set<std::string> links, ports;
  for (const auto& link : topology.links) links.insert(link.config.name());
  for (const auto& function : topology.functions)
    for (const auto& port : function.ports) ports.insert(port.name);
  CountGone(topology, ports);
  if (bridges_) bridges_->Clear();
  std::swap(topology_, topology);
  for (const auto& link : topology.links) {
    if (links.contains(link.config.name())) continue;
    Link& removed = *links_.at(link.config.name());
    gone_.chains.set_dropped_down(gone_.chains.dropped_down() + removed.Empty());
    for (unsigned direction = 0; direction < link.directions(); ++direction)
      gone_.dropped_on_links += removed.Dropped(direction);
    if (link.kind->in_group() || removed.end() == nullptr) continue;
    gone_.sent_outside += removed.end()->sent.value();
    gone_.received_from_outside += removed.end()->received.value();
  }
  Renumber(topology);
  KeepOnly(links_, links);
  KeepOnly(ports_, ports);
  links_.merge(additions.links);
  ports_.merge(additions.ports);
  ReadLinksAnew();
}

// Before what `topology` has no longer goes; it has these ports. A chain stays where its ends do.
void Deployment::CountGone(const Topology& topology, const std::set<std::string>& ports) {
  const auto ends = [](const Topology& of, const Topology::Chain& chain) {
    std::vector<std::string> names{chain.config.name(), of.link_of(chain.ingress).config.name()};
    for (const auto& last : {chain.egresses, chain.drains}) {
      for (const LinkIndex link : last) names.push_back(of.link_of(link).config.name());
      names.emplace_back();
    }
    return names;
  };
  const auto stays = [&](const Topology::Chain& was) {
    return std::ranges::any_of(topology.chains, [&](const auto& chain) {
      return ends(topology, chain) == ends(topology_, was);
    });
  };
  CountWires();
  for (std::size_t i = 0; i < chains_.size(); ++i) {
    if (stays(topology_.chains[i])) continue;
    AddChain(*chains_[i], gone_.chains);
    if (!wired()) continue;
    gone_.sent_outside += chains_[i]->offered.value();
    gone_.received_from_outside += chains_[i]->delivered.value();
  }
  for (const auto& function : topology_.functions) {
    for (const auto& port : function.ports) {
      const auto shm = ports_.find(port.name);
      if (shm == ports_.end() || ports.contains(port.name)) continue;
      removed_ports_[function.config.name()].Add(shm->second->Read());
    }
  }
}

// What the sampler has counted stays with the link, whatever its number is now.
void Deployment::Renumber(const Topology& before) {
  if (!sampler_) return;
  sampler_->Renumber([&](LinkIndex link) -> std::optional<LinkIndex> {
    const Topology::Link& was = before.link_of(link);
    const auto is = std::ranges::find_if(
        topology_.links, [&](const auto& now) { return now.config.name() == was.config.name(); });
    if (is == topology_.links.end()) return std::nullopt;
    return is->first + (link - was.first);
  });
}

void Deployment::ReadLinksAnew() {
  std::vector<Occupancy> links;
  for (LinkIndex direction = 0; direction < topology_.directions(); ++direction)
    links.push_back(occupancy(direction));
  monitor_ = LinkMonitor(std::move(links));
}

void Deployment::DropReplaced() {
  ReadLinksAnew();
  for (const auto& [name, link] : links_) link->DropReplaced();
}

void Deployment::FollowLinks() {
  for (const auto& [name, link] : links_) link->Follow();
}

// All of it that can fail.
absl::StatusOr<Deployment::Traffic> Deployment::PrepareTraffic(const v1::DeployRequest& config) {
  auto classifier = Classifier::Create(MatchesOf(config));
  if (!classifier.ok()) return classifier.status();
  Traffic traffic{.classifier = *std::move(classifier), .lists = {}};
  if (config.traffic().has_replay()) {
    const std::string& file = config.traffic().replay().file();
    std::size_t too_long = 0;
    auto frames = ReadCapture(file, &too_long);
    if (!frames.ok()) return frames.status();
    if (too_long > 0)
      spdlog::warn("{}: {} frames are longer than a packet buffer and are left out", file,
                   too_long);
    traffic.lists.emplace_back(*std::move(frames), traffic.classifier);
  } else if (config.traffic().has_synthetic()) {
    for (const auto& chain : config.chains())
      traffic.lists.emplace_back(
          MakeFrames(FromProto(config.traffic().synthetic()), FromProto(chain.match())),
          traffic.classifier);
  }
  return traffic;
}

void Deployment::TakeChains() {
  Chains before = std::exchange(chains_, {});
  for (const auto& wanted : topology_.chains) {
    const auto same = std::ranges::find_if(
        before, [&](const auto& chain) { return chain && chain->name() == wanted.config.name(); });
    if (same != before.end() && (*same)->ends() == EndsOf(wanted)) {
      chains_.push_back(std::move(*same));
    } else {
      chains_.push_back(std::make_unique<Chain>(wanted.config.name(), EndsOf(wanted)));
      chains_.back()->up = false;  // till its functions are there
    }
  }
}

// The later ones first: what was delivered had been offered before.
void Deployment::CountWires() const {
  if (!wired()) return;
  const auto raise = [](Counter& counter, std::uint64_t to) {
    counter.Add(to - std::min(to, counter.value()));
  };
  const auto passed = [this](LinkIndex at) {
    return link(at).passed(at - topology_.link_of(at).first);
  };
  for (std::size_t i = 0; i < chains_.size(); ++i) {
    const Link::Passed out = passed(topology_.chains[i].egresses.front());
    raise(chains_[i]->delivered, out.packets);
    raise(chains_[i]->delivered_bytes, out.bytes);
    raise(chains_[i]->offered, passed(topology_.chains[i].ingress).packets);
  }
}

Chain::Ends Deployment::EndsOf(const Topology::Chain& chain) const {
  Chain::Ends ends{.ingress = link(chain.ingress).end(), .egresses = {}};
  for (const LinkIndex egress : chain.egresses) ends.egresses.push_back(link(egress).end());
  for (const LinkIndex drain : chain.drains) ends.drains.push_back(link(drain).end());
  return ends;
}

void Deployment::TakeTraffic(Traffic traffic) {
  if (wired()) return;
  if (!sink_) sink_ = std::make_unique<Sink>(memory(), chains_, sink_port_, passages_);
  const Rate rate = RateOf(config_.traffic());
  if (source_) {
    source_->Take(std::move(traffic.classifier), std::move(traffic.lists), rate);
  } else if (source_port_) {
    source_ = std::make_unique<TrafficSource>(memory(), chains_, std::move(traffic.classifier),
                                              source_port_);
  } else {
    source_ = std::make_unique<TrafficSource>(memory(), chains_, std::move(traffic.classifier),
                                              std::move(traffic.lists), rate, passages_);
  }
}

absl::Status Deployment::ChangeRate(const v1::TrafficConfig& traffic) {
  if (foreign())
    return absl::FailedPreconditionError("the traffic is somebody else's: it keeps its rate");
  if (wired()) return absl::FailedPreconditionError("what comes over a wire has no rate");
  if (auto status = Validate(traffic); !status.ok()) return status;
  source_->SetRate(RateOf(traffic));
  return absl::OkStatus();
}

std::pair<std::string, std::string> Deployment::NamesOf(LinkIndex from, LinkIndex to) const {
  return {topology_.link_of(from).config.name(), topology_.link_of(to).config.name()};
}

void Deployment::LayBridges(std::vector<Classifier> classifiers) {
  std::erase_if(carried_, [this](const auto& entry) {
    return !links_.contains(entry.first.first) || !links_.contains(entry.first.second);
  });
  for (std::size_t i = 0; i < classifiers.size(); ++i) {
    const Topology::Split& split = topology_.splits[i];
    std::vector<Bridges::Branch> branches;
    for (const auto& branch : split.branches)
      branches.push_back({.to = link(branch.to).end(),
                          .carried = &carried_[NamesOf(split.from, branch.to)],
                          .lost = &chains_[split.chain]->dropped_in_bridges,
                          .weight = branch.config.weight(),
                          .copy = branch.config.copy()});
    bridges_->Add(*link(split.from).end(), std::move(branches), std::move(classifiers[i]));
  }
}

// Of links between net_unis ports the ports tell more.
void Deployment::WatchLinks() {
  for (const auto& link : topology_.links)
    if (foreign() || !link.kind->in_group()) Watch(link);
}

// A link that is watched already goes on counting.
void Deployment::Watch(const Topology::Link& link) {
  for (LinkIndex at = link.first; at < link.first + link.directions(); ++at)
    if (sampler_->progress(at) == nullptr && occupancy(at).readable())
      sampler_->Watch(at, *links_.at(link.config.name()), at - link.first);
}

// The components that `topology` is the first to need. They have nothing to do until it is taken
// on.
absl::Status Deployment::RunComponentsFor(const Topology& topology) {
  const Placement on = PlaceComponents(options_.service_lcores, topology.cpus.size());
  const auto run = [](auto& component, auto made, unsigned lcore) {
    auto status = RunFavoured(*made, lcore);
    if (status.ok()) component = std::move(made);
    return status;
  };
  const bool outside =
      std::ranges::any_of(topology.links, [](const auto& link) { return !link.kind->in_group(); });
  absl::Status status;
  if (!topology.splits.empty() && !bridges_)
    status = run(bridges_, std::make_unique<Bridges>(memory()), on.sink);
  if (status.ok() && (foreign() || outside) && !sampler_)
    status = run(sampler_, std::make_unique<LinkSampler>(foreign()), on.sampler);
  return status;
}

Frames Deployment::ProbeFrames(std::size_t chain, std::uint32_t size) const {
  return MakeFrames({.size = size}, FromProto(topology_.chains[chain].config.match()));
}

}  // namespace unis
