#include "engine/run/topology.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <rte_config.h>

#include <algorithm>
#include <map>
#include <ranges>

#include "engine/run/convert.h"

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
    if (const auto status = Validate(config.kernel()); !status.ok())
      return Wrong(fmt::format("function {}: {}", name, std::string(status.message())));
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
      if (link.is_wire()) ++second;
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

  absl::StatusOr<const Topology::Link*> EngineLink(const std::string& name,
                                                   const std::string& whose) const {
    const auto link = FindLink(name, whose);
    const bool wires = request_.traffic().has_wire();
    if (!link.ok() || (wires ? (*link)->is_wire() : (*link)->engine_has_end())) return link;
    return Wrong(fmt::format("{} needs links of which {} an end, and {} has none here", whose,
                             wires ? "those outside have" : "the engine has", name));
  }

  absl::Status AddChain(const v1::ChainConfig& config) {
    for (const auto& other : result_.chains)
      if (other.config.name() == config.name())
        return Wrong(fmt::format("two chains are called {}", config.name()));
    const std::string whose = fmt::format("chain {}", config.name());
    const bool branches = config.edges_size() > 0;
    if (branches == (config.hops_size() > 0))
      return Wrong(fmt::format("{} has {}; give it one of both", whose,
                               branches ? "hops and edges" : "neither hops nor edges"));
    if ((request_.foreign() || request_.traffic().has_wire()) && branches)
      return Wrong(fmt::format("{} is foreign or at wires, so it has hops, and no edges", whose));
    if (!branches && config.splits_size() + config.drains_size() > 0)
      return Wrong(fmt::format("{} has splits or drains, which need edges", whose));
    Topology::Chain chain;
    chain.config = config;
    if (!request_.foreign()) {
      const auto ingress = EngineLink(config.ingress(), whose);
      if (!ingress.ok()) return ingress.status();
      const auto egress = EngineLink(config.egress(), whose);
      if (!egress.ok()) return egress.status();
      chain.ingress = (*ingress)->tx((*ingress)->is_wire());  // its end 1 is outside
      chain.egresses = {(*egress)->rx((*egress)->is_wire())};
    }
    const std::size_t first_split = result_.splits.size();
    if (auto status = branches ? AddEdges(chain, whose) : AddHops(chain, whose); !status.ok())
      return status;
    if (auto status = TakeLinks(chain, first_split, whose); !status.ok()) return status;
    for (const std::size_t path : chain.paths)
      result_.functions[result_.paths[path].function].paths.push_back(path);
    result_.chains.push_back(std::move(chain));
    return absl::OkStatus();
  }

  // One thread fills a link, and one empties it; the engine does both with one.
  absl::Status TakeLinks(Topology::Chain& chain, std::size_t first_split,
                         const std::string& whose) {
    std::vector<LinkIndex> filled, emptied;
    std::set<LinkIndex> split_into;
    for (const std::size_t path : chain.paths) {
      for (const auto& end : result_.paths[path].in) emptied.push_back(end.link);
      for (const auto& end : result_.paths[path].out) filled.push_back(end.link);
    }
    for (std::size_t i = first_split; i < result_.splits.size(); ++i) {
      emptied.push_back(result_.splits[i].from);
      for (const auto& branch : result_.splits[i].branches) split_into.insert(branch.to);
    }
    filled.insert(filled.end(), split_into.begin(), split_into.end());
    if (!request_.foreign()) {
      filled.push_back(chain.ingress);
      emptied.insert(emptied.end(), chain.egresses.begin(), chain.egresses.end());
      emptied.insert(emptied.end(), chain.drains.begin(), chain.drains.end());
    }
    for (const LinkIndex link : filled)
      if (auto status = Take(link, "filled", whose, producers_); !status.ok()) return status;
    for (const LinkIndex link : emptied)
      if (auto status = Take(link, "emptied", whose, consumers_); !status.ok()) return status;
    chain.links = {filled.begin(), filled.end()};
    const std::set<LinkIndex> left(emptied.begin(), emptied.end());
    for (const LinkIndex link : chain.links)
      if (!request_.foreign() && !left.contains(link))
        return Wrong(fmt::format("{} fills link {}, which nothing empties", whose, NameOf(link)));
    for (const LinkIndex link : left)
      if (!request_.foreign() && !chain.links.contains(link))
        return Wrong(fmt::format("{} empties link {}, which nothing fills", whose, NameOf(link)));
    chain.links.insert(left.begin(), left.end());
    return absl::OkStatus();
  }

  const std::string& NameOf(LinkIndex link) const { return result_.link_of(link).config.name(); }

  static absl::Status Take(LinkIndex link, const char* how, const std::string& whose,
                           std::map<LinkIndex, std::string>& by) {
    const auto [at, fresh] = by.emplace(link, whose);
    if (fresh) return absl::OkStatus();
    return Wrong(
        fmt::format("a link of {} is {} twice, by {} too; one thread fills a link and one "
                    "empties it",
                    whose, how, at->second));
  }

  absl::StatusOr<std::size_t> FunctionOf(const std::string& name, const std::string& whose) const {
    if (const auto index = result_.FindFunction(name)) return *index;
    return Wrong(fmt::format("{} passes through {}, which there is not", whose, name));
  }

  // `receives`: by this port packets come in.
  absl::StatusOr<Topology::End> EndOf(std::size_t index, std::size_t port, bool receives,
                                      const std::string& whose) const {
    const auto& function = result_.functions[index];
    const auto& name = function.config.name();
    if (port >= function.ports.size())
      return Wrong(fmt::format("{} uses port {} of {}, which has {}", whose, port, name,
                               function.ports.size()));
    const auto& link = receives ? function.ports[port].rx : function.ports[port].tx;
    if (link) return Topology::End{.port = port, .link = *link};
    return Wrong(fmt::format("{} goes {} {} by a port without a link", whose,
                             receives ? "into" : "out of", name));
  }

  Topology::Path& AddPath(Topology::Chain& chain, std::size_t function) {
    chain.paths.push_back(result_.paths.size());
    return result_.paths.emplace_back(
        Topology::Path{.chain = result_.chains.size(), .function = function, .in = {}, .out = {}});
  }

  // ---------------------------------------------------------------- one way through

  absl::Status AddHops(Topology::Chain& chain, const std::string& whose) {
    std::optional<LinkIndex> before;  // none: others fill the first hop's
    if (!request_.foreign()) before = chain.ingress;
    for (const auto& hop : chain.config.hops()) {
      const auto function = FunctionOf(hop.function(), whose);
      if (!function.ok()) return function.status();
      const auto in = EndOf(*function, hop.in_port(), true, whose);
      if (!in.ok()) return in.status();
      const auto out = EndOf(*function, hop.out_port(), false, whose);
      if (!out.ok()) return out.status();
      Topology::Path& path = AddPath(chain, *function);
      path.in = {*in};
      path.out = {*out};
      if (auto status = Join(before.value_or(in->link), in->link, whose); !status.ok())
        return status;
      before = out->link;
    }
    if (!request_.foreign()) return Join(*before, chain.egresses.front(), whose);
    chain.ingress = result_.paths[chain.paths.front()].in.front().link;
    chain.egresses = {*before};
    return absl::OkStatus();
  }

  // From one link to the next: the same, or carried across by the engine.
  absl::Status Join(LinkIndex from, LinkIndex to, const std::string& whose) {
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
    result_.splits.push_back({result_.chains.size(), from, {{.config = {}, .to = to}}});
    return absl::OkStatus();
  }

  // ---------------------------------------------------------------- branches

  absl::Status AddEdges(Topology::Chain& chain, const std::string& whose) {
    for (const auto& split : chain.config.splits())
      if (auto status = AddSplit(split, whose); !status.ok()) return status;
    for (const auto& edge : chain.config.edges())
      if (auto status = AddEdge(chain, edge, whose); !status.ok()) return status;
    for (const auto& drain : chain.config.drains())
      if (auto status = AddDrain(chain, drain, whose); !status.ok()) return status;
    for (const std::size_t path : chain.paths)
      if (result_.paths[path].out.empty())
        return Wrong(fmt::format("the packets of {} end in {}; add an edge or a drain", whose,
                                 NameOfFunction(path)));
    for (auto& edge : chain.edges) {
      edge.first_shared = std::ranges::count(chain.edges, edge.first, &Topology::Edge::first) > 1;
      edge.last_shared = std::ranges::count(chain.edges, edge.last, &Topology::Edge::last) > 1;
    }
    return absl::OkStatus();
  }

  const std::string& NameOfFunction(std::size_t path) const {
    return result_.functions[result_.paths[path].function].config.name();
  }

  absl::Status AddSplit(const v1::Split& config, const std::string& whose) {
    const auto from = EngineLink(config.from(), whose);
    if (!from.ok()) return from.status();
    Topology::Split split{.chain = result_.chains.size(), .from = (*from)->rx(0), .branches = {}};
    std::size_t matching = 0, weighed = 0, others = 0;
    for (const auto& branch : config.branches()) {
      const auto to = EngineLink(branch.to(), whose);
      if (!to.ok()) return to.status();
      const bool matches = !branch.match().empty(), weighs = branch.weight() > 0;
      if (matches + weighs + branch.copy() > 1)
        return Wrong(
            fmt::format("{}: the branch from link {} to {} has more than one of match, "
                        "weight and copy",
                        whose, config.from(), branch.to()));
      matching += matches;
      weighed += weighs;
      others += !matches && !weighs && !branch.copy();
      split.branches.push_back({.config = branch, .to = (*to)->tx(0)});
    }
    if (weighed > 0 && matching + others > 0)
      return Wrong(fmt::format(
          "{}: some branches from link {} have a weight; give all that are no copies one, or none",
          whose, config.from()));
    if (weighed == 0 && others != 1)
      return Wrong(fmt::format("{}: {} branches from link {} take what no other matches; one must",
                               whose, others, config.from()));
    std::ranges::stable_sort(split.branches, {}, [](const Topology::Branch& branch) {
      return branch.config.copy() ? 2 : branch.config.match().empty() ? 1 : 0;
    });
    result_.splits.push_back(std::move(split));
    return absl::OkStatus();
  }

  absl::Status AddEdge(Topology::Chain& chain, const v1::ChainEdge& config,
                       const std::string& whose) {
    const auto told = [](const std::string& end, const char* other) {
      return end.empty() ? other : end;
    };
    const std::string edge =
        fmt::format("the edge of {} from {} to {}", whose, told(config.from(), "the source"),
                    told(config.to(), "the sink"));
    const auto first = FirstOf(chain, config, edge);
    if (!first.ok()) return first.status();
    const auto last = LastOf(chain, config, edge);
    if (!last.ok()) return last.status();
    const std::string& begin = config.links(0);
    const std::string& end = config.links(config.links_size() - 1);
    if (NameOf(*first) != begin || NameOf(*last) != end)
      return Wrong(fmt::format("{} goes from link {} to link {}, and its ports are on {} and {}",
                               edge, begin, end, NameOf(*first), NameOf(*last)));
    for (const auto& other : chain.edges)
      if (other.first == *first && other.last == *last)
        return Wrong(fmt::format("{} is there twice, from link {} to link {}", edge, begin, end));
    const Topology::Branch* const branch = BranchOf(*first, *last);
    if (*first != *last && branch == nullptr)
      return Wrong(fmt::format("{} needs a split from link {} to link {}", edge, begin, end));
    const auto from = result_.FindFunction(config.from()), to = result_.FindFunction(config.to());
    if (to)
      PathOf(chain, *to)->copies &=
          (branch != nullptr && branch->config.copy()) || (from && PathOf(chain, *from)->copies);
    chain.edges.push_back({.config = config, .first = *first, .last = *last});
    return absl::OkStatus();
  }

  // Null: nothing is carried there.
  const Topology::Branch* BranchOf(LinkIndex from, LinkIndex to) const {
    for (const auto& split : result_.splits)
      for (const auto& branch : split.branches)
        if (split.from == from && branch.to == to) return &branch;
    return nullptr;
  }

  // The chain's path through a function; null: none yet.
  Topology::Path* PathOf(const Topology::Chain& chain, std::size_t function) {
    for (const std::size_t path : chain.paths)
      if (result_.paths[path].function == function) return &result_.paths[path];
    return nullptr;
  }

  static void AddOnce(std::vector<Topology::End>& ends, const Topology::End& end) {
    if (std::ranges::find(ends, end) == ends.end()) ends.push_back(end);
  }

  absl::StatusOr<LinkIndex> FirstOf(Topology::Chain& chain, const v1::ChainEdge& edge,
                                    const std::string& whose) {
    if (edge.from().empty()) return chain.ingress;
    const auto function = FunctionOf(edge.from(), whose);
    if (!function.ok()) return function.status();
    const auto end = EndOf(*function, edge.out_port(), false, whose);
    if (!end.ok()) return end.status();
    Topology::Path* const path = PathOf(chain, *function);
    if (path == nullptr)
      return Wrong(fmt::format("{} stands before all that lead to {}", whose, edge.from()));
    AddOnce(path->out, *end);
    return end->link;
  }

  absl::StatusOr<LinkIndex> LastOf(Topology::Chain& chain, const v1::ChainEdge& edge,
                                   const std::string& whose) {
    if (edge.to().empty()) {
      const auto link = EngineLink(edge.links(edge.links_size() - 1), whose);
      if (!link.ok()) return link.status();
      const LinkIndex last = (*link)->rx(0);
      if (std::ranges::find(chain.egresses, last) == chain.egresses.end())
        chain.egresses.push_back(last);
      return last;
    }
    const auto function = FunctionOf(edge.to(), whose);
    if (!function.ok()) return function.status();
    const auto end = EndOf(*function, edge.in_port(), true, whose);
    if (!end.ok()) return end.status();
    Topology::Path* path = PathOf(chain, *function);
    if (path == nullptr) {
      path = &AddPath(chain, *function);
      path->copies = true;  // until an edge brings packets
    }
    if (!path->out.empty())
      return Wrong(
          fmt::format("{} stands behind one that leaves {}: an edge stands behind all "
                      "that lead to it, and there are no circles",
                      whose, edge.to()));
    AddOnce(path->in, *end);
    return end->link;
  }

  // By which port of which function its packets come the link says.
  absl::Status AddDrain(Topology::Chain& chain, const std::string& name, const std::string& whose) {
    const auto link = EngineLink(name, whose);
    if (!link.ok()) return link.status();
    const LinkIndex drain = (*link)->rx(0);
    for (const std::size_t index : chain.paths) {
      auto& path = result_.paths[index];
      const auto& ports = result_.functions[path.function].ports;
      const auto port = std::ranges::find(ports, std::optional(drain), &Topology::Port::tx);
      if (port == ports.end()) continue;
      AddOnce(path.out, {.port = static_cast<std::size_t>(port - ports.begin()), .link = drain});
      chain.drains.push_back(drain);
      return absl::OkStatus();
    }
    return Wrong(fmt::format("{} drains link {}, which none of its functions fills", whose, name));
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

std::set<LinkIndex> Topology::OpenLinks(const std::function<bool(std::size_t)>& runs) const {
  std::set<LinkIndex> open;
  const auto leads_on = [&](LinkIndex link) {
    for (const Split& split : splits)
      for (const Branch& branch : split.branches)
        if (split.from == link && !branch.config.copy() && open.contains(branch.to))
          open.insert(link);
    return open.contains(link);
  };
  for (const Chain& chain : chains) {
    open.insert(chain.egresses.begin(), chain.egresses.end());
    open.insert(chain.drains.begin(), chain.drains.end());
    for (const std::size_t index : chain.paths | std::views::reverse) {
      const Path& path = paths[index];
      if (std::ranges::count_if(path.out, leads_on, &End::link) == 0 || !runs(path.function))
        continue;
      for (const End& end : path.in) open.insert(end.link);
    }
    leads_on(chain.ingress);
  }
  return open;
}

Topology::Tasks Topology::TasksOf(CoreIndex core, const std::vector<std::size_t>& threads) const {
  Tasks tasks;
  const auto local = [&tasks](LinkIndex link) {
    const auto at = std::ranges::find(tasks.links, link);
    if (at != tasks.links.end()) return static_cast<LinkIndex>(at - tasks.links.begin());
    tasks.links.push_back(link);
    return static_cast<LinkIndex>(tasks.links.size() - 1);
  };
  std::set<LinkIndex> elsewhere;
  const auto open = OpenLinks([&](std::size_t function) { return threads[function] > 0; });
  const auto is_open = [&open](const End& end) { return open.contains(end.link); };
  for (const Path& of_chain : paths) {
    const std::size_t index = of_chain.function;
    if (functions[index].core != core) {
      for (const End& in : of_chain.in) elsewhere.insert(in.link);
      continue;
    }
    if (threads[index] == 0 || std::ranges::count(tasks.functions, index) > 0) continue;
    std::vector<unis::Path> of_function;
    for (const std::size_t path : functions[index].paths)
      for (const End& in : paths[path].in)
        for (const End& out : paths[path].out)
          if (is_open(out) || std::ranges::none_of(paths[path].out, is_open))
            of_function.push_back({.in = local(in.link),
                                   .out = local(out.link),
                                   .function = static_cast<FunctionIndex>(tasks.functions.size())});
    tasks.functions.push_back(index);
    tasks.set.Add(0, of_function, threads[index]);
    for (std::size_t thread = 0; thread < threads[index]; ++thread)
      tasks.thread_of.push_back(thread);
  }
  for (LinkIndex link = 0; link < tasks.links.size(); ++link)
    if (elsewhere.contains(tasks.links[link])) tasks.set.read_elsewhere.push_back(link);
  tasks.set.divides =
      std::ranges::any_of(chains, [](const Chain& chain) { return !chain.edges.empty(); });
  tasks.set.circular = std::ranges::any_of(
      functions, [](const Function& function) { return function.paths.size() > 1; });
  return tasks;
}

std::set<unsigned> Topology::CpusAround(const std::set<std::string>& names) const {
  std::set<LinkIndex> around;
  const auto links_of = [this](const Function& function) {
    std::set<LinkIndex> links;
    for (const Port& port : function.ports)
      for (const auto& at : {port.rx, port.tx})
        if (at) links.insert(link_of(*at).first);
    return links;
  };
  for (const Function& function : functions)
    if (names.contains(function.config.name())) around.merge(links_of(function));
  std::set<unsigned> found;
  for (const Function& function : functions)
    if (std::ranges::any_of(links_of(function), [&](LinkIndex at) { return around.contains(at); }))
      found.insert(function.config.cpu());
  return found;
}

absl::StatusOr<Topology> Topology::Resolve(const v1::DeployRequest& request,
                                           const std::set<unsigned>& cpus) {
  return Resolver(request, cpus).Run();
}

}  // namespace unis
