#include "engine/simulator/rings.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace unis::sim {
namespace {

bool CostDependsOnSize(const ChainSpec& chain, const Scenario& scenario) {
  return chain.arrivals.mix != SizeMix::kFixed &&
         std::ranges::any_of(chain.path, [&scenario](FunctionIndex function) {
           return !scenario.functions[function].cost_by_size.empty();
         });
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

void Rings::AddChain(const ChainSpec& spec, const Scenario& scenario) {
  Chain chain(spec, scenario);
  chain.random = Random(Random(scenario.seed + chains_.size()).Next());
  chain.first_link = static_cast<LinkIndex>(links_.size());
  for (std::size_t hop = 0; hop < spec.path.size(); ++hop)
    links_.push_back({.queue = PacketQueue(spec.capacity[hop]), .reader = spec.path[hop]});
  chain.last_link = static_cast<LinkIndex>(links_.size());
  links_.push_back({.queue = PacketQueue(spec.capacity.back()), .reader = std::nullopt});
  chains_.push_back(std::move(chain));
}

void Rings::AddTask(FunctionIndex function, const Scenario& scenario, CoreIndex core) {
  const FunctionSpec& spec = scenario.functions[function];
  std::vector<Path> paths;
  double mean_cost = 0;
  for (std::size_t index = 0; index < chains_.size(); ++index) {
    const Chain& chain = chains_[index];
    for (LinkIndex link = chain.first_link; link < chain.last_link; ++link) {
      if (links_[link].reader != function) continue;
      paths.push_back({.in = link, .out = link + 1, .function = function});
      mean_cost += MeanCost(spec, chain.sizes);
      Hop hop{.function = function,
              .chain = index,
              .cost = {},
              .pass_ratio = spec.pass_ratio,
              .cost_factor = spec.cost_factor,
              .cost_changes_at = spec.cost_changes_at * kNanosecond};
      for (const SizeShare& share : chain.sizes.shares())
        hop.cost.push_back(FromNs(CostOf(spec, share.bytes)));
      hops_.push_back(std::move(hop));
    }
  }
  tasks_.Add(core, paths);
  ranges_.push_back(
      {static_cast<std::uint32_t>(paths_.size()), static_cast<std::uint32_t>(paths.size())});
  paths_.insert(paths_.end(), paths.begin(), paths.end());
  scheduled_costs_.push_back(
      spec.scheduled_cost_ns.value_or(mean_cost / static_cast<double>(paths.size())));
}

std::uint32_t Rings::NumPkts(LinkIndex link) const noexcept { return links_[link].queue.size(); }

std::uint32_t Rings::PktCap(LinkIndex link) const noexcept { return links_[link].queue.capacity(); }

std::uint16_t Rings::Received(LinkIndex link) const noexcept { return links_[link].received; }

TaskIndex Rings::FirstReader(std::size_t chain) const {
  return *links_[chains_[chain].first_link].reader;
}

void Rings::Arrive(std::size_t index, std::uint32_t count, Time now) {
  Chain& chain = chains_[index];
  PacketQueue& ring = links_[chain.first_link].queue;
  std::uint32_t accepted = 0;
  if (chain.sizes_matter) {
    for (std::uint32_t i = 0; i < count; ++i)
      accepted += ring.Push({now, chain.sizes.Draw(chain.random), 1});
  } else {
    accepted = ring.Push({now, 0, count});
  }
  chain.counts.offered += count;
  chain.counts.dropped_ingress_full += count - accepted;
}

void Rings::FillFirst(Time now) {
  for (std::size_t i = 0; i < chains_.size(); ++i) {
    const PacketQueue& ring = links_[chains_[i].first_link].queue;
    if (chains_[i].saturating) Arrive(i, ring.capacity() - ring.size(), now);
  }
}

bool Rings::HasRoom(std::size_t index, std::uint32_t packets) const {
  const PacketQueue& ring = links_[chains_[index].first_link].queue;
  return chains_[index].saturating && ring.capacity() - ring.size() >= packets;
}

bool Rings::SinkHasPackets() const {
  return std::ranges::any_of(chains_,
                             [this](const Chain& chain) { return NumPkts(chain.last_link) > 0; });
}

std::uint32_t Rings::Deliver(std::size_t index, std::uint32_t most, Time now) {
  Chain& chain = chains_[index];
  delivered_.clear();
  const std::uint32_t count = links_[chain.last_link].queue.Take(most, delivered_);
  for (const PacketRun& run : delivered_) RecordDelivery(chain, run, now);
  return count;
}

void Rings::RecordDelivery(Chain& chain, const PacketRun& run, Time now) {
  chain.counts.delivered += run.count;
  chain.counts.latency.Record(static_cast<std::uint64_t>((now - run.arrived) / kNanosecond),
                              run.count);
}

std::uint32_t Rings::Take(PathIndex path, std::vector<PacketRun>& burst, Time now) {
  const LinkIndex in = paths_[path].in;
  const std::size_t index = hops_[path].chain;
  const std::uint32_t count = links_[in].queue.Take(kBatch, burst);
  links_[in].received = static_cast<std::uint16_t>(links_[in].received + count);
  chains_[index].in_hand += count;
  const bool first = in == chains_[index].first_link;
  if (first && chains_[index].saturating && !platform_takes_time_) Arrive(index, count, now);
  return count;
}

Time Rings::WorkOn(PathIndex path, const std::vector<PacketRun>& burst, Time now) const {
  const Hop& hop = hops_[path];
  Time work = 0;
  for (const PacketRun& run : burst) work += run.count * hop.cost[run.size];
  if (hop.cost_factor == 1 || now < hop.cost_changes_at) return work;
  return std::llround(static_cast<double>(work) * hop.cost_factor);
}

std::optional<TaskIndex> Rings::Put(PathIndex path, const std::vector<PacketRun>& burst, Time now) {
  Hop& hop = hops_[path];
  Chain& chain = chains_[hop.chain];
  FunctionResult& counts = functions_[hop.function];
  Link& egress = links_[paths_[path].out];
  for (PacketRun run : burst) {
    chain.in_hand -= run.count;
    counts.processed += run.count;
    const std::uint32_t passed = Filter(hop, run.count);
    counts.dropped_by_function += run.count - passed;
    chain.counts.dropped_by_function += run.count - passed;
    run.count = passed;
    if (egress.reader || platform_takes_time_) {
      const std::uint32_t lost = passed - egress.queue.Push(run);
      counts.dropped_egress_full += lost;
      chain.counts.dropped_egress_full += lost;
    } else {
      RecordDelivery(chain, run, now);
    }
  }
  return egress.queue.size() > 0 ? egress.reader : std::nullopt;
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
  for (LinkIndex link = chain.first_link; link <= chain.last_link; ++link) sum += NumPkts(link);
  return sum;
}

void Rings::BeginMeasuring() {
  for (Chain& chain : chains_) {
    chain.counts = {};
    chain.counts.offered = InFlight(chain);
  }
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
    if (accounted != counts.offered) throw std::logic_error("the simulator lost count of packets");
    results.push_back(std::move(counts));
  }
  return results;
}

}  // namespace unis::sim
