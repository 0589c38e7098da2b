// Engine::GetStats: one snapshot of everything that `unis ps` and `unis top` show.
#include <fmt/format.h>
#include <rte_lcore.h>

#include <algorithm>

#include "engine/server/convert.h"
#include "engine/server/engine.h"
#include "engine/server/proc.h"

namespace unis {
namespace {

// Shares over less time than this say nothing, so that of the call before is repeated.
constexpr Nanoseconds kShortest = 50'000'000;

// The CPU that an lcore of unisd is pinned to.
std::uint32_t CpuOf(unsigned lcore) {
  const rte_cpuset_t cpus = rte_lcore_cpuset(lcore);
  std::uint32_t cpu = 0;
  while (cpu < CPU_SETSIZE && !CPU_ISSET(cpu, &cpus)) ++cpu;
  return cpu;
}

}  // namespace

std::vector<std::uint64_t> Engine::CpuTimes() const {
  std::vector<std::uint64_t> times;
  for (const auto& attached : attached_) {
    times.push_back(attached ? CpuTimeNs(attached->thread.pid, attached->thread.tid) : 0);
  }
  return times;
}

absl::StatusOr<v1::Stats> Engine::GetStats(bool reset_latency) {
  const std::lock_guard lock(mutex_);
  if (auto status = RequireDeployed(); !status.ok()) return status;
  v1::Stats stats;
  stats.set_time_ns(static_cast<std::uint64_t>(timer_.Now()));
  stats.set_policy(policy_.value_or(v1::POLICY_UNSPECIFIED));
  deployment_->sink().Do([&] {
    for (const auto& chain : deployment_->chains()) {
      auto* out = stats.add_chains();
      out->set_name(chain->name());
      out->set_offered(chain->offered.value());
      out->set_delivered(chain->delivered.value());
      out->set_delivered_bytes(chain->delivered_bytes.value());
      out->set_dropped_ingress_full(chain->dropped_ingress_full.value());
      *out->mutable_latency() = ToProto(chain->latency);
      if (reset_latency) chain->latency.Reset();
    }
  });
  for (std::size_t i = 0; i < deployment_->nfs().size(); ++i) FillNf(i, *stats.add_nfs());
  FillCores(stats);
  for (const Component* component : {static_cast<const Component*>(&deployment_->source()),
                                     static_cast<const Component*>(&deployment_->sink()),
                                     static_cast<const Component*>(scheduling_.get())}) {
    auto* out = stats.add_components();
    out->set_name(component->name().substr(component->name().find('_') + 1));
    out->set_cpu(CpuOf(component->lcore()));
    out->set_handled(component->handled());
    out->set_busy_ns(static_cast<std::uint64_t>(timer_.clock().ToNs(component->busy_cycles())));
  }
  *stats.mutable_account() = TakeAccount(false);
  stats.set_mempool_size(deployment_->memory().size());
  stats.set_mempool_in_use(deployment_->memory().InUse());
  stats.set_lead_ns(static_cast<std::uint64_t>(settings_.lead));
  if (switch_cost_) {
    stats.set_switch_ns(static_cast<std::uint64_t>(switch_cost_->until_running_ns));
    stats.set_preempt_ns(static_cast<std::uint64_t>(switch_cost_->until_preempted_ns));
  }
  return stats;
}

void Engine::FillNf(std::size_t index, v1::NfStats& stats) {
  const auto& nf = deployment_->nfs()[index];
  const PortCounters counters = nf.port().Read();
  stats.set_name(nf.name);
  stats.set_chain(nf.chain->name());
  stats.set_cpu(nf.cpu);
  stats.set_cost_ns(nf.cost_ns);
  stats.set_rx_packets(counters.rx_packets);
  stats.set_tx_packets(counters.tx_packets);
  stats.set_dropped_egress_full(counters.tx_refused);
  const std::uint64_t done = counters.tx_packets + counters.tx_refused;
  stats.set_dropped_by_function(counters.rx_packets > done ? counters.rx_packets - done : 0);
  stats.set_polls(counters.polls);
  stats.set_ingress_packets(monitor_->NumPkts(nf.ingress));
  stats.set_ingress_capacity(monitor_->PktCap(nf.ingress));
  stats.set_egress_packets(monitor_->NumPkts(nf.ingress + 1));
  stats.set_egress_capacity(monitor_->PktCap(nf.ingress + 1));
  if (!attached_[index]) {
    stats.set_state("starting");
    return;
  }
  const NfThread& thread = attached_[index]->thread;
  stats.set_pid(thread.pid);
  stats.set_tid(thread.tid);
  stats.set_state(ProcessRuns(thread.pid) ? "waiting" : "exited");
  stats.set_scheduling(DescribeScheduling(thread.tid));
  stats.set_cpu_time_ns(CpuTimeNs(thread.pid, thread.tid));
  const ContextSwitches switches = ContextSwitchesOf(thread.pid, thread.tid);
  stats.set_voluntary_switches(switches.voluntary);
  stats.set_involuntary_switches(switches.involuntary);
}

// Busy is what the packets of an NF cost, spinning the rest of its time on the CPU.
void Engine::FillCores(v1::Stats& stats) {
  struct Decided {
    std::vector<NfIndex> current;
    std::vector<std::uint64_t> switches;
  } decided;
  scheduling_->Do([&] {
    Scheduler* scheduler = scheduling_->scheduler();
    if (scheduler == nullptr) return;
    stats.set_ticks(scheduler->Decisions());
    for (CoreIndex core = 0; core < deployment_->cpus().size(); ++core) {
      decided.current.push_back(scheduler->Current(core));
      decided.switches.push_back(scheduler->Switches(core));
    }
    for (NfIndex nf = 0; nf < deployment_->nfs().size(); ++nf) {
      stats.mutable_nfs(static_cast<int>(nf))->set_switched_in(scheduler->SwitchedIn(nf));
    }
  });
  Progress now{.time = static_cast<Nanoseconds>(stats.time_ns()), .nfs = {}};
  for (const auto& nf : stats.nfs())
    now.nfs.push_back({.cpu_ns = nf.cpu_time_ns(), .rx_packets = nf.rx_packets()});
  if (shares_.cores().empty() || now.time - last_.time >= kShortest) {
    const auto elapsed = static_cast<double>(now.time - last_.time);
    shares_.clear_cores();
    for (const unsigned cpu : deployment_->cpus()) shares_.add_cores()->set_cpu(cpu);
    for (std::size_t i = 0; i < last_.nfs.size(); ++i) {
      auto& core = *shares_.mutable_cores(static_cast<int>(deployment_->nfs()[i].core));
      const auto cpu = static_cast<double>(now.nfs[i].cpu_ns - last_.nfs[i].cpu_ns);
      const double work = static_cast<double>(now.nfs[i].rx_packets - last_.nfs[i].rx_packets) *
                          deployment_->nfs()[i].cost_ns;
      core.set_busy(core.busy() + std::min(work, cpu) / elapsed);
      core.set_spinning(core.spinning() + (cpu - std::min(work, cpu)) / elapsed);
    }
    for (auto& core : *shares_.mutable_cores())
      core.set_idle(std::max(0.0, 1 - core.busy() - core.spinning()));
    last_ = std::move(now);
  }
  *stats.mutable_cores() = shares_.cores();
  for (std::size_t core = 0; core < decided.current.size(); ++core) {
    auto& out = *stats.mutable_cores(static_cast<int>(core));
    auto& nf = *stats.mutable_nfs(static_cast<int>(decided.current[core]));
    out.set_current(nf.name());
    out.set_switches(decided.switches[core]);
    nf.set_state("running");
  }
}

}  // namespace unis
