#include "engine/run/topology.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <rte_config.h>

#include <algorithm>
#include <map>

namespace unis {
namespace {

absl::Status Wrong(const std::string& sentence) { return absl::InvalidArgumentError(sentence); }

class Resolver {
 public:
  Resolver(const v1::DeployRequest& request, const std::set<unsigned>& cpus)
      : request_(request), cpus_(cpus) {}

  absl::StatusOr<Topology> Run() {
    for (const auto& link : request_.links())
      if (auto status = AddLink(link); !status.ok()) return status;
    for (const auto& function : request_.functions())
      if (auto status = AddFunction(function); !status.ok()) return status;
    if (auto status = CheckEnds(); !status.ok()) return status;
    if (auto status = CheckPorts(); !status.ok()) return status;
    for (const auto& chain : request_.chains())
      if (auto status = AddChain(chain); !status.ok()) return status;
    return std::move(result_);
  }

 private:
  absl::Status AddLink(const v1::LinkConfig& config) {
    if (link_by_name_.contains(config.name()))
      return Wrong(fmt::format("two links are called {}", config.name()));
    const LinkKind* const kind = FindLinkKind(config.kind());
    if (kind == nullptr)
      return Wrong(fmt::format("link {} is of kind {}, which there is not", config.name(),
                               static_cast<int>(config.kind())));
    if (config.settings_case() != kind->settings())
      return Wrong(fmt::format("link {} is a {} and has {}", config.name(), kind->name(),
                               config.settings_case() == v1::LinkConfig::SETTINGS_NOT_SET
                                   ? "none of its settings"
                                   : "those of another kind"));
    if (auto status = kind->Check(config, request_.foreign()); !status.ok()) return status;
    for (const auto& other : result_.links) {
      if (other.kind != kind) continue;
      if (auto status = kind->CheckBeside(config, other.config); !status.ok()) return status;
    }
    link_by_name_[config.name()] = result_.links.size();
    result_.links.push_back({.config = config, .kind = kind, .first = result_.directions()});
    return absl::OkStatus();
  }

  absl::StatusOr<const Topology::Link*> FindLink(const std::string& name,
                                                 const std::string& whose) const {
    const auto found = link_by_name_.find(name);
    if (found != link_by_name_.end()) return &result_.links[found->second];
    return Wrong(fmt::format("{} names link {}, which there is not", whose, name));
  }

  absl::Status AddFunction(const v1::FunctionConfig& config) {
    const auto& name = config.name();
    if (result_.FindFunction(name)) return Wrong(fmt::format("two functions are called {}", name));
    if (request_.foreign() != (config.group() == v1::GROUP_FOREIGN))
      return Wrong(fmt::format("function {} is {}foreign, unlike the run", name,
                               request_.foreign() ? "not " : ""));
    if (!cpus_.contains(config.cpu()))
      return Wrong(fmt::format("CPU {} of function {} is not one that functions may run on: {}",
                               config.cpu(), name, fmt::join(cpus_, ", ")));
    Topology::Function function{
        .config = config, .core = CoreOf(config.cpu()), .ports = {}, .paths = {}};
    for (const auto& port : config.ports()) {
      auto resolved = ResolvePort(config, port);
      if (!resolved.ok()) return resolved.status();
      function.ports.push_back(*std::move(resolved));
    }
    result_.functions.push_back(std::move(function));
    return absl::OkStatus();
  }

  absl::StatusOr<Topology::Port> ResolvePort(const v1::FunctionConfig& function,
                                             const v1::PortConfig& config) {
    const std::string whose = fmt::format("port {} of function {}", config.name(), function.name());
    if (!port_names_.insert(config.name()).second)
      return Wrong(fmt::format("two ports are called {}", config.name()));
    Topology::Port port{.name = config.name(), .rx = {}, .tx = {}};
    if (function.group() == v1::GROUP_OWN ||
        (function.group() == v1::GROUP_FOREIGN && HasTwoEnds(config.rx()))) {
      const auto link = FindLink(config.rx(), whose);
      if (!link.ok()) return link.status();
      if ((*link)->kind->in_group() || config.tx() != config.rx())
        return Wrong(fmt::format(
            "{} is of a DPDK group of its own: its rx and tx are one link of two directions",
            whose));
      const unsigned end = config.end();
      ++ends_[config.rx()][end];
      port.rx = (*link)->rx(end);
      port.tx = (*link)->tx(end);
      return port;
    }
    if (config.rx().empty() && config.tx().empty())
      return Wrong(fmt::format("{} has neither rx nor tx", whose));
    for (const auto& [name, side] : {std::pair{&config.rx(), &port.rx}, {&config.tx(), &port.tx}}) {
      if (name->empty()) continue;
      const auto link = FindLink(*name, whose);
      if (!link.ok()) return link.status();
      if (!(*link)->kind->in_group())
        return Wrong(
            fmt::format("{} is of the engine's DPDK group: link {} must be in it too, as a ring",
                        whose, *name));
      *side = (*link)->first;
    }
    return port;
  }

  bool HasTwoEnds(const std::string& link) const {
    const auto found = link_by_name_.find(link);
    return found != link_by_name_.end() && !result_.links[found->second].kind->in_group();
  }

  // Of a foreign link not both ends need be attached.
  absl::Status CheckEnds() {
    for (const auto& link : result_.links) {
      if (link.directions() == 1) continue;
      auto& [first, second] = ends_[link.config.name()];
      if (link.engine_has_end()) ++first;
      const bool half = request_.foreign() && first <= 1 && second <= 1;
      if (!half && (first != 1 || second != 1))
        return Wrong(
            fmt::format("link {} has {} users of its end 0 and {} of its end 1; give each "
                        "end one",
                        link.config.name(), first, second));
    }
    return absl::OkStatus();
  }

  absl::Status CheckPorts() {
    std::size_t ports = 1;  // one is kept for the traffic source or sink
    for (const auto& function : result_.functions)
      if (function.config.group() == v1::GROUP_ENGINE) ports += function.ports.size();
    if (ports <= RTE_MAX_ETHPORTS) return absl::OkStatus();
    return Wrong(fmt::format("{} ports are too many: this DPDK allows {} in a group", ports,
                             RTE_MAX_ETHPORTS));
  }

  // Where the source begins and the sink ends.
  absl::Status ResolveEnds(Topology::Chain& chain, const std::string& whose) {
    for (const auto& [name, ingress] :
         {std::pair{&chain.config.ingress(), true}, {&chain.config.egress(), false}}) {
      const auto link = FindLink(*name, whose);
      if (!link.ok()) return link.status();
      if (!(*link)->engine_has_end())
        return Wrong(
            fmt::format("{} begins and ends with a link of which the engine has an end, "
                        "and {} has none here",
                        whose, *name));
      (ingress ? chain.ingress : chain.egress) = ingress ? (*link)->tx(0) : (*link)->rx(0);
    }
    if (auto status = Take(chain.ingress, "filled", whose, producers_); !status.ok()) return status;
    return Take(chain.egress, "emptied", whose, consumers_);
  }

  absl::Status AddChain(const v1::ChainConfig& config) {
    for (const auto& other : result_.chains)
      if (other.config.name() == config.name())
        return Wrong(fmt::format("two chains are called {}", config.name()));
    const std::string whose = fmt::format("chain {}", config.name());
    Topology::Chain chain{.config = config, .ingress = 0, .egress = 0, .paths = {}};
    std::optional<LinkIndex> before;  // none: others fill the first hop's
    if (!request_.foreign()) {
      if (auto status = ResolveEnds(chain, whose); !status.ok()) return status;
      before = chain.ingress;
    }
    const std::size_t index = result_.chains.size();
    for (const auto& hop : config.hops()) {
      const auto path = AddPath(index, hop, whose);
      if (!path.ok()) return path.status();
      chain.paths.push_back(result_.paths.size());
      result_.functions[path->function].paths.push_back(result_.paths.size());
      result_.paths.push_back(*path);
      if (auto status = Join(index, before.value_or(path->in), path->in, whose); !status.ok())
        return status;
      if (auto status = Take(path->in, "emptied", whose, consumers_); !status.ok()) return status;
      if (auto status = Take(path->out, "filled", whose, producers_); !status.ok()) return status;
      before = path->out;
    }
    if (request_.foreign()) {
      chain.ingress = result_.paths[chain.paths.front()].in;
      chain.egress = *before;
    }
    if (auto status = Join(index, *before, chain.egress, whose); !status.ok()) return status;
    result_.chains.push_back(std::move(chain));
    return absl::OkStatus();
  }

  absl::StatusOr<Topology::Path> AddPath(std::size_t chain, const v1::Hop& hop,
                                         const std::string& whose) const {
    const auto index = result_.FindFunction(hop.function());
    if (!index)
      return Wrong(fmt::format("{} passes through {}, which there is not", whose, hop.function()));
    const auto& function = result_.functions[*index];
    for (const auto port : {hop.in_port(), hop.out_port()}) {
      if (port < function.ports.size()) continue;
      return Wrong(fmt::format("{} uses port {} of {}, which has {}", whose, port, hop.function(),
                               function.ports.size()));
    }
    const auto& in = function.ports[hop.in_port()].rx;
    const auto& out = function.ports[hop.out_port()].tx;
    if (!in || !out)
      return Wrong(fmt::format("{} goes {} {} by a port without a link", whose,
                               in ? "out of" : "into", hop.function()));
    return Topology::Path{.chain = chain,
                          .function = *index,
                          .in_port = hop.in_port(),
                          .out_port = hop.out_port(),
                          .in = *in,
                          .out = *out};
  }

  // One thread fills a link, and one empties it.
  static absl::Status Take(LinkIndex link, const char* how, const std::string& whose,
                           std::map<LinkIndex, std::string>& by) {
    const auto [at, fresh] = by.emplace(link, whose);
    if (fresh) return absl::OkStatus();
    return Wrong(
        fmt::format("a link of {} is {} twice, by {} too; one thread fills a link and one "
                    "empties it",
                    whose, how, at->second));
  }

  // From one link to the next: the same, or carried across by the engine.
  absl::Status Join(std::size_t chain, LinkIndex from, LinkIndex to, const std::string& whose) {
    if (from == to) return absl::OkStatus();
    const auto& left = result_.link_of(from);
    const auto& right = result_.link_of(to);
    const bool here =
        left.engine_has_end() && left.rx(0) == from && right.engine_has_end() && right.tx(0) == to;
    if (!here || (left.kind->in_group() && right.kind->in_group()))
      return Wrong(
          fmt::format("{} goes from link {} to link {}, which the engine cannot carry across: it "
                      "needs an end of both, and one of them outside its DPDK group",
                      whose, left.config.name(), right.config.name()));
    if (auto status = Take(from, "emptied", whose, consumers_); !status.ok()) return status;
    if (auto status = Take(to, "filled", whose, producers_); !status.ok()) return status;
    result_.bridges.push_back({.chain = chain, .from = from, .to = to});
    return absl::OkStatus();
  }

  CoreIndex CoreOf(unsigned cpu) {
    auto& cpus = result_.cpus;
    const auto found = std::find(cpus.begin(), cpus.end(), cpu);
    if (found != cpus.end()) return static_cast<CoreIndex>(found - cpus.begin());
    cpus.push_back(cpu);
    return static_cast<CoreIndex>(cpus.size() - 1);
  }

  const v1::DeployRequest& request_;
  const std::set<unsigned>& cpus_;
  Topology result_;
  std::map<std::string, std::size_t> link_by_name_;
  std::map<std::string, std::array<int, 2>> ends_;  // by link: those at end 0, at end 1
  std::set<std::string> port_names_;
  std::map<LinkIndex, std::string> producers_, consumers_;
};

}  // namespace

LinkIndex Topology::directions() const {
  return links.empty() ? 0 : links.back().first + links.back().directions();
}

const Topology::Link& Topology::link_of(LinkIndex direction) const {
  const auto after =
      std::upper_bound(links.begin(), links.end(), direction,
                       [](LinkIndex wanted, const Link& link) { return wanted < link.first; });
  return *std::prev(after);
}

std::optional<std::size_t> Topology::FindFunction(const std::string& name) const {
  for (std::size_t i = 0; i < functions.size(); ++i)
    if (functions[i].config.name() == name) return i;
  return std::nullopt;
}

Topology::Tasks Topology::TasksOf(const std::vector<std::size_t>& threads) const {
  Tasks tasks;
  std::vector<bool> taken(functions.size());
  for (const Path& of_chain : paths) {
    const std::size_t index = of_chain.function;
    if (taken[index]) continue;
    taken[index] = true;
    const Function& function = functions[index];
    std::vector<unis::Path> of_function;
    for (const std::size_t path : function.paths) {
      of_function.push_back({.in = paths[path].in,
                             .out = paths[path].out,
                             .function = static_cast<FunctionIndex>(index)});
    }
    tasks.set.Add(function.core, of_function, threads[index]);
    for (std::size_t thread = 0; thread < threads[index]; ++thread) {
      tasks.function_of.push_back(index);
      tasks.thread_of.push_back(thread);
    }
  }
  return tasks;
}

absl::StatusOr<Topology> Topology::Resolve(const v1::DeployRequest& request,
                                           const std::set<unsigned>& cpus) {
  return Resolver(request, cpus).Run();
}

}  // namespace unis
