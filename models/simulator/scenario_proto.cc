#include "models/simulator/scenario_proto.h"

#include <absl/status/status.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <sstream>
#include <string_view>
#include <utility>

#include "engine/contract/check_limits.h"
#include "engine/contract/from_proto.h"

namespace unis::sim {
namespace {

constexpr std::uint64_t kMaxTotalNs = 1'000'000'000'000;  // 1000 s
constexpr double kMinCostNs = 0.1;
constexpr double kMaxNs = 1e9;  // of one packet, poll or switch
constexpr double kMinPps = 1e-3;
constexpr double kMaxPps = 1e9;
constexpr std::uint32_t kMinSize = 64;
constexpr std::uint32_t kMaxSize = 9'216;
constexpr std::uint32_t kMaxBurst = 1u << 20;
constexpr std::string_view kIngress = "ingress", kEgress = "egress";

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

void ReadCostTable(const v1::SimFunction& proto, const std::string& at, Checker& check,
                   FunctionSpec& function) {
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
    function.cost_by_size.emplace_back(size, proto.size_cost_ns(i));
  }
}

FunctionSpec ReadFunction(const v1::SimFunction& proto, const std::string& at, Checker& check) {
  FunctionSpec function;
  function.name = proto.name();
  function.cpu = proto.cpu();
  function.cost_ns = proto.cost_ns();
  function.yield_every = proto.yield_every();
  function.pass_ratio = proto.pass_ratio() == 0 ? 1 : proto.pass_ratio();
  if (proto.scheduled_cost_ns() != 0) function.scheduled_cost_ns = proto.scheduled_cost_ns();
  if (proto.cost_factor() != 0) function.cost_factor = proto.cost_factor();
  function.cost_changes_at = static_cast<Nanoseconds>(proto.cost_changes_at_ns());
  ReadCostTable(proto, at, check, function);
  if (function.cost_by_size.empty())
    check.Require(IsCost(function.cost_ns), at + ".cost_ns", function.cost_ns, kCostRule);
  check.Require(!function.scheduled_cost_ns || IsCost(*function.scheduled_cost_ns),
                at + ".scheduled_cost_ns", function.scheduled_cost_ns.value_or(0), kCostRule);
  return function;
}

ArrivalSpec ReadArrivals(const v1::SimArrivals& proto, const std::string& at, Checker& check) {
  ArrivalSpec arrivals;
  arrivals.kind = static_cast<ArrivalKind>(proto.kind());  // both are numbered alike
  arrivals.mix = static_cast<SizeMix>(proto.mix());
  arrivals.pps = proto.pps();
  if (proto.size() != 0) arrivals.size = proto.size();
  if (proto.burst() != 0) arrivals.burst = proto.burst();
  check.Require(arrivals.size >= kMinSize && arrivals.size <= kMaxSize, at + ".size", arrivals.size,
                "between 64 and 9216 bytes");
  check.Require(arrivals.burst <= kMaxBurst, at + ".burst", arrivals.burst, "at most 1048576");
  if (arrivals.kind != ArrivalKind::kSaturating) {
    check.Require(arrivals.pps >= kMinPps && arrivals.pps <= kMaxPps, at + ".pps", arrivals.pps,
                  "from 0.001 to 1e9 packets a second");
  }
  if (arrivals.kind == ArrivalKind::kOnOff) {
    check.Require(proto.on_ns() > 0, at + ".on_ns", proto.on_ns(), "above 0");
    arrivals.on = check.SliceOr(proto.on_ns(), 1, at + ".on_ns");
    arrivals.off = check.SliceOr(proto.off_ns(), 0, at + ".off_ns");
  }
  return arrivals;
}

// One capacity for all links, or one each.
std::vector<std::uint32_t> ReadCapacities(const v1::SimChain& proto, const std::string& at,
                                          Checker& check) {
  const std::size_t links =
      proto.edges_size() > 0 ? 1 : static_cast<std::size_t>(proto.path_size()) + 1;
  const auto given = static_cast<std::size_t>(proto.capacity_size());
  if (given != 1 && given != links)
    check.Fail(at + ".capacity has " + std::to_string(given) + " numbers, but must have 1 or " +
               std::to_string(links) + ": one link before each function and one behind the last.");
  if (given == 1) return std::vector<std::uint32_t>(links, proto.capacity(0));
  return {proto.capacity().begin(), proto.capacity().end()};
}

// Which functions there are; in the order in which chains pass through them, or edges name them.
class Functions {
 public:
  Functions(const v1::Scenario& proto, Checker& check) : proto_(proto), check_(check) {
    for (int i = 0; i < proto.functions_size(); ++i) {
      const std::string& name = proto.functions(i).name();
      if (!named_.emplace(name, i).second)
        check.Fail(Element("functions", i) + ".name \"" + name + "\" is taken; names are unique.");
    }
  }

  FunctionIndex Of(const std::string& name, const std::string& at) {
    const auto known = named_.find(name);
    if (known == named_.end()) {
      check_.Fail(at + " names \"" + name + "\", which is no function of the scenario.");
      return 0;
    }
    const auto [entry, fresh] = index_.emplace(name, static_cast<FunctionIndex>(specs_.size()));
    if (fresh) {
      const int i = known->second;
      specs_.push_back(ReadFunction(proto_.functions(i), Element("functions", i), check_));
    }
    return entry->second;
  }

  std::vector<FunctionSpec> Finish() {
    for (const auto& [name, i] : named_) {
      if (!index_.contains(name))
        check_.Fail(Element("functions", i) + " \"" + name +
                    "\" is in no chain; remove it or add it to a chain.");
    }
    return std::move(specs_);
  }

 private:
  const v1::Scenario& proto_;
  Checker& check_;
  std::map<std::string, int> named_;  // position in the message
  std::map<std::string, FunctionIndex> index_;
  std::vector<FunctionSpec> specs_;
};

// A function without an edge to it, or from it, would hold packets for ever.
void RequireBothSides(const ChainSpec& chain, const v1::SimChain& proto, const std::string& at,
                      Checker& check) {
  bool arrive = false, leave = false;
  for (std::size_t i = 0; i < chain.edges.size(); ++i) {
    const EdgeSpec& edge = chain.edges[i];
    arrive |= !edge.from;
    leave |= !edge.to;
    const auto goes_on = [&](const EdgeSpec& other) { return other.from == edge.to; };
    const auto comes_in = [&](const EdgeSpec& other) { return other.to == edge.from; };
    const v1::SimEdge& names = proto.edges(static_cast<int>(i));
    if (edge.to && std::ranges::none_of(chain.edges, goes_on))
      check.Fail(at + ": no edge leaves function \"" + names.to() +
                 "\"; add one, such as to egress.");
    if (edge.from && std::ranges::none_of(chain.edges, comes_in))
      check.Fail(at + ": no edge leads to function \"" + names.from() + "\"; add one.");
  }
  if (!arrive || !leave) check.Fail(at + ".edges need one from ingress and one to egress.");
}

std::vector<EdgeSpec> ReadEdges(const v1::SimChain& proto, const std::string& at,
                                Functions& functions, Checker& check) {
  std::vector<EdgeSpec> edges;
  for (int i = 0; i < proto.edges_size(); ++i) {
    const v1::SimEdge& given = proto.edges(i);
    const std::string edge_at = Element(at + ".edges", i);
    EdgeSpec edge{.port = given.port(),
                  .weight = given.weight() == 0 ? 1 : given.weight(),
                  .copy = given.copy(),
                  .capacity = given.capacity() == 0 ? proto.capacity(0) : given.capacity()};
    check.Require(edge.capacity >= 2, edge_at + ".capacity", edge.capacity, "2 packets or more");
    if (given.from() != kIngress) edge.from = functions.Of(given.from(), edge_at + ".from");
    if (given.to() != kEgress) edge.to = functions.Of(given.to(), edge_at + ".to");
    if (!edge.from && !edge.to) check.Fail(edge_at + " passes no function.");
    edges.push_back(edge);
  }
  return edges;
}

std::vector<ChainSpec> ReadChains(const v1::Scenario& proto, Functions& functions, Checker& check) {
  std::vector<ChainSpec> chains;
  std::set<std::string> names;
  for (int i = 0; i < proto.chains_size(); ++i) {
    const v1::SimChain& chain = proto.chains(i);
    const std::string at = Element("chains", i);
    if (!names.insert(chain.name()).second)
      check.Fail(at + ".name \"" + chain.name() + "\" is taken; names are unique.");
    ChainSpec spec;
    spec.name = chain.name();
    for (int hop = 0; hop < chain.path_size(); ++hop)
      spec.path.push_back(functions.Of(chain.path(hop), Element(at + ".path", hop)));
    if ((chain.path_size() == 0) == (chain.edges_size() == 0))
      check.Fail(at + " needs a path or edges, and not both.");
    spec.edges = ReadEdges(chain, at, functions, check);
    if (!spec.edges.empty()) RequireBothSides(spec, chain, at, check);
    spec.capacity = ReadCapacities(chain, at, check);
    spec.arrivals = ReadArrivals(chain.arrivals(), at + ".arrivals", check);
    chains.push_back(std::move(spec));
  }
  return chains;
}

MachineSpec ReadMachine(const v1::SimMachine& proto, Checker& check) {
  MachineSpec machine;
  machine.switch_ns = check.NsOr(proto.switch_ns(), machine.switch_ns, "machine.switch_ns");
  if (const double believed =
          check.NsOr(proto.scheduled_switch_ns(), 0, "machine.scheduled_switch_ns");
      believed > 0)
    machine.scheduled_switch_ns = believed;
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
  machine.late_tick_ratio = proto.late_tick_ratio();
  machine.late_tick = check.SliceOr(proto.late_tick_ns(), 0, "machine.late_tick_ns");
  machine.lost_switch_ratio = proto.lost_switch_ratio();
  return machine;
}

// Functions are not parked here.
SchedulerSettings ReadScheduler(const v1::Scenario& scenario, const MachineSpec& machine) {
  SchedulerSettings settings;
  if (scenario.has_scheduler()) settings = FromProto(scenario.scheduler());
  settings.idle_after = settings.max_delay = 0;
  settings.lazy = true;
  CompensateBy({.until_stopped = std::max(0.0, machine.switch_ns - machine.kernel_switch_ns),
                .until_running = machine.scheduled_switch_ns.value_or(machine.switch_ns)},
               scenario.scheduler(), settings);
  return settings;
}

}  // namespace

absl::StatusOr<Scenario> ScenarioFromProto(const v1::Scenario& proto) {
  if (const auto status = CheckLimits(proto); !status.ok())
    return absl::InvalidArgumentError(std::string(status.message()) + ".");
  Checker check;
  Scenario scenario;
  scenario.policy = static_cast<Policy>(proto.policy());
  check.Require(TraitsOf(scenario.policy) != nullptr, "policy", v1::Policy_Name(proto.policy()),
                "one of the contract's policies, such as POLICY_UNIS");
  Functions functions(proto, check);
  scenario.chains = ReadChains(proto, functions, check);
  scenario.functions = functions.Finish();
  scenario.machine = ReadMachine(proto.machine(), check);
  scenario.scheduler = ReadScheduler(proto, scenario.machine);
  scenario.handover = proto.handover();
  check.Require(proto.duration_ns() > 0, "duration_ns", proto.duration_ns(), "above 0");
  scenario.duration = check.SliceOr(proto.duration_ns(), 0, "duration_ns");
  scenario.warmup = check.SliceOr(proto.warmup_ns(), 0, "warmup_ns");
  scenario.seed = proto.seed();
  scenario.trace = proto.trace();
  if (!check.status().ok()) return check.status();
  return scenario;
}

}  // namespace unis::sim
