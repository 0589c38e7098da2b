#include "engine/simulator/scenario_proto.h"

#include <absl/status/status.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>
#include <set>
#include <sstream>
#include <string_view>
#include <utility>

#include "engine/simulator/traffic.h"
#include "engine/contract/to_proto.h"

namespace unis::sim {
namespace {

constexpr std::uint32_t kMaxCpu = 1023;
constexpr std::uint32_t kMaxRing = 1u << 20;
constexpr std::uint64_t kMaxTotalNs = 1'000'000'000'000;  // 1000 s
constexpr double kMinCostNs = 0.1;
constexpr double kMaxNs = 1e9;  // of one packet, poll or switch
constexpr double kMaxPps = 1e9;
constexpr std::uint32_t kMinSize = 64;
constexpr std::uint32_t kMaxSize = 9'216;
constexpr std::uint32_t kMaxBatch = 4'096;

// Keeps the first error; what is read after it is not used.
class Checker {
 public:
  template <typename Value>
  void Require(bool holds, const std::string& field, const Value& value, std::string_view rule) {
    if (holds || !status_.ok()) return;
    std::ostringstream text;
    text << field << " is " << value << ", but must be " << rule << ".";
    status_ = absl::InvalidArgumentError(text.str());
  }

  void Fail(const std::string& message) {
    if (status_.ok()) status_ = absl::InvalidArgumentError(message);
  }

  // Proto3 has no absent number: 0 stands for the default.
  double NsOr(double value, double fallback, const std::string& field) {
    Require(value >= 0 && value <= kMaxNs, field, value, "between 0 and 1e9 ns");
    return value == 0 ? fallback : value;
  }

  Nanoseconds SliceOr(std::uint64_t value, Nanoseconds fallback, const std::string& field) {
    Require(value <= kMaxTotalNs, field, value, "at most 1e12 ns (1000 s)");
    return value == 0 ? fallback : static_cast<Nanoseconds>(value);
  }

  void Name(const std::string& name, const std::string& field, std::set<std::string>& taken) {
    if (name.empty()) Fail(field + " is missing; give every chain and every NF a name.");
    if (!taken.insert(name).second) Fail(field + " \"" + name + "\" is taken; names are unique.");
  }

  const absl::Status& status() const { return status_; }

 private:
  absl::Status status_;
};

std::string Element(std::string field, int index) {
  field += '[';
  field += std::to_string(index);
  field += ']';
  return field;
}

bool IsCost(double ns) { return ns >= kMinCostNs && ns <= kMaxNs; }
constexpr std::string_view kCostRule = "between 0.1 and 1e9 ns per packet";

void ReadCostTable(const v1::SimNf& proto, const std::string& at, Checker& check, NfSpec& nf) {
  if (proto.size_size() != proto.size_cost_ns_size()) {
    check.Fail(at + " has " + std::to_string(proto.size_size()) + " entries in size and " +
               std::to_string(proto.size_cost_ns_size()) +
               " in size_cost_ns, but must have as many of the one as of the other.");
    return;
  }
  for (int i = 0; i < proto.size_size(); ++i) {
    const std::string size_at = Element(at + ".size", i);
    const std::uint32_t size = proto.size(i);
    check.Require(size <= kMaxSize, size_at, size, "at most 9216 bytes");
    check.Require(i == 0 || size > proto.size(i - 1), size_at, size,
                  "larger than the size before it");
    check.Require(IsCost(proto.size_cost_ns(i)), Element(at + ".size_cost_ns", i),
                  proto.size_cost_ns(i), kCostRule);
    nf.cost_by_size.emplace_back(size, proto.size_cost_ns(i));
  }
}

NfSpec ReadNf(const v1::SimNf& proto, const std::string& at, Checker& check) {
  NfSpec nf;
  nf.name = proto.name();
  nf.cpu = proto.cpu();
  nf.cost_ns = proto.cost_ns();
  nf.yield_every = proto.yield_every();
  nf.pass_ratio = proto.pass_ratio() == 0 ? 1 : proto.pass_ratio();
  if (proto.scheduled_cost_ns() != 0) nf.scheduled_cost_ns = proto.scheduled_cost_ns();
  check.Require(nf.cpu <= kMaxCpu, at + ".cpu", nf.cpu, "a CPU number up to 1023");
  ReadCostTable(proto, at, check, nf);
  if (nf.cost_by_size.empty()) {
    check.Require(IsCost(nf.cost_ns), at + ".cost_ns", nf.cost_ns, kCostRule);
  }
  check.Require(nf.pass_ratio > 0 && nf.pass_ratio <= 1, at + ".pass_ratio", nf.pass_ratio,
                "above 0 and at most 1");
  check.Require(!nf.scheduled_cost_ns || IsCost(*nf.scheduled_cost_ns), at + ".scheduled_cost_ns",
                nf.scheduled_cost_ns.value_or(0), kCostRule);
  return nf;
}

std::optional<SizeMix> MixOf(v1::SizeMix mix) {
  switch (mix) {
    case v1::SIZE_MIX_FIXED:
      return SizeMix::kFixed;
    case v1::SIZE_MIX_IMIX:
      return SizeMix::kImix;
    case v1::SIZE_MIX_DATACENTER:
      return SizeMix::kDatacenter;
    default:
      return std::nullopt;
  }
}

std::optional<ArrivalKind> KindOf(v1::ArrivalKind kind) {
  switch (kind) {
    case v1::ARRIVAL_SATURATING:
      return ArrivalKind::kSaturating;
    case v1::ARRIVAL_CONSTANT:
      return ArrivalKind::kConstant;
    case v1::ARRIVAL_POISSON:
      return ArrivalKind::kPoisson;
    case v1::ARRIVAL_ON_OFF:
      return ArrivalKind::kOnOff;
    default:
      return std::nullopt;
  }
}

ArrivalSpec ReadArrivals(const v1::SimArrivals& proto, const std::string& at, Checker& check) {
  ArrivalSpec arrivals;
  const auto kind = KindOf(proto.kind());
  const auto mix = MixOf(proto.mix());
  check.Require(kind.has_value(), at + ".kind", proto.kind(), "one of ArrivalKind");
  check.Require(mix.has_value(), at + ".mix", proto.mix(), "one of SizeMix");
  arrivals.kind = kind.value_or(arrivals.kind);
  arrivals.mix = mix.value_or(arrivals.mix);
  arrivals.pps = proto.pps();
  if (proto.size() != 0) arrivals.size = proto.size();
  if (proto.burst() != 0) arrivals.burst = proto.burst();
  check.Require(arrivals.size >= kMinSize && arrivals.size <= kMaxSize, at + ".size", arrivals.size,
                "between 64 and 9216 bytes");
  check.Require(arrivals.burst <= kMaxRing, at + ".burst", arrivals.burst, "at most 1048576");
  if (arrivals.kind != ArrivalKind::kSaturating) {
    check.Require(arrivals.pps > 0 && arrivals.pps <= kMaxPps, at + ".pps", arrivals.pps,
                  "above 0 and at most 1e9 packets a second");
  }
  if (arrivals.kind == ArrivalKind::kOnOff) {
    check.Require(proto.on_ns() > 0, at + ".on_ns", proto.on_ns(), "above 0");
    arrivals.on = check.SliceOr(proto.on_ns(), 1, at + ".on_ns");
    arrivals.off = check.SliceOr(proto.off_ns(), 0, at + ".off_ns");
  }
  return arrivals;
}

ChainSpec ReadChain(const v1::SimChain& proto, const std::string& at, Checker& check,
                    std::set<std::string>& nf_names) {
  ChainSpec chain;
  chain.name = proto.name();
  chain.ring_size = proto.ring_size();
  check.Require(
      std::has_single_bit(chain.ring_size) && chain.ring_size >= 2 && chain.ring_size <= kMaxRing,
      at + ".ring_size", chain.ring_size, "a power of two from 2 to 1048576, such as 2048");
  if (proto.nfs().empty()) check.Fail(at + ".nfs is empty; a chain has at least one NF.");
  for (int i = 0; i < proto.nfs_size(); ++i) {
    const std::string nf_at = Element(at + ".nfs", i);
    check.Name(proto.nfs(i).name(), nf_at + ".name", nf_names);
    chain.nfs.push_back(ReadNf(proto.nfs(i), nf_at, check));
  }
  chain.arrivals = ReadArrivals(proto.arrivals(), at + ".arrivals", check);
  return chain;
}

MachineSpec ReadMachine(const v1::SimMachine& proto, Checker& check) {
  MachineSpec machine;
  machine.switch_ns = check.NsOr(proto.switch_ns(), machine.switch_ns, "machine.switch_ns");
  machine.switch_call_ns =
      check.NsOr(proto.switch_call_ns(), machine.switch_call_ns, "machine.switch_call_ns");
  machine.yield_ns = check.NsOr(proto.yield_ns(), machine.yield_ns, "machine.yield_ns");
  machine.kernel_switch_ns =
      check.NsOr(proto.kernel_switch_ns(), machine.kernel_switch_ns, "machine.kernel_switch_ns");
  machine.poll_ns = check.NsOr(proto.poll_ns(), machine.poll_ns, "machine.poll_ns");
  check.Require(machine.poll_ns >= 1, "machine.poll_ns", machine.poll_ns, "1 ns or longer");
  machine.rr_slice = check.SliceOr(proto.rr_slice_ns(), machine.rr_slice, "machine.rr_slice_ns");
  machine.fair_slice =
      check.SliceOr(proto.fair_slice_ns(), machine.fair_slice, "machine.fair_slice_ns");
  machine.source_ns = check.NsOr(proto.source_ns(), 0, "machine.source_ns");
  machine.sink_ns = check.NsOr(proto.sink_ns(), 0, "machine.sink_ns");
  machine.platform_has_three_cpus = proto.platform_has_three_cpus();
  return machine;
}

SchedulerSettings ReadScheduler(const v1::Scenario& scenario, const MachineSpec& machine,
                                Checker& check) {
  SchedulerSettings settings;
  // As the engine does: the time until the current NF stops.
  settings.lead = std::llround(std::max(0.0, machine.switch_ns - machine.kernel_switch_ns));
  settings.switch_time = std::llround(machine.switch_ns);
  if (!scenario.has_scheduler()) return settings;
  const v1::SchedulerSettings& proto = scenario.scheduler();
  if (proto.gamma() != 0) settings.gamma = proto.gamma();
  if (proto.batch() != 0) settings.batch = proto.batch();
  settings.theta_min = proto.theta_min();
  if (proto.has_theta_max()) settings.theta_max = proto.theta_max();
  settings.interval =
      check.SliceOr(proto.interval_ns(), settings.interval, "scheduler.interval_ns");
  settings.occupancy = proto.occupancy();
  if (proto.has_lead_ns()) {
    settings.lead = check.SliceOr(proto.lead_ns(), 0, "scheduler.lead_ns");
    settings.switch_time.reset();
  }
  settings.max_wait = check.SliceOr(proto.max_wait_ns(), 0, "scheduler.max_wait_ns");
  check.Require(settings.gamma > 0 && settings.gamma <= 10, "scheduler.gamma", settings.gamma,
                "above 0 and at most 10 (above 1 a slice is longer than an egress holds)");
  check.Require(settings.batch <= kMaxBatch, "scheduler.batch", settings.batch, "at most 4096");
  return settings;
}

constexpr std::pair<v1::Policy, Policy> kPolicies[] = {
    {v1::POLICY_UNIS, Policy::kUnis},   {v1::POLICY_COOPERATIVE, Policy::kCooperative},
    {v1::POLICY_RR, Policy::kRr},       {v1::POLICY_FIFO, Policy::kFifo},
    {v1::POLICY_OTHER, Policy::kOther}, {v1::POLICY_BATCH, Policy::kBatch}};

std::optional<Policy> PolicyOf(v1::Policy policy) {
  for (const auto& [proto, ours] : kPolicies) {
    if (proto == policy) return ours;
  }
  return std::nullopt;
}

v1::Policy ToProto(Policy policy) {
  for (const auto& [proto, ours] : kPolicies) {
    if (ours == policy) return proto;
  }
  return v1::POLICY_UNSPECIFIED;
}

void WriteNf(const NfSpec& spec, const NfResult& counts, v1::SimNfResult& proto) {
  proto.set_name(spec.name);
  proto.set_processed(counts.processed);
  proto.set_dropped_egress_full(counts.dropped_egress_full);
  proto.set_dropped_by_function(counts.dropped_by_function);
  proto.set_busy_ns(static_cast<std::uint64_t>(counts.busy));
  proto.set_spinning_ns(static_cast<std::uint64_t>(counts.spinning));
  proto.set_switched_in(counts.switched_in);
}

void WriteChain(const ChainSpec& spec, const ChainResult& counts, v1::SimChainResult& proto) {
  proto.set_name(spec.name);
  proto.set_offered(counts.offered);
  proto.set_delivered(counts.delivered);
  proto.set_dropped_ingress_full(counts.dropped_ingress_full);
  proto.set_in_flight(counts.in_flight);
  *proto.mutable_latency() = ToProto(counts.latency);
  for (std::size_t i = 0; i < spec.nfs.size(); ++i) {
    WriteNf(spec.nfs[i], counts.nfs[i], *proto.add_nfs());
  }
}

void WriteEvent(const SwitchRecord& event, std::uint32_t cpu,
                const std::vector<std::string_view>& names, v1::SwitchEvent& proto) {
  proto.set_time_ns(static_cast<std::uint64_t>(event.time));
  proto.set_cpu(cpu);
  if (event.reason != SwitchReason::kStart) proto.set_from(std::string(names[event.from]));
  proto.set_to(std::string(names[event.to]));
  proto.set_reason(ToProto(event.reason));
  proto.set_from_ingress(event.from_ingress);
  proto.set_from_egress(event.from_egress);
  proto.set_to_ingress(event.to_ingress);
  proto.set_to_egress(event.to_egress);
  proto.set_slice_ns(static_cast<std::uint64_t>(event.slice));
}

}  // namespace

absl::StatusOr<Scenario> ScenarioFromProto(const v1::Scenario& proto) {
  Checker check;
  Scenario scenario;
  const auto policy = PolicyOf(proto.policy());
  check.Require(policy.has_value(), "policy", v1::Policy_Name(proto.policy()),
                "one of POLICY_UNIS, POLICY_COOPERATIVE, POLICY_RR, POLICY_FIFO, POLICY_OTHER and "
                "POLICY_BATCH");
  scenario.policy = policy.value_or(scenario.policy);
  if (proto.chains().empty()) check.Fail("chains is empty; a scenario has at least one chain.");
  std::set<std::string> chain_names;
  std::set<std::string> nf_names;
  for (int i = 0; i < proto.chains_size(); ++i) {
    const std::string at = Element("chains", i);
    check.Name(proto.chains(i).name(), at + ".name", chain_names);
    scenario.chains.push_back(ReadChain(proto.chains(i), at, check, nf_names));
  }
  scenario.machine = ReadMachine(proto.machine(), check);
  scenario.scheduler = ReadScheduler(proto, scenario.machine, check);
  check.Require(proto.duration_ns() > 0, "duration_ns", proto.duration_ns(), "above 0");
  scenario.duration = check.SliceOr(proto.duration_ns(), 0, "duration_ns");
  scenario.warmup = check.SliceOr(proto.warmup_ns(), 0, "warmup_ns");
  scenario.seed = proto.seed();
  scenario.trace = proto.trace();
  if (!check.status().ok()) return check.status();
  return scenario;
}

v1::SimResult ResultToProto(const Scenario& scenario, const Result& result) {
  v1::SimResult proto;
  proto.set_policy(ToProto(scenario.policy));
  proto.set_duration_ns(static_cast<std::uint64_t>(scenario.duration));
  proto.set_switches(result.switches);
  proto.set_ticks(result.ticks);
  std::vector<std::string_view> names;
  for (std::size_t i = 0; i < scenario.chains.size(); ++i) {
    for (const NfSpec& nf : scenario.chains[i].nfs) names.push_back(nf.name);
    WriteChain(scenario.chains[i], result.chains[i], *proto.add_chains());
  }
  for (const SwitchRecord& event : result.events) {
    WriteEvent(event, result.cpus[event.core], names, *proto.add_events());
  }
  for (const RunInterval& run : result.runs) {
    v1::RunInterval& interval = *proto.add_runs();
    interval.set_cpu(result.cpus[run.core]);
    interval.set_nf(std::string(names[run.nf]));
    interval.set_begin_ns(static_cast<std::uint64_t>(run.begin));
    interval.set_end_ns(static_cast<std::uint64_t>(run.end));
    interval.set_packets(run.packets);
  }
  return proto;
}

}  // namespace unis::sim
