// Deployments that tests of this folder begin with.
#pragma once

#include <string>
#include <vector>

#include "unis/v1/engine.pb.h"

namespace unis {

inline v1::LinkConfig* AddRing(v1::DeployRequest& request, const std::string& name,
                               std::uint32_t slots = 1024) {
  auto* link = request.add_links();
  link->set_name(name);
  link->set_kind(v1::LINK_RING);
  link->set_slots(slots);
  return link;
}

inline void AddMemif(v1::DeployRequest& request, const std::string& name, std::uint32_t bytes) {
  auto* link = request.add_links();
  link->set_name(name);
  link->set_kind(v1::LINK_MEMIF);
  link->set_slots(1024);
  link->mutable_memif()->set_socket("/tmp/" + name + ".sock");
  link->mutable_memif()->set_buffer_bytes(bytes);
  link->mutable_memif()->set_queues_to_server(1);
  link->mutable_memif()->set_queues_to_client(1);
  link->mutable_memif()->set_engine_end(v1::MEMIF_END_SERVER);
}

inline v1::FunctionConfig* AddFunction(v1::DeployRequest& request, const std::string& name,
                                       v1::Group group = v1::GROUP_ENGINE) {
  auto* function = request.add_functions();
  function->set_name(name);
  function->set_cpu(1);
  function->set_cost_ns(50);
  function->set_group(group);
  return function;
}

inline void AddPort(v1::FunctionConfig& function, const std::string& rx, const std::string& tx) {
  auto* port = function.add_ports();
  port->set_name(function.name() + "." + std::to_string(function.ports_size() - 1));
  port->set_rx(rx);
  port->set_tx(tx);
  port->set_end(function.group() == v1::GROUP_OWN ? 1 : 0);
}

inline v1::ChainConfig* AddChain(v1::DeployRequest& request, const std::string& name,
                                 const std::string& ingress, const std::string& egress) {
  auto* chain = request.add_chains();
  chain->set_name(name);
  chain->set_ingress(ingress);
  chain->set_egress(egress);
  return chain;
}

inline void AddHop(v1::ChainConfig& chain, const std::string& function, std::uint32_t in = 0,
                   std::uint32_t out = 0) {
  auto* hop = chain.add_hops();
  hop->set_function(function);
  hop->set_in_port(in);
  hop->set_out_port(out);
}

inline v1::DeployRequest Empty() {
  v1::DeployRequest request;
  request.set_run("test");
  request.mutable_traffic()->mutable_synthetic()->set_size(64);
  request.mutable_scheduler()->set_gamma(0.75);
  request.mutable_scheduler()->set_theta_min(56);
  request.mutable_scheduler()->set_interval_ns(1000);
  request.mutable_scheduler()->set_occupancy(true);
  return request;
}

// Somebody else's: memif 11 → first → memif 12 ⇄ second, whose ring `out` is the end.
inline v1::DeployRequest ForeignChain() {
  v1::DeployRequest request = Empty();
  request.clear_traffic();
  request.set_foreign(true);
  for (const unsigned inode : {11U, 12U}) {
    auto* link = request.add_links();
    link->set_name("memif-" + std::to_string(inode));
    link->set_kind(v1::LINK_MEMIF);
    link->set_slots(1024);
    link->mutable_memif()->set_buffer_bytes(2048);
    link->mutable_memif()->set_inode(inode);
    link->mutable_memif()->set_queues_to_server(1);
    link->mutable_memif()->set_queues_to_client(1);
  }
  auto* ring = request.add_links();
  ring->set_name("out");
  ring->set_kind(v1::LINK_RING);
  auto* first = AddFunction(request, "first", v1::GROUP_FOREIGN);
  AddPort(*first, "memif-11", "memif-11");
  AddPort(*first, "memif-12", "memif-12");
  first->mutable_ports(1)->set_end(1);
  auto* second = AddFunction(request, "second", v1::GROUP_FOREIGN);
  AddPort(*second, "memif-12", "memif-12");
  AddPort(*second, "", "out");
  auto* chain = AddChain(request, "chain", "memif-11", "out");
  AddHop(*chain, "first", 0, 1);
  AddHop(*chain, "second", 0, 1);
  return request;
}

// NAME.0 → first function → NAME.1 → …
inline v1::ChainConfig* AddRingChain(v1::DeployRequest& request, const std::string& name,
                                     const std::vector<std::string>& functions) {
  const auto link = [&name](std::size_t i) { return name + "." + std::to_string(i); };
  for (std::size_t i = 0; i <= functions.size(); ++i) AddRing(request, link(i));
  auto* chain = AddChain(request, name, link(0), link(functions.size()));
  for (std::size_t i = 0; i < functions.size(); ++i) {
    AddPort(*AddFunction(request, functions[i]), link(i), link(i + 1));
    AddHop(*chain, functions[i]);
  }
  return chain;
}

inline v1::DeployRequest RingChain(const std::vector<std::string>& functions) {
  v1::DeployRequest request = Empty();
  AddRingChain(request, "chain", functions);
  return request;
}

// r0 → near → r1 ⇒ m0 → far → m1 ⇒ r2, where ⇒ is the engine.
inline v1::DeployRequest MemifChain() {
  v1::DeployRequest request = Empty();
  AddRing(request, "r0");
  AddRing(request, "r1");
  AddMemif(request, "m0", 2048);
  AddMemif(request, "m1", 2112);
  AddRing(request, "r2");
  AddPort(*AddFunction(request, "near"), "r0", "r1");
  auto* far = AddFunction(request, "far", v1::GROUP_OWN);
  AddPort(*far, "m0", "m0");
  AddPort(*far, "m1", "m1");
  auto* chain = AddChain(request, "chain", "r0", "r2");
  AddHop(*chain, "near");
  AddHop(*chain, "far", 0, 1);
  return request;
}

inline void AddEdge(v1::ChainConfig& chain, const std::string& from, const std::string& to,
                    const std::vector<std::string>& links, std::uint32_t out = 0,
                    std::uint32_t in = 0) {
  auto* edge = chain.add_edges();
  edge->set_from(from);
  edge->set_to(to);
  edge->set_out_port(out);
  edge->set_in_port(in);
  for (const auto& link : links) edge->add_links(link);
}

inline v1::Branch* AddBranch(v1::ChainConfig& chain, const std::string& from,
                             const std::string& to) {
  v1::Split* split = nullptr;
  for (auto& there : *chain.mutable_splits())
    if (there.from() == from) split = &there;
  if (split == nullptr) (split = chain.add_splits())->set_from(from);
  auto* branch = split->add_branches();
  branch->set_to(to);
  return branch;
}

// fw → {nat, what goes to port 443 | dpi} → monitor, and a copy of what leaves it to watch. The
// engine splits and merges.
inline v1::DeployRequest Diamond() {
  v1::DeployRequest request = Empty();
  const std::vector<std::string> names = {"fw", "nat", "dpi", "monitor", "watch"};
  for (const auto& name : names) {
    AddRing(request, name + ".in");
    AddRing(request, name + ".out");
    AddPort(*AddFunction(request, name), name + ".in", name + ".out");
  }
  AddRing(request, "out");
  auto* chain = AddChain(request, "c", "fw.in", "out");
  AddEdge(*chain, "", "fw", {"fw.in"});
  AddEdge(*chain, "fw", "nat", {"fw.out", "nat.in"});
  AddEdge(*chain, "fw", "dpi", {"fw.out", "dpi.in"});
  AddEdge(*chain, "nat", "monitor", {"nat.out", "monitor.in"});
  AddEdge(*chain, "dpi", "monitor", {"dpi.out", "monitor.in"});
  AddEdge(*chain, "monitor", "", {"monitor.out", "out"});
  AddEdge(*chain, "monitor", "watch", {"monitor.out", "watch.in"});
  AddBranch(*chain, "fw.out", "dpi.in");
  AddBranch(*chain, "fw.out", "nat.in")->add_match()->set_dst_port(443);
  AddBranch(*chain, "nat.out", "monitor.in");
  AddBranch(*chain, "dpi.out", "monitor.in");
  AddBranch(*chain, "monitor.out", "watch.in")->set_copy(true);
  AddBranch(*chain, "monitor.out", "out");
  chain->add_drains("watch.out");
  return request;
}

// fw → {nat | dpi} → monitor, over ports of fw and monitor: the engine carries nothing.
inline v1::DeployRequest PortDiamond() {
  v1::DeployRequest request = Empty();
  for (const char* link : {"in", "n.in", "d.in", "n.out", "d.out", "out"}) AddRing(request, link);
  auto* fw = AddFunction(request, "fw");
  AddPort(*fw, "in", "n.in");
  AddPort(*fw, "", "d.in");
  AddPort(*AddFunction(request, "nat"), "n.in", "n.out");
  AddPort(*AddFunction(request, "dpi"), "d.in", "d.out");
  auto* monitor = AddFunction(request, "monitor");
  AddPort(*monitor, "n.out", "out");
  AddPort(*monitor, "d.out", "");
  auto* chain = AddChain(request, "c", "in", "out");
  AddEdge(*chain, "", "fw", {"in"});
  AddEdge(*chain, "fw", "nat", {"n.in"}, 0);
  AddEdge(*chain, "fw", "dpi", {"d.in"}, 1);
  AddEdge(*chain, "nat", "monitor", {"n.out"}, 0, 0);
  AddEdge(*chain, "dpi", "monitor", {"d.out"}, 0, 1);
  AddEdge(*chain, "monitor", "", {"out"});
  return request;
}

// Two chains through one function with two ports, each the other's way back.
inline v1::DeployRequest TwoWayChain() {
  v1::DeployRequest request = Empty();
  for (const char* name : {"out.0", "out.1", "back.0", "back.1"}) AddRing(request, name);
  auto* gateway = AddFunction(request, "gateway");
  AddPort(*gateway, "out.0", "back.1");
  AddPort(*gateway, "back.0", "out.1");
  AddHop(*AddChain(request, "out", "out.0", "out.1"), "gateway", 0, 1);
  AddHop(*AddChain(request, "back", "back.0", "back.1"), "gateway", 1, 0);
  return request;
}

}  // namespace unis
