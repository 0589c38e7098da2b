#include "engine/simulator/machine.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>

namespace unis::sim {
namespace {

std::vector<std::uint32_t> DistinctCpus(const Scenario& scenario) {
  std::vector<std::uint32_t> cpus;
  for (const ChainSpec& chain : scenario.chains) {
    for (const NfSpec& nf : chain.nfs) cpus.push_back(nf.cpu);
  }
  std::sort(cpus.begin(), cpus.end());
  cpus.erase(std::unique(cpus.begin(), cpus.end()), cpus.end());
  return cpus;
}

bool CostDependsOnSize(const ChainSpec& chain) {
  return chain.arrivals.mix != SizeMix::kFixed &&
         std::any_of(chain.nfs.begin(), chain.nfs.end(),
                     [](const NfSpec& nf) { return !nf.cost_by_size.empty(); });
}

}  // namespace

Machine::Chain::Chain(const ChainSpec& spec, std::uint64_t seed)
    : saturating(spec.arrivals.kind == ArrivalKind::kSaturating),
      sizes_matter(CostDependsOnSize(spec)),
      sizes(spec.arrivals.mix, spec.arrivals.size),
      random(seed) {}

Machine::Machine(const Scenario& scenario)
    : poll_(FromNs(scenario.machine.poll_ns)),
      batch_(scenario.scheduler.batch),
      trace_(scenario.trace),
      platform_takes_time_(scenario.machine.platform_takes_time()),
      seed_(scenario.seed),
      cpus_(DistinctCpus(scenario)),
      cores_(cpus_.size()),
      agenda_(cpus_.size(), kNever) {
  for (const ChainSpec& spec : scenario.chains) AddChain(spec);
}

void Machine::AddChain(const ChainSpec& spec) {
  Chain chain(spec, Random(seed_ + chains_.size()).Next());
  chain.first_link = static_cast<LinkIndex>(links_.size());
  for (const NfSpec& nf_spec : spec.nfs) {
    const auto index = static_cast<NfIndex>(nfs_.size());
    const auto ingress = static_cast<LinkIndex>(links_.size());
    const auto cpu = std::lower_bound(cpus_.begin(), cpus_.end(), nf_spec.cpu);
    Nf nf{.chain = chains_.size(),
          .core = static_cast<CoreIndex>(cpu - cpus_.begin()),
          .ingress = ingress,
          .egress = ingress + 1,
          .cost = {},
          .pass_ratio = nf_spec.pass_ratio,
          .burst = {},
          .counts = {}};
    for (const std::uint32_t bytes : chain.sizes.bytes()) {
      nf.cost.push_back(FromNs(CostOf(nf_spec, bytes)));
    }
    nf.burst.reserve(batch_);
    scheduled_.push_back(
        {.core = nf.core,
         .ingress = nf.ingress,
         .egress = nf.egress,
         .cost_ns = nf_spec.scheduled_cost_ns.value_or(MeanCost(nf_spec, chain.sizes))});
    links_.push_back({PacketQueue(spec.ring_size), index});
    nfs_.push_back(std::move(nf));
    chain.nfs.push_back(index);
  }
  chain.last_link = static_cast<LinkIndex>(links_.size());
  links_.push_back({PacketQueue(spec.ring_size), std::nullopt});
  chains_.push_back(std::move(chain));
}

std::uint32_t Machine::NumPkts(LinkIndex link) const noexcept { return links_[link].queue.size(); }

std::uint32_t Machine::PktCap(LinkIndex link) const noexcept {
  return links_[link].queue.capacity();
}

void Machine::Start(NfIndex nf, Time now) {
  Resume(nfs_[nf].core, nf, now);
  Reschedule(nfs_[nf].core);
}

void Machine::HandOver(NfIndex to, Time stop, Time start) {
  const CoreIndex core = nfs_[to].core;
  auto& pending = cores_[core].hand_overs;
  if (!pending.empty()) stop = std::max(stop, pending.back().start);
  pending.push_back({.to = to, .stop = stop, .start = std::max(start, stop)});
  Reschedule(core);
}

// A burst that ends when its NF is to be stopped is finished first.
void Machine::OnCoreEvent(CoreIndex index, Time now) {
  Core& core = cores_[index];
  if (core.due == now) {
    EndPoll(index, now);
  } else if (!core.hand_overs.front().stopped) {
    Stop(index, now);
    core.hand_overs.front().stopped = true;
  } else {
    const NfIndex to = core.hand_overs.front().to;
    core.hand_overs.pop_front();
    ++switches_;
    ++nfs_[to].counts.switched_in;
    Resume(index, to, now);
  }
  Reschedule(index);
}

void Machine::Reschedule(CoreIndex index) {
  const Core& core = cores_[index];
  Time next = core.due;
  if (!core.hand_overs.empty()) {
    const PendingHandOver& first = core.hand_overs.front();
    next = std::min(next, first.stopped ? first.start : first.stop);
  }
  agenda_[index] = next;
}

void Machine::Resume(CoreIndex index, NfIndex next, Time now) {
  Core& core = cores_[index];
  core.running = next;
  core.run_begin = now;
  Nf& nf = nfs_[next];
  if (nf.in_hand == 0) {
    Poll(index, now);
    return;
  }
  core.activity = Activity::kWorking;
  core.since = now;
  core.due = now + nf.work_left;
}

void Machine::Stop(CoreIndex index, Time now) {
  Core& core = cores_[index];
  Account(core, now);
  if (core.activity == Activity::kWorking) nfs_[*core.running].work_left = core.due - now;
  EndRun(index, now);
  core.running.reset();
  core.activity = Activity::kNone;
  core.due = kNever;
}

void Machine::Poll(CoreIndex index, Time now) {
  Core& core = cores_[index];
  Nf& nf = nfs_[*core.running];
  core.since = now;
  nf.in_hand = links_[nf.ingress].queue.Take(batch_, nf.burst);
  if (nf.in_hand == 0) {
    core.activity = Activity::kSpinning;
    core.spin_begin = now;
    core.due = observer_->WantsEmptyPolls(index, *core.running) ? now + poll_ : kNever;
    return;
  }
  Time work = 0;
  for (const PacketRun& run : nf.burst) work += run.count * nf.cost[run.size];
  core.activity = Activity::kWorking;
  core.due = now + work;
  const Chain& chain = chains_[nf.chain];
  if (chain.saturating && !platform_takes_time_ && nf.ingress == chain.first_link)
    Arrive(nf.chain, nf.in_hand, now);
}

void Machine::EndPoll(CoreIndex index, Time now) {
  Core& core = cores_[index];
  const NfIndex running = *core.running;
  Nf& nf = nfs_[running];
  Account(core, now);
  const bool worked = core.activity == Activity::kWorking;
  if (worked) {
    core.run_packets += nf.in_hand;
    FinishBurst(nf, now);
  }
  core.activity = Activity::kNone;
  core.due = kNever;
  if (worked || observer_->WantsEmptyPolls(index, running)) {
    observer_->OnPollEnd(index, running, !worked, now);
  }
  if (core.hand_overs.empty() || core.hand_overs.front().stop > now) Poll(index, now);
}

void Machine::FinishBurst(Nf& nf, Time now) {
  Chain& chain = chains_[nf.chain];
  Link& egress = links_[nf.egress];
  for (PacketRun run : nf.burst) {
    nf.counts.processed += run.count;
    const std::uint32_t passed = Filter(nf, run.count);
    nf.counts.dropped_by_function += run.count - passed;
    run.count = passed;
    if (egress.reader || platform_takes_time_) {
      nf.counts.dropped_egress_full += passed - egress.queue.Push(run);
    } else {
      RecordDelivery(chain, run, now);
    }
  }
  nf.burst.clear();
  nf.in_hand = 0;
  nf.work_left = 0;
  WakeReader(nf.egress, now);
}

std::uint32_t Machine::Filter(Nf& nf, std::uint32_t count) {
  if (nf.pass_ratio >= 1) return count;
  nf.pass_credit += nf.pass_ratio * count;
  const auto passed = std::min(count, static_cast<std::uint32_t>(nf.pass_credit));
  nf.pass_credit -= passed;
  return passed;
}

// The reader finds the packets with its first poll that begins now or later.
void Machine::WakeReader(LinkIndex link, Time now) {
  if (!links_[link].reader || links_[link].queue.size() == 0) return;
  const NfIndex reader = *links_[link].reader;
  const CoreIndex index = nfs_[reader].core;
  Core& core = cores_[index];
  if (core.running != reader || core.activity != Activity::kSpinning || core.due != kNever) return;
  const Time polls = std::max<Time>(1, (now - core.spin_begin + poll_ - 1) / poll_);
  core.due = core.spin_begin + polls * poll_;
  Reschedule(index);
}

void Machine::Arrive(std::size_t index, std::uint32_t count, Time now) {
  Chain& chain = chains_[index];
  PacketQueue& ring = links_[chain.first_link].queue;
  std::uint32_t accepted = 0;
  if (chain.sizes_matter) {
    for (std::uint32_t i = 0; i < count; ++i) {
      accepted += ring.Push({now, chain.sizes.Draw(chain.random), 1});
    }
  } else {
    accepted = ring.Push({now, 0, count});
  }
  chain.counts.offered += count;
  chain.counts.dropped_ingress_full += count - accepted;
  WakeReader(chain.first_link, now);
}

void Machine::FillFirstRings(Time now) {
  for (std::size_t i = 0; i < chains_.size(); ++i) {
    if (!chains_[i].saturating) continue;
    const PacketQueue& ring = links_[chains_[i].first_link].queue;
    Arrive(i, ring.capacity() - ring.size(), now);
  }
}

bool Machine::HasRoom(std::size_t index, std::uint32_t packets) const {
  const Chain& chain = chains_[index];
  const PacketQueue& ring = links_[chain.first_link].queue;
  return chain.saturating && ring.capacity() - ring.size() >= packets;
}

bool Machine::SourceHasRoom(std::uint32_t packets) const {
  for (std::size_t i = 0; i < chains_.size(); ++i) {
    if (HasRoom(i, packets)) return true;
  }
  return false;
}

bool Machine::SinkHasPackets() const {
  return std::ranges::any_of(chains_,
                             [this](const Chain& chain) { return NumPkts(chain.last_link) > 0; });
}

std::uint32_t Machine::Deliver(std::size_t index, std::uint32_t most, Time now) {
  Chain& chain = chains_[index];
  delivered_.clear();
  const std::uint32_t count = links_[chain.last_link].queue.Take(most, delivered_);
  for (const PacketRun& run : delivered_) RecordDelivery(chain, run, now);
  return count;
}

void Machine::RecordDelivery(Chain& chain, const PacketRun& run, Time now) {
  chain.counts.delivered += run.count;
  chain.counts.latency.Record(static_cast<std::uint64_t>((now - run.arrived) / kNanosecond),
                              run.count);
}

void Machine::Account(Core& core, Time now) {
  if (core.activity == Activity::kWorking) nfs_[*core.running].busy += now - core.since;
  if (core.activity == Activity::kSpinning) nfs_[*core.running].spinning += now - core.since;
  core.since = now;
}

void Machine::EndRun(CoreIndex index, Time now) {
  Core& core = cores_[index];
  if (trace_ && core.running && now > core.run_begin) {
    const Nanoseconds begin = core.run_begin / kNanosecond;
    const Nanoseconds end = now / kNanosecond;
    if (core.last_run && runs_[*core.last_run].nf == *core.running &&
        runs_[*core.last_run].end == begin) {
      runs_[*core.last_run].end = end;
      runs_[*core.last_run].packets += core.run_packets;
    } else {
      core.last_run = runs_.size();
      runs_.push_back({index, *core.running, begin, end, core.run_packets});
    }
  }
  core.run_packets = 0;
}

std::uint64_t Machine::InFlight(const Chain& chain) const {
  std::uint64_t sum = NumPkts(chain.last_link);
  for (const NfIndex nf : chain.nfs) sum += nfs_[nf].in_hand + NumPkts(nfs_[nf].ingress);
  return sum;
}

void Machine::BeginMeasuring(Time now) {
  for (Core& core : cores_) {
    Account(core, now);
    core.run_begin = std::max(core.run_begin, now);
    core.run_packets = 0;
    core.last_run.reset();
  }
  for (Nf& nf : nfs_) {
    nf.busy = nf.spinning = 0;
    nf.counts = {};
  }
  for (Chain& chain : chains_) {
    chain.counts = {};
    chain.counts.offered = InFlight(chain);
  }
  runs_.clear();
  switches_ = 0;
}

void Machine::Collect(Time now, Result& result) {
  for (CoreIndex core = 0; core < cores_.size(); ++core) {
    Account(cores_[core], now);
    EndRun(core, now);
  }
  for (const Chain& chain : chains_) {
    ChainResult counts = chain.counts;
    counts.in_flight = InFlight(chain);
    std::uint64_t accounted = counts.delivered + counts.dropped_ingress_full + counts.in_flight;
    for (const NfIndex index : chain.nfs) {
      const Nf& nf = nfs_[index];
      accounted += nf.counts.dropped_egress_full + nf.counts.dropped_by_function;
      counts.nfs.push_back(nf.counts);
      counts.nfs.back().busy = nf.busy / kNanosecond;
      counts.nfs.back().spinning = nf.spinning / kNanosecond;
    }
    if (accounted != counts.offered) throw std::logic_error("the simulator lost count of packets");
    result.chains.push_back(std::move(counts));
  }
  result.cpus = cpus_;
  result.switches = switches_;
  result.runs = runs_;
}

}  // namespace unis::sim
