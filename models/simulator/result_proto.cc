#include <string>

#include "engine/contract/to_proto.h"
#include "models/simulator/scenario_proto.h"

namespace unis::sim {
namespace {

void WriteFunction(const FunctionSpec& spec, const FunctionResult& counts,
                   v1::SimFunctionResult& proto) {
  proto.set_name(spec.name);
  proto.set_processed(counts.processed);
  proto.set_dropped_egress_full(counts.dropped_egress_full);
  proto.set_dropped_by_function(counts.dropped_by_function);
  proto.set_busy_ns(static_cast<std::uint64_t>(counts.busy));
  proto.set_spinning_ns(static_cast<std::uint64_t>(counts.spinning));
  proto.set_switched_in(counts.switched_in);
}

void WriteEdges(const Scenario& scenario, const ChainSpec& spec, const ChainResult& counts,
                v1::SimChainResult& proto) {
  for (std::size_t i = 0; i < spec.edges.size(); ++i) {
    const EdgeSpec& edge = spec.edges[i];
    const EdgeResult& of = counts.edges[i];
    v1::SimEdgeResult& out = *proto.add_edges();
    out.set_from(edge.from ? scenario.functions[*edge.from].name : "ingress");
    out.set_to(edge.to ? scenario.functions[*edge.to].name : "egress");
    out.set_port(edge.port);
    out.set_offered(of.offered);
    out.set_taken(of.taken);
    out.set_dropped(of.dropped);
    out.set_waiting(of.waiting);
  }
}

void WriteChain(const ChainSpec& spec, const ChainResult& counts, v1::SimChainResult& proto) {
  proto.set_name(spec.name);
  proto.set_offered(counts.offered);
  proto.set_delivered(counts.delivered);
  proto.set_dropped_ingress_full(counts.dropped_ingress_full);
  proto.set_dropped_egress_full(counts.dropped_egress_full);
  proto.set_dropped_by_function(counts.dropped_by_function);
  proto.set_in_flight(counts.in_flight);
  proto.set_copied(counts.copied);
  *proto.mutable_latency() = ToProto(counts.latency);
}

}  // namespace

v1::SimResult ResultToProto(const Scenario& scenario, const Result& result) {
  v1::SimResult proto;
  proto.set_policy(static_cast<v1::Policy>(scenario.policy));
  proto.set_duration_ns(static_cast<std::uint64_t>(scenario.duration));
  proto.set_switches(result.switches);
  proto.set_failed_switches(result.failed_switches);
  proto.set_ticks(result.ticks);
  for (std::size_t i = 0; i < scenario.chains.size(); ++i) {
    v1::SimChainResult& chain = *proto.add_chains();
    WriteChain(scenario.chains[i], result.chains[i], chain);
    WriteEdges(scenario, scenario.chains[i], result.chains[i], chain);
  }
  for (FunctionIndex i = 0; i < scenario.functions.size(); ++i)
    WriteFunction(scenario.functions[i], result.functions[i], *proto.add_functions());
  for (const SwitchRecord& event : result.events)
    *proto.add_events() =
        ToProto(event, result.cpus[event.core], scenario.functions[event.from].name,
                scenario.functions[event.to].name);
  for (const RunInterval& run : result.runs) {
    v1::RunInterval& interval = *proto.add_runs();
    interval.set_cpu(result.cpus[run.core]);
    interval.set_function(scenario.functions[run.function].name);
    interval.set_begin_ns(static_cast<std::uint64_t>(run.begin));
    interval.set_end_ns(static_cast<std::uint64_t>(run.end));
    interval.set_packets(run.packets);
  }
  return proto;
}

}  // namespace unis::sim
