#include "engine/run/stats.h"

#include <algorithm>
#include <string>

#include "engine/contract/to_proto.h"
#include "engine/platform/payload_stamp.h"
#include "engine/run/account.h"
#include "engine/run/convert.h"
#include "engine/run/services.h"

namespace unis {
namespace {

// Of several links of one side the fullest.
LinkIndex Fullest(const Deployment& deployment, const std::vector<Topology::End>& ends) {
  const auto share = [&deployment](const Topology::End& end) {
    return static_cast<double>(deployment.monitor().NumPkts(end.link)) /
           std::max(1U, deployment.monitor().PktCap(end.link));
  };
  return std::ranges::max_element(ends, {}, share)->link;
}

void FillLink(const Deployment& deployment, LinkIndex link, v1::LinkStats& stats) {
  const auto& config = deployment.topology().link_of(link).config;
  stats.set_name(config.name());
  stats.set_kind(config.kind());
  if (deployment.monitor().HasOccupancy(link))
    stats.set_packets(deployment.monitor().NumPkts(link));
  stats.set_capacity(deployment.monitor().PktCap(link));
}

// What came to the edge and what of it was dropped. A link that the edge has for itself tells; else
// the split does that carries the packets to it.
std::pair<std::uint64_t, std::uint64_t> CountEdge(const Deployment& deployment, const Chain& chain,
                                                  const Topology::Edge& edge) {
  if (edge.first_shared) {
    const Carried& carried = deployment.carried(edge.first, edge.last);
    const std::uint64_t dropped = carried.dropped.value();
    return {carried.packets.value() + dropped, dropped};
  }
  const auto function = deployment.topology().FindFunction(edge.config.from());
  if (!function) {
    const std::uint64_t dropped = chain.dropped_ingress_full.value() + chain.dropped_down.value();
    return {chain.offered.value(), dropped};
  }
  const PathCounts counts =
      CountPath(deployment, {.chain = 0,
                             .function = *function,
                             .in = {},
                             .out = {{.port = edge.config.out_port(), .link = edge.first}}});
  std::uint64_t dropped = counts.refused;
  if (edge.first != edge.last) dropped += deployment.carried(edge.first, edge.last).dropped.value();
  return {counts.tx + counts.refused, dropped};
}

void FillEdges(const Deployment& deployment, std::size_t chain, v1::ChainStats& stats) {
  for (const auto& edge : deployment.topology().chains[chain].edges) {
    auto& out = *stats.add_edges();
    out.set_from(edge.config.from());
    out.set_to(edge.config.to());
    out.set_port(edge.config.out_port());
    auto [offered, dropped] = CountEdge(deployment, *deployment.chains()[chain], edge);
    // The engine receives on a link between functions only what waits for one that is dead.
    if (!edge.config.to().empty() && !edge.last_shared &&
        deployment.topology().link_of(edge.last).kind->in_group())
      dropped += deployment.link(edge.last).end()->received.value();
    std::uint64_t waiting = edge.first_shared ? 0 : deployment.monitor().NumPkts(edge.first);
    if (edge.first != edge.last && !edge.last_shared)
      waiting += deployment.monitor().NumPkts(edge.last);
    out.set_offered(offered);
    out.set_dropped(dropped);
    out.set_waiting(std::min(waiting, offered - dropped));
    out.set_taken(offered - dropped - out.waiting());
  }
}

void FillChains(const RunView& run, bool latency, v1::Stats& stats) {
  const Deployment& deployment = run.deployment;
  deployment.CountWires();
  std::vector<LatencyHistogram> histograms;
  if (latency) histograms = deployment.Latencies();
  for (std::size_t i = 0; i < deployment.chains().size(); ++i) {
    const Chain& chain = *deployment.chains()[i];
    auto& out = *stats.add_chains();
    out.set_name(chain.name());
    const Topology& topology = deployment.topology();
    for (const std::size_t index : topology.chains[i].paths) {
      const Topology::Path& path = topology.paths[index];
      const std::string& name = topology.functions[path.function].config.name();
      out.add_functions(name);
      const bool missed = run.decision && !path.copies && run.threads.Living(name).empty();
      if (missed && !chain.up && out.down().empty()) out.set_down(name);
    }
    FillEdges(deployment, i, out);
    out.set_offered(chain.offered.value());
    out.set_delivered(chain.delivered.value());
    out.set_delivered_bytes(chain.delivered_bytes.value());
    out.set_dropped_ingress_full(chain.dropped_ingress_full.value());
    out.set_dropped_down(chain.Down());
    if (latency) *out.mutable_latency() = ToProto(histograms[i]);
  }
}

void FillPaths(const Deployment& deployment, const Topology::Function& function,
               v1::FunctionStats& stats) {
  for (const std::size_t index : function.paths) {
    const auto& path = deployment.topology().paths[index];
    auto& out = *stats.add_paths();
    out.set_chain(deployment.topology().chains[path.chain].config.name());
    FillLink(deployment, Fullest(deployment, path.in), *out.mutable_ingress());
    FillLink(deployment, Fullest(deployment, path.out), *out.mutable_egress());
    const PathCounts counts = CountPath(deployment, path);
    out.set_rx_packets(counts.rx);
    out.set_tx_packets(counts.tx);
    out.set_dropped_egress_full(counts.refused);
    out.set_taken(counts.taken());
    out.set_counted(counts.counted);
    out.set_received_known(counts.received_known);
    out.set_sent_known(counts.sent_known);
  }
}

v1::FunctionState WithoutThread(ThreadRegistry::Presence presence) {
  if (presence == ThreadRegistry::Presence::kNotPolling) return v1::FUNCTION_STATE_NOT_POLLING;
  if (presence == ThreadRegistry::Presence::kEnded) return v1::FUNCTION_STATE_EXITED;
  return v1::FUNCTION_STATE_STARTING;
}

void FillThreads(const ThreadRegistry& registry, const std::string& function, bool engine_decides,
                 v1::FunctionStats& stats) {
  const std::vector<HeldThread*> threads = registry.threads(function);
  if (threads.empty()) {
    stats.set_pid(registry.ProcessOf(function));
    stats.set_state(WithoutThread(registry.PresenceOf(function)));
    return;
  }
  // Of several one may have ended before the others.
  const auto lives = std::ranges::find_if(threads, [](const auto* each) { return each->alive(); });
  const HeldThread* const thread = lives == threads.end() ? threads.front() : *lives;
  stats.set_pid(thread->pid());
  stats.set_tid(thread->tid());
  stats.set_scheduling(thread->DescribeClass());
  stats.set_threads(static_cast<std::uint32_t>(
      std::ranges::count_if(threads, [](const auto* each) { return each->alive(); })));
  for (const HeldThread* each : threads) {
    stats.set_cpu_time_ns(stats.cpu_time_ns() + each->Times().ran_ns);
    const ContextSwitches switches = each->SwitchesByKernel();
    stats.set_voluntary_switches(stats.voluntary_switches() + switches.voluntary);
    stats.set_involuntary_switches(stats.involuntary_switches() + switches.involuntary);
  }
  if (!thread->alive()) {
    stats.set_state(WithoutThread(registry.PresenceOf(function)));
  } else if (thread->stopped()) {
    stats.set_state(v1::FUNCTION_STATE_STOPPED);
  } else {
    stats.set_state(engine_decides ? v1::FUNCTION_STATE_WAITING : v1::FUNCTION_STATE_KERNEL);
  }
}

void FillFunctions(const RunView& run, bool engine_decides, v1::Stats& stats) {
  const Topology& topology = run.deployment.topology();
  for (std::size_t i = 0; i < topology.functions.size(); ++i) {
    const auto& function = topology.functions[i];
    auto& out = *stats.add_functions();
    out.set_name(function.config.name());
    out.set_cpu(function.config.cpu());
    const FunctionCost& cost = *run.costs.at(function.config.name());
    out.set_cost_ns(cost.Ns());
    out.set_cost_source(static_cast<v1::CostSource>(cost.Source()));
    FillThreads(run.threads, function.config.name(), engine_decides, out);
    for (std::size_t port = 0; port < function.ports.size(); ++port) {
      if (const PortShm* shm = run.deployment.port(i, port); shm != nullptr)
        out.set_polls(out.polls() + shm->Polls());
    }
    FillPaths(run.deployment, function, out);
    *out.mutable_time() = run.times.Of(out.name());
  }
}

void FillCores(const RunView& run, v1::Stats& stats) {
  stats.set_decisions(run.counts.Sum(&CoreStatistics::decisions));
  for (const auto& [cpu, core] : run.counts.cores) {
    // Cores differ where only some can hand over: CONTROLLER_HANDOVER is the largest number.
    stats.set_controller(std::max(stats.controller(), core.controller));
    auto& out = *stats.add_cores();
    out.set_cpu(cpu);
    const CoreStatistics& seen = core.statistics;
    out.set_switches(seen.switches);
    for (std::size_t i = 0; i < kSwitchReasons; ++i) {
      if (seen.reasons[i] == 0) continue;
      auto& count = *out.add_reasons();
      count.set_reason(ToProto(static_cast<SwitchReason>(i)));
      count.set_switches(seen.reasons[i]);
    }
    out.set_failed_switches(seen.failed_switches);
    out.set_rests(seen.parks);
    out.set_wakes(seen.wakes);
    out.set_wake_delay_ns(static_cast<std::uint64_t>(seen.wake_delay));
    out.set_order_seen(seen.yields_seen);
    out.set_out_of_order(seen.yields_out_of_order);
    out.set_order_repairs(seen.order_repairs);
    out.set_resting(seen.parked);
    out.set_quota(seen.budget);
    out.set_switch_ns(static_cast<std::uint64_t>(seen.switch_ns));
    out.set_cannot_rest(core.cannot_park.value_or(""));
    out.set_sends_by_timer(core.sends_by_timer.value_or(""));
    out.set_current(core.current.value_or(""));
  }
  for (auto& function : *stats.mutable_functions()) {
    const auto count = run.counts.switched_in.find(function.name());
    if (count != run.counts.switched_in.end()) function.set_switched_in(count->second);
    const bool current = std::ranges::any_of(
        run.counts.cores, [&](const auto& core) { return core.second.current == function.name(); });
    if (function.state() == v1::FUNCTION_STATE_STOPPED && run.counts.StopsBySignals(function.cpu()))
      function.set_state(v1::FUNCTION_STATE_WAITING);
    if (function.state() != v1::FUNCTION_STATE_WAITING) continue;
    const auto core = run.counts.cores.find(function.cpu());
    if (core != run.counts.cores.end() && core->second.statistics.parked)
      function.set_state(v1::FUNCTION_STATE_RESTING);
    else if (current)
      function.set_state(v1::FUNCTION_STATE_RUNNING);
  }
}

void FillComponents(const RunView& run, v1::Stats& stats) {
  std::vector<const Component*> components = run.deployment.components();
  for (const auto& scheduler : run.schedulers) components.push_back(scheduler.get());
  for (const Component* component : components) {
    auto& out = *stats.add_components();
    out.set_name(component->name().substr(component->name().find('_') + 1));
    out.set_cpu(CpuOfLcore(component->lcore()));
    out.set_handled(component->handled());
    out.set_busy_ns(static_cast<std::uint64_t>(run.timer.clock().ToNs(component->busy_cycles())));
  }
}

void FillDevices(const Deployment& deployment, v1::Stats& stats) {
  const v1::TrafficConfig& traffic = deployment.config().traffic();
  const auto add = [&stats](const std::string& device, const EthPort& port) {
    auto& out = *stats.add_devices();
    out.set_device(device);
    out.set_rx_descriptors(port.queues().rx);
    out.set_tx_descriptors(port.queues().tx);
  };
  const EthPort* const source = deployment.source_port();
  const EthPort* const sink = deployment.sink_port();
  if (source != nullptr) add(traffic.port().device(), *source);
  if (sink != nullptr && sink != source) add(traffic.sink_device(), *sink);
}

}  // namespace

void FillStats(const RunView& run, bool latency, v1::Stats& stats) {
  if (run.decision) stats.set_policy(run.decision->policy);
  FillChains(run, latency, stats);
  const auto traits = TraitsOf(stats.policy());
  FillFunctions(run, traits.ok() && traits->engine_decides(), stats);
  FillCores(run, stats);
  FillComponents(run, stats);
  FillDevices(run.deployment, stats);
  stats.set_engine_cpu_ns(OwnCpuTimeNs());
  stats.set_packet_mark(PayloadStamp::kMagic);
  if (!run.deployment.chains().empty()) *stats.mutable_account() = TakeAccount(run.deployment);
  if (run.deployment.foreign()) return;
  stats.set_mempool_size(run.deployment.memory().size());
  stats.set_mempool_in_use(run.deployment.InUse());
}

}  // namespace unis
