#include "engine/run/measurement.h"

#include <algorithm>
#include <utility>

#include "engine/contract/to_proto.h"
#include "engine/run/account.h"
#include "engine/run/services.h"

namespace unis {
namespace {

// Counters only grow; those that are read one after the other may seem not to.
std::uint64_t Grown(std::uint64_t begin, std::uint64_t end) {
  return end > begin ? end - begin : 0;
}

// Of what was there at both moments.
template <typename Counters, typename Map>
void FillGrown(const Counters& begin, const Counters& end, Map& grown) {
  for (const auto& [name, count] : end) {
    const auto before = begin.find(name);
    if (before != begin.end()) grown[name] = Grown(before->second, count);
  }
}

// Each chain that was there at both moments, and the latency of all that are.
void FillChains(const Snapshot& begin, const Snapshot& end, v1::MeasureReply& reply) {
  LatencyHistogram all;
  for (const auto& [name, now] : end.chains) {
    LatencyHistogram latency = now.latency;
    const auto before = begin.chains.find(name);
    if (before != begin.chains.end()) {
      latency.Subtract(before->second.latency);
      v1::ChainWindow& chain = *reply.add_chains();
      chain.set_name(name);
      chain.set_offered(Grown(before->second.offered, now.offered));
      chain.set_delivered(Grown(before->second.delivered, now.delivered));
      *chain.mutable_latency() = ToProto(latency);
    }
    all.Merge(latency);
  }
  *reply.mutable_latency() = ToProto(all);
}

// Of the functions' CPUs and of the platform's.
StolenNs StolenOf(const Deployment& deployment) {
  const StolenNs all = ReadStolen();
  StolenNs stolen;
  const auto add = [&](unsigned cpu) {
    if (const auto of = all.find(cpu); of != all.end()) stolen.insert(*of);
  };
  for (const unsigned cpu : deployment.topology().cpus) add(cpu);
  for (const Component* component : deployment.components()) add(CpuOfLcore(component->lcore()));
  return stolen;
}

}  // namespace

Snapshot TakeSnapshot(const Deployment& deployment, const ThreadRegistry& members,
                      const ScheduleCounts& counts, const TscTimer& timer) {
  Snapshot snapshot;
  snapshot.stolen = StolenOf(deployment);  // before the others: it takes longest
  const Topology& topology = deployment.topology();
  for (std::size_t i = 0; i < topology.functions.size(); ++i) {
    const std::string& name = topology.functions[i].config.name();
    snapshot.packets[name] = CountFunction(deployment, i).rx;
    for (const HeldThread* thread : members.threads(name)) {
      snapshot.cpu_ns[name] += thread->Times().ran_ns;
      const ContextSwitches switches = thread->SwitchesByKernel();
      snapshot.context_switches[name] += switches.voluntary + switches.involuntary;
    }
  }
  snapshot.turns = counts.switched_in;
  snapshot.switches = counts.Sum(&CoreStatistics::switches);
  std::vector<LatencyHistogram> latencies = deployment.Latencies();
  snapshot.account = TakeAccount(deployment);
  for (std::size_t i = 0; i < deployment.chains().size(); ++i) {
    const Chain& chain = *deployment.chains()[i];
    snapshot.chains.try_emplace(chain.name(), chain.offered.value(), chain.delivered.value(),
                                std::move(latencies[i]));
    snapshot.delivered_bytes += chain.delivered_bytes.value();
  }
  snapshot.engine_cpu_ns = OwnCpuTimeNs();
  snapshot.time = timer.Now();
  return snapshot;
}

v1::MeasureReply Difference(const Snapshot& begin, const Snapshot& end) {
  v1::MeasureReply reply;
  reply.set_window_ns(static_cast<std::uint64_t>(end.time - begin.time));
  reply.set_offered(Grown(begin.account.offered(), end.account.offered()));
  reply.set_delivered(Grown(begin.account.delivered(), end.account.delivered()));
  reply.set_delivered_bytes(Grown(begin.delivered_bytes, end.delivered_bytes));
  reply.set_dropped(Grown(DroppedOf(begin.account), DroppedOf(end.account)));
  reply.set_switches(Grown(begin.switches, end.switches));
  reply.set_engine_cpu_ns(Grown(begin.engine_cpu_ns, end.engine_cpu_ns));
  FillChains(begin, end, reply);
  FillGrown(begin.cpu_ns, end.cpu_ns, *reply.mutable_function_cpu_ns());
  FillGrown(begin.context_switches, end.context_switches,
            *reply.mutable_function_context_switches());
  FillGrown(begin.turns, end.turns, *reply.mutable_function_turns());
  FillGrown(begin.packets, end.packets, *reply.mutable_function_packets());
  FillGrown(begin.stolen, end.stolen, *reply.mutable_stolen_ns());
  return reply;
}

void FillTrace(const std::vector<CoreTrace>& cores, v1::TraceReply& reply) {
  for (const auto& [cpu, functions, trace] : cores) {
    for (const SwitchRecord& record : trace.switches)
      *reply.add_switches() = ToProto(record, cpu, functions[record.from], functions[record.to]);
    for (const RunSeen& run : trace.runs) {
      auto* interval = reply.add_runs();
      interval->set_cpu(cpu);
      interval->set_function(functions[run.task]);
      interval->set_begin_ns(static_cast<std::uint64_t>(run.begin));
      interval->set_end_ns(static_cast<std::uint64_t>(run.end));
      interval->set_packets(run.packets);
    }
    reply.set_dropped_events(reply.dropped_events() + trace.lost);
  }
  if (cores.size() < 2) return;
  std::sort(reply.mutable_switches()->begin(), reply.mutable_switches()->end(),
            [](const auto& a, const auto& b) { return a.time_ns() < b.time_ns(); });
  std::sort(reply.mutable_runs()->begin(), reply.mutable_runs()->end(),
            [](const auto& a, const auto& b) { return a.begin_ns() < b.begin_ns(); });
}

}  // namespace unis
