#include "models/simulator/rings.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <stdexcept>
#include <utility>

namespace unis::sim {
namespace {

bool CostDependsOnSize(const ChainSpec& chain, const Scenario& scenario) {
  const auto depends = [&scenario](FunctionIndex function) {
    return !scenario.functions[function].cost_by_size.empty();
  };
  return chain.arrivals.mix != SizeMix::kFixed &&
         (std::ranges::any_of(chain.path, depends) ||
          std::ranges::any_of(chain.edges,
                              [&](const EdgeSpec& edge) { return edge.to && depends(*edge.to); }));
}

}  // namespace

Rings::Chain::Chain(const ChainSpec& spec, const Scenario& scenario)
    : saturating(spec.arrivals.kind == ArrivalKind::kSaturating),
      sizes_matter(CostDependsOnSize(spec, scenario)),
      sizes(spec.arrivals.mix, spec.arrivals.size) {}

Rings::Rings(const Scenario& scenario, const std::vector<CoreIndex>& cores)
    : platform_takes_time_(scenario.machine.platform_takes_time()),
      functions_(scenario.functions.size()) {
  for (const ChainSpec& spec : scenario.chains) AddChain(spec, scenario);
  for (FunctionIndex function = 0; function < scenario.functions.size(); ++function)
    AddTask(function, scenario, cores[function]);
}

LinkIndex Rings::AddLink(std::uint32_t capacity, std::size_t chain) {
  links_.push_back({.queue = PacketQueue(capacity), .chain = chain});
  return static_cast<LinkIndex>(links_.size() - 1);
}

void Rings::AddChain(const ChainSpec& spec, const Scenario& scenario) {
  Chain chain(spec, scenario);
  chain.random = Random(Random(scenario.seed + chains_.size()).Next());
  chain.first.choice.random = Random(chain.random.Next() ^ scenario.seed);
  chain.random = Random(Random(scenario.seed + chains_.size()).Next());
  chain.begin = static_cast<LinkIndex>(links_.size());
  auto& stages = stages_.emplace_back();
  spec.edges.empty() ? AddPath(spec, chain, stages) : AddGraph(spec, chain, stages);
  chain.end = static_cast<LinkIndex>(links_.size());
  for (const Out& out : chain.first.choice.outs) links_[out.link].first = true;
  for (const Stage& stage : stages)
    for (const LinkIndex link : stage.in) links_[link].reader = stage.function;
  for (LinkIndex link = chain.begin; link < chain.end; ++link)
    if (links_[link].IsLast()) chain.last.push_back(link);
  chains_.push_back(std::move(chain));
}

// A function that the path passes twice is two stages.
void Rings::AddPath(const ChainSpec& spec, Chain& chain, std::vector<Stage>& stages) {
  for (const std::uint32_t capacity : spec.capacity)
    chain.edges.push_back(AddLink(capacity, chains_.size()));
  chain.first.choice.Add({.link = chain.edges.front(), .weight = 1});
  for (std::size_t hop = 0; hop < spec.path.size(); ++hop)
    stages.push_back({.function = spec.path[hop],
                      .in = {chain.edges[hop]},
                      .out = {{.link = chain.edges[hop + 1], .weight = 1}}});
}

void Rings::AddGraph(const ChainSpec& spec, Chain& chain, std::vector<Stage>& stages) {
  const auto stage_of = [&stages](FunctionIndex function) -> Stage& {
    const auto known = std::ranges::find(stages, function, &Stage::function);
    if (known != stages.end()) return *known;
    return stages.emplace_back(Stage{.function = function, .in = {}, .out = {}});
  };
  std::map<std::pair<std::optional<FunctionIndex>, std::uint32_t>, std::vector<Out>> ports;
  for (const EdgeSpec& edge : spec.edges) {
    const LinkIndex link = AddLink(edge.capacity, chains_.size());
    chain.edges.push_back(link);
    if (edge.to) stage_of(*edge.to).in.push_back(link);
    ports[{edge.from, edge.from ? edge.port : 0}].push_back(
        {.link = link, .weight = edge.weight, .copy = edge.copy});
  }
  for (const auto& [port, outs] : ports) {
    Split split;
    for (const Out& out : outs) out.copy ? split.copies.push_back(out.link) : split.choice.Add(out);
    if (split.choice.outs.empty()) {  // then the first of them is the packet itself
      split.choice.Add({.link = split.copies.front(), .weight = 1});
      split.copies.erase(split.copies.begin());
    }
    split.choice.random = Random(splits_.size() * 1'000 + chains_.size());
    if (!port.first) {
      split.choice.random = chain.first.choice.random;
      chain.first = std::move(split);
      continue;
    }
    LinkIndex link = outs.front().link;
    if (outs.size() > 1) {
      link = AddLink(links_[link].queue.capacity(), chains_.size());
      links_[link].split = splits_.size();
      for (const Out& out : outs) links_[out.link].fed_by = link;
    }
    stage_of(*port.first).out.push_back({.link = link, .weight = split.choice.total});
    if (outs.size() > 1) splits_.push_back(std::move(split));
  }
}

// A packet of one chain leaves by the egresses that the function has in that chain.
void Rings::AddTask(FunctionIndex function, const Scenario& scenario, CoreIndex core) {
  const FunctionSpec& spec = scenario.functions[function];
  std::vector<Ingress> in;
  std::vector<LinkIndex> out;
  double mean_cost = 0;
  const auto first_hop = static_cast<std::uint32_t>(hops_.size());
  for (std::size_t index = 0; index < chains_.size(); ++index) {
    const Chain& chain = chains_[index];
    for (const Stage& stage : stages_[index]) {
      if (stage.function != function) continue;
      Choice choice;
      choice.random = Random(scenario.seed ^ (hops_.size() + 1));
      std::uint64_t reaches = 0;
      for (const Out& port : stage.out) {
        choice.Add(port);
        reaches |= std::uint64_t{1} << out.size();
        out.push_back(port.link);
      }
      for (const LinkIndex link : stage.in) {
        in.push_back({.link = link, .reaches = reaches});
        mean_cost += MeanCost(spec, chain.sizes);
        Hop hop{.function = function,
                .chain = index,
                .in = link,
                .out = choice,
                .cost = {},
                .pass_ratio = spec.pass_ratio,
                .cost_factor = spec.cost_factor,
                .cost_changes_at = spec.cost_changes_at * kNanosecond};
        for (const SizeShare& share : chain.sizes.shares())
          hop.cost.push_back(FromNs(CostOf(spec, share.bytes)));
        hops_.push_back(std::move(hop));
      }
    }
  }
  tasks_.Add(core, function, in, out);
  hops_of_.push_back({first_hop, static_cast<std::uint32_t>(in.size())});
  scheduled_costs_.push_back(
      spec.scheduled_cost_ns.value_or(mean_cost / static_cast<double>(in.size())));
}

LinkIndex Rings::Choice::Draw() {
  if (outs.size() == 1) return outs.front().link;
  double left = random.Unit() * total;
  for (const Out& out : outs) {
    left -= out.weight;
    if (left < 0) return out.link;
  }
  return outs.back().link;
}

std::uint32_t Rings::NumPkts(LinkIndex link) const noexcept { return links_[link].queue.size(); }

std::uint32_t Rings::PktCap(LinkIndex link) const noexcept { return links_[link].queue.capacity(); }

// The sink takes no time where the platform takes none.
bool Rings::HasRoomFor(LinkIndex link, std::uint32_t packets) const {
  const PacketQueue& queue = links_[link].queue;
  return (links_[link].IsLast() && !platform_takes_time_) ||
         queue.capacity() - queue.size() >= packets;
}

std::uint32_t Rings::Push(LinkIndex index, const PacketRun& run, Time now) {
  Link& link = links_[index];
  link.counts.offered += run.count;
  std::uint32_t accepted = run.count;
  if (link.IsLast() && !platform_takes_time_) {
    RecordDelivery(chains_[link.chain], run, now);
    link.counts.taken += accepted;
  } else {
    accepted = link.queue.Push(run);
    link.counts.dropped += run.count - accepted;
    if (link.reader && link.queue.size() > 0) readers_.push_back(*link.reader);
  }
  link.sent = static_cast<std::uint16_t>(link.sent + accepted);
  if (link.split) Distribute(index, now);
  return run.count - accepted;
}

void Rings::TakeFrom(LinkIndex index, std::uint32_t most, std::vector<PacketRun>& burst, Time now) {
  Link& link = links_[index];
  const std::uint32_t count = link.queue.Take(most, burst);
  link.received = static_cast<std::uint16_t>(link.received + count);
  link.counts.taken += count;
  if (link.fed_by && count > 0) Distribute(*link.fed_by, now);
}

// Packets keep their order: the first one waits for room, and the others behind it.
void Rings::Distribute(LinkIndex index, Time now) {
  Split& split = splits_[*links_[index].split];
  while (links_[index].queue.size() > 0) {
    if (!split.next) split.next = split.choice.Draw();
    if (!HasRoomFor(*split.next, 1)) return;
    std::vector<PacketRun> packet;
    TakeFrom(index, 1, packet, now);
    (void)Push(*std::exchange(split.next, std::nullopt), packet.front(), now);
    Copy(split, packet.front(), now);
  }
}

// A copy waits for nothing: what finds its link full is not made.
void Rings::Copy(const Split& split, const PacketRun& packet, Time now) {
  for (const LinkIndex link : split.copies)
    chains_[links_[link].chain].counts.copied += packet.count - Push(link, packet, now);
}

void Rings::ArriveAt(LinkIndex link, const PacketRun& run) {
  Chain& chain = chains_[links_[link].chain];
  chain.counts.dropped_ingress_full += Push(link, run, run.arrived);
}

void Rings::Arrive(std::size_t index, std::uint32_t count, Time now) {
  Chain& chain = chains_[index];
  chain.counts.offered += count;
  const bool one_link = chain.first.choice.outs.size() == 1 && chain.first.copies.empty();
  if (one_link && !chain.sizes_matter)
    return ArriveAt(chain.first.choice.outs.front().link, {now, 0, count});
  for (std::uint32_t i = 0; i < count; ++i) {
    const PacketRun packet{now, chain.sizes_matter ? chain.sizes.Draw(chain.random) : 0, 1};
    ArriveAt(chain.first.choice.Draw(), packet);
    Copy(chain.first, packet, now);
  }
}

void Rings::FillFirst(Time now) {
  for (std::size_t i = 0; i < chains_.size(); ++i)
    while (HasRoom(i, kBatch)) Arrive(i, kBatch, now);
  for (std::size_t i = 0; i < chains_.size(); ++i)
    while (HasRoom(i, 1)) Arrive(i, 1, now);
}

bool Rings::HasRoom(std::size_t index, std::uint32_t packets) const {
  const Chain& chain = chains_[index];
  const auto has_room = [&](LinkIndex link) { return HasRoomFor(link, packets); };
  return chain.saturating && std::ranges::all_of(chain.first.choice.outs, has_room, &Out::link);
}

bool Rings::SinkHasPackets() const {
  return std::ranges::any_of(chains_, [this](const Chain& chain) {
    return std::ranges::any_of(chain.last, [this](LinkIndex link) { return NumPkts(link) > 0; });
  });
}

std::uint32_t Rings::Deliver(std::size_t index, std::uint32_t most, Time now) {
  Chain& chain = chains_[index];
  taken_.clear();
  for (const LinkIndex link : chain.last) TakeFrom(link, most, taken_, now);
  std::uint32_t count = 0;
  for (const PacketRun& run : taken_) {
    RecordDelivery(chain, run, now);
    count += run.count;
  }
  return count;
}

void Rings::RecordDelivery(Chain& chain, const PacketRun& run, Time now) {
  chain.counts.delivered += run.count;
  chain.counts.latency.Record(static_cast<std::uint64_t>((now - run.arrived) / kNanosecond),
                              run.count);
}

std::uint32_t Rings::Take(HopIndex index, std::vector<PacketRun>& burst, Time now) {
  const Hop& hop = hops_[index];
  Chain& chain = chains_[hop.chain];
  TakeFrom(hop.in, kBatch, burst, now);
  std::uint32_t count = 0;
  for (const PacketRun& run : burst) count += run.count;
  chain.in_hand += count;
  if (links_[hop.in].first && chain.saturating && !platform_takes_time_) {
    const bool one_link = chain.first.choice.outs.size() == 1 && chain.first.copies.empty();
    if (one_link)
      Arrive(hop.chain, count, now);
    else
      while (HasRoom(hop.chain, 1)) Arrive(hop.chain, 1, now);
  }
  return count;
}

Time Rings::WorkOn(HopIndex index, const std::vector<PacketRun>& burst, Time now) const {
  const Hop& hop = hops_[index];
  Time work = 0;
  for (const PacketRun& run : burst) work += run.count * hop.cost[run.size];
  if (hop.cost_factor == 1 || now < hop.cost_changes_at) return work;
  return std::llround(static_cast<double>(work) * hop.cost_factor);
}

void Rings::Put(HopIndex index, const std::vector<PacketRun>& burst, Time now) {
  Hop& hop = hops_[index];
  Chain& chain = chains_[hop.chain];
  FunctionResult& counts = functions_[hop.function];
  for (PacketRun run : burst) {
    chain.in_hand -= run.count;
    counts.processed += run.count;
    const std::uint32_t passed = Filter(hop, run.count);
    counts.dropped_by_function += run.count - passed;
    chain.counts.dropped_by_function += run.count - passed;
    std::uint32_t lost = 0;
    if (hop.out.outs.size() == 1) {
      run.count = passed;
      lost = Push(hop.out.outs.front().link, run, now);
    } else {
      run.count = 1;
      for (std::uint32_t i = 0; i < passed; ++i) lost += Push(hop.out.Draw(), run, now);
    }
    counts.dropped_egress_full += lost;
    chain.counts.dropped_egress_full += lost;
  }
}

std::uint32_t Rings::Filter(Hop& hop, std::uint32_t count) {
  if (hop.pass_ratio >= 1) return count;
  hop.pass_credit += hop.pass_ratio * count;
  const auto passed = std::min(count, static_cast<std::uint32_t>(hop.pass_credit));
  hop.pass_credit -= passed;
  return passed;
}

std::uint64_t Rings::InFlight(const Chain& chain) const {
  std::uint64_t sum = chain.in_hand;
  for (LinkIndex link = chain.begin; link < chain.end; ++link) sum += NumPkts(link);
  return sum;
}

void Rings::BeginMeasuring() {
  for (Chain& chain : chains_) {
    chain.counts = {};
    chain.counts.offered = InFlight(chain);
  }
  for (Link& link : links_) link.counts = {.offered = link.queue.size()};
  std::ranges::fill(functions_, FunctionResult{});
}

std::vector<ChainResult> Rings::Chains() const {
  std::vector<ChainResult> results;
  for (const Chain& chain : chains_) {
    ChainResult counts = chain.counts;
    counts.in_flight = InFlight(chain);
    const std::uint64_t accounted = counts.delivered + counts.dropped_ingress_full +
                                    counts.dropped_egress_full + counts.dropped_by_function +
                                    counts.in_flight;
    if (accounted != counts.offered + counts.copied)
      throw std::logic_error("the simulator lost count of packets");
    for (const LinkIndex index : chain.edges) {
      EdgeResult& edge = counts.edges.emplace_back(links_[index].counts);
      edge.waiting = links_[index].queue.size();
      if (edge.offered != edge.taken + edge.dropped + edge.waiting)
        throw std::logic_error("the simulator lost count of the packets of an edge");
    }
    results.push_back(std::move(counts));
  }
  return results;
}

}  // namespace unis::sim
