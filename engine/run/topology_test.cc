#include "engine/run/topology.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "engine/contract/check_limits.h"
#include "engine/run/deployments_for_test.h"

namespace unis {
namespace {

const std::set<unsigned> kCpus = {1, 2};

Topology Resolved(const v1::DeployRequest& request) {
  EXPECT_TRUE(CheckLimits(request).ok()) << CheckLimits(request);
  auto topology = Topology::Resolve(request, kCpus);
  EXPECT_TRUE(topology.ok()) << topology.status();
  return topology.ok() ? *std::move(topology) : Topology{};
}

std::string Refusal(const v1::DeployRequest& request) {
  return std::string(Topology::Resolve(request, kCpus).status().message());
}

std::vector<std::size_t> FunctionsOf(const Topology::Tasks& tasks) {
  std::vector<std::size_t> functions;
  for (const Task& task : tasks.set.tasks) functions.push_back(tasks.functions[task.function]);
  return functions;
}

TEST(TopologyTest, AChainOfRingsIsOnePathAFunction) {
  const Topology topology = Resolved(RingChain({"fw", "nat"}));
  ASSERT_EQ(topology.paths.size(), 2U);
  EXPECT_EQ(topology.paths[0].out[0].link, topology.paths[1].in[0].link);
  EXPECT_EQ(topology.chains[0].ingress, topology.paths[0].in[0].link);
  EXPECT_EQ(topology.chains[0].egresses[0], topology.paths[1].out[0].link);
  EXPECT_TRUE(topology.splits.empty());
  EXPECT_EQ(topology.directions(), 3U);
  const auto tasks = topology.TasksOf(0, {1, 1});
  ASSERT_EQ(tasks.set.tasks.size(), 2U);
  EXPECT_EQ(tasks.set.tasks[1].ingress.begin, 1U);
  EXPECT_EQ(tasks.set.tasks[1].ingress.size, 1U);
  EXPECT_EQ(FunctionsOf(tasks), (std::vector<std::size_t>{0, 1}));
}

TEST(TopologyTest, AMemifInTheMiddleIsBridgedOnBothSides) {
  const Topology topology = Resolved(MemifChain());
  ASSERT_EQ(topology.splits.size(), 2U);
  const auto& far = topology.paths[1];  // of the function behind the memif
  EXPECT_EQ(topology.splits[0].branches[0].to, far.in[0].link);
  EXPECT_EQ(topology.splits[1].from, far.out[0].link);
  EXPECT_EQ(topology.link_of(far.in[0].link).directions(), 2U);
  // The engine is the server: what it sends goes to the client.
  EXPECT_EQ(far.in[0].link, topology.link_of(far.in[0].link).first + 1);
  EXPECT_EQ(far.out[0].link, topology.link_of(far.out[0].link).first);
  EXPECT_FALSE(topology.functions[1].counts());
}

TEST(TopologyTest, AChainThatBeginsAndEndsOnMemifsHasNoBridge) {
  auto request = MemifChain();
  request.mutable_chains(0)->mutable_hops()->DeleteSubrange(0, 1);
  request.mutable_chains(0)->set_ingress("m0");
  request.mutable_chains(0)->set_egress("m1");
  const Topology topology = Resolved(request);
  EXPECT_TRUE(topology.splits.empty());
  ASSERT_EQ(topology.paths.size(), 1U);
  EXPECT_EQ(topology.chains[0].ingress, topology.paths[0].in[0].link);
  EXPECT_EQ(topology.chains[0].egresses[0], topology.paths[0].out[0].link);
  EXPECT_EQ(topology.paths[0].in[0].link, topology.link_of(topology.paths[0].in[0].link).first + 1)
      << "from the engine to the client";
}

TEST(TopologyTest, AFunctionOfTwoChainsIsOneTaskWithTwoPaths) {
  const Topology topology = Resolved(TwoWayChain());
  ASSERT_EQ(topology.functions.size(), 1U);
  EXPECT_EQ(topology.functions[0].paths.size(), 2U);
  const auto tasks = topology.TasksOf(0, {1, 1});
  ASSERT_EQ(tasks.set.tasks.size(), 1U);
  const auto in = tasks.set.tasks[0].ingress.Of(tasks.set.ingresses);
  ASSERT_EQ(in.size(), 2U);
  EXPECT_NE(in[0].link, in[1].link);
  EXPECT_EQ(in[0].reaches, 1U);
  EXPECT_EQ(in[1].reaches, 2U) << "each way has an egress of its own";
}

TEST(TopologyTest, EachPollingThreadOfAFunctionIsATaskWithAllOfItsPaths) {
  const Topology topology = Resolved(RingChain({"fw", "nat", "ids"}));
  const auto tasks = topology.TasksOf(0, {1, 3, 1});
  EXPECT_EQ(FunctionsOf(tasks), (std::vector<std::size_t>{0, 1, 1, 1, 2}));
  EXPECT_EQ(tasks.thread_of, (std::vector<std::size_t>{0, 0, 1, 2, 0}));
  ASSERT_EQ(tasks.set.tasks.size(), 5U);
  const auto in = [&](std::size_t task) {
    return tasks.set.tasks[task].ingress.Of(tasks.set.ingresses);
  };
  for (const std::size_t task : {1U, 2U, 3U}) {
    ASSERT_EQ(in(task).size(), 1U);
    EXPECT_EQ(tasks.links[in(task)[0].link], topology.paths[1].in[0].link);
    EXPECT_EQ(tasks.links[tasks.set.tasks[task].egress.Of(tasks.set.egresses)[0]],
              topology.paths[1].out[0].link);
  }
  EXPECT_EQ(tasks.links[in(4)[0].link], topology.paths[2].in[0].link);
}

TEST(TopologyTest, AFunctionWithoutAChainHasNoTask) {
  auto request = RingChain({"fw"});
  request.clear_chains();
  EXPECT_TRUE(Resolved(request).TasksOf(0, {1, 1}).set.tasks.empty());
}

TEST(TopologyTest, AFunctionWithoutAThreadHasNoTask) {
  const auto tasks = Resolved(RingChain({"fw", "nat", "ids"})).TasksOf(0, {1, 0, 1});
  EXPECT_EQ(FunctionsOf(tasks), (std::vector<std::size_t>{0, 2}));
  EXPECT_EQ(tasks.links.size(), 4U);
}

// Two chains on a core each; what is numbered for the one does not change with the other.
v1::DeployRequest TwoCores() {
  v1::DeployRequest request = RingChain({"a", "b"});
  AddRingChain(request, "other", {"c", "d"})->add_match()->set_dst_port(53);
  for (auto& function : *request.mutable_functions())
    function.set_cpu(function.name() < "c" ? 1 : 2);
  return request;
}

TEST(TopologyTest, TheTasksOfACoreAreNumberedByThemselves) {
  const Topology both = Resolved(TwoCores());
  const CoreIndex core = both.functions[*both.FindFunction("c")].core;
  const auto tasks = both.TasksOf(core, {1, 1, 1, 1});
  EXPECT_EQ(tasks.set.tasks.size(), 2U);
  EXPECT_TRUE(tasks.set.read_elsewhere.empty());
  auto alone = TwoCores();
  alone.mutable_chains()->DeleteSubrange(0, 1);
  alone.mutable_functions()->DeleteSubrange(0, 2);
  alone.mutable_links()->DeleteSubrange(0, 3);
  EXPECT_EQ(Resolved(alone).TasksOf(0, {1, 1}).set, tasks.set);
}

TEST(TopologyTest, ATaskKnowsWhichOfItsLinksAnotherCoreReads) {
  auto request = RingChain({"a", "b", "c"});
  request.mutable_functions(1)->set_cpu(2);
  const Topology topology = Resolved(request);
  const auto tasks = topology.TasksOf(0, {1, 1, 1});
  ASSERT_EQ(tasks.set.read_elsewhere.size(), 1U);
  EXPECT_EQ(tasks.links[tasks.set.read_elsewhere[0]], topology.paths[1].in[0].link);
}

TEST(TopologyTest, ACoreKnowsWhetherTheEngineSplitsBehindItsTasks) {
  EXPECT_FALSE(Resolved(RingChain({"a", "b"})).TasksOf(0, {1, 1}).set.divides);
  auto request = Diamond();
  const Topology topology = Resolved(request);
  const std::vector<std::size_t> threads(topology.functions.size(), 1);
  EXPECT_TRUE(topology.TasksOf(0, threads).set.divides);
  EXPECT_FALSE(topology.TasksOf(0, threads).set.circular);
}

TEST(TopologyTest, AroundAFunctionAreTheCpusWithAnEndOfItsLinks) {
  const Topology apart = Resolved(TwoCores());
  EXPECT_EQ(apart.CpusAround({"a"}), (std::set<unsigned>{1}));
  EXPECT_EQ(apart.CpusAround({"b", "d"}), (std::set<unsigned>{1, 2}));
  EXPECT_TRUE(apart.CpusAround({"none"}).empty());
  auto request = RingChain({"a", "b", "c"});
  request.mutable_functions(1)->set_cpu(2);
  EXPECT_EQ(Resolved(request).CpusAround({"c"}), (std::set<unsigned>{1, 2}));
}

TEST(TopologyTest, CoresAreTheCpusOfFunctions) {
  auto request = RingChain({"a", "b", "c"});
  request.mutable_functions(1)->set_cpu(2);
  const Topology topology = Resolved(request);
  EXPECT_EQ(topology.cpus, (std::vector<unsigned>{1, 2}));
  EXPECT_EQ(topology.functions[2].core, 0U);
  EXPECT_EQ(topology.functions[1].core, 1U);
}

struct Mistake {
  std::string words;  // that the sentence has
  v1::DeployRequest request;
  std::function<void(v1::DeployRequest&)> make;
};

TEST(TopologyTest, SaysWhatIsWrong) {
  const auto rings = RingChain({"fw", "nat"});
  const auto memif = MemifChain();
  const std::vector<Mistake> mistakes = {
      {"two links are called chain.1", rings,
       [](auto& r) { r.mutable_links(0)->set_name("chain.1"); }},
      {"two functions are called nat", rings,
       [](auto& r) { r.mutable_functions(0)->set_name("nat"); }},
      {"two ports are called nat.0", rings,
       [](auto& r) { r.mutable_functions(0)->mutable_ports(0)->set_name("nat.0"); }},
      {"two chains are called chain", rings, [](auto& r) { *r.add_chains() = r.chains(0); }},
      {"CPU 0 of function fw", rings, [](auto& r) { r.mutable_functions(0)->set_cpu(0); }},
      {"CPU 7 of function fw", rings, [](auto& r) { r.mutable_functions(0)->set_cpu(7); }},
      {"names link nowhere, which there is not", rings,
       [](auto& r) { r.mutable_functions(0)->mutable_ports(0)->set_rx("nowhere"); }},
      {"chain chain names link nowhere", rings,
       [](auto& r) { r.mutable_chains(0)->set_ingress("nowhere"); }},
      {"neither rx nor tx", rings,
       [](auto& r) {
         r.mutable_functions(0)->mutable_ports(0)->clear_rx();
         r.mutable_functions(0)->mutable_ports(0)->clear_tx();
       }},
      {"passes through ids, which there is not", rings,
       [](auto& r) { r.mutable_chains(0)->mutable_hops(0)->set_function("ids"); }},
      {"uses port 3 of fw, which has 1", rings,
       [](auto& r) { r.mutable_chains(0)->mutable_hops(0)->set_in_port(3); }},
      {"goes out of fw by a port without a link", rings,
       [](auto& r) { r.mutable_functions(0)->mutable_ports(0)->clear_tx(); }},
      {"cannot carry across", rings,
       [](auto& r) { r.mutable_chains(0)->mutable_hops()->RemoveLast(); }},
      {"neither hops nor edges", rings, [](auto& r) { r.mutable_chains(0)->clear_hops(); }},
      {"splits or drains, which need edges", rings,
       [](auto& r) { r.mutable_chains(0)->add_drains("chain.2"); }},
      {"filled twice", rings,
       [](auto& r) {
         *r.add_chains() = r.chains(0);
         r.mutable_chains(1)->set_name("again");
       }},
      {"is a ring and has those of another kind", memif,
       [](auto& r) { r.mutable_links(0)->mutable_memif()->set_buffer_bytes(4096); }},
      {"buffers of 2048 bytes both", memif,
       [](auto& r) { r.mutable_links(3)->mutable_memif()->set_buffer_bytes(2048); }},
      {"at most 16384, not 32768", memif, [](auto& r) { r.mutable_links(2)->set_slots(32768); }},
      {"1 users of its end 0 and 0 of its end 1", memif,
       [](auto& r) { r.mutable_functions(1)->mutable_ports()->RemoveLast(); }},
      {"2 users of its end 0", memif,
       [](auto& r) { r.mutable_functions(1)->mutable_ports(0)->set_end(0); }},
      {"rx and tx are one link of two directions", memif,
       [](auto& r) { r.mutable_functions(1)->mutable_ports(0)->set_tx("m1"); }},
      {"must be in it too, as a ring", memif,
       [](auto& r) { r.mutable_functions(0)->mutable_ports(0)->set_tx("m0"); }},
      {"of which the engine has an end, and m1 has none here", memif,
       [](auto& r) {
         r.mutable_chains(0)->set_egress("m1");
         r.mutable_links(3)->mutable_memif()->set_engine_end(v1::MEMIF_END_NONE);
         auto* other = AddFunction(r, "other", v1::GROUP_OWN);
         AddPort(*other, "m1", "m1");
         other->mutable_ports(0)->set_end(0);
       }},
  };
  for (const Mistake& mistake : mistakes) {
    auto request = mistake.request;
    mistake.make(request);
    const std::string sentence = Refusal(request);
    EXPECT_NE(sentence.find(mistake.words), std::string::npos)
        << "not '" << mistake.words << "' but '" << sentence << "'";
  }
}

// fw fills one link, which the engine splits; nat and dpi fill one each, which it merges.
TEST(TopologyTest, ADiamondIsOnePathAFunctionAndASplitForEachLinkThatTheEngineEmpties) {
  const Topology topology = Resolved(Diamond());
  ASSERT_EQ(topology.paths.size(), 5U);
  const auto link = [&](const std::string& name) {
    const auto found = std::ranges::find_if(
        topology.links, [&](const auto& each) { return each.config.name() == name; });
    return found->first;
  };
  ASSERT_EQ(topology.splits.size(), 4U);
  const auto& split = topology.splits[0];
  EXPECT_EQ(split.from, link("fw.out"));
  ASSERT_EQ(split.branches.size(), 2U);
  EXPECT_EQ(split.branches[0].to, link("nat.in")) << "the branch with a match comes first";
  EXPECT_EQ(split.branches[1].to, link("dpi.in"));
  EXPECT_TRUE(topology.splits[3].branches[1].config.copy());
  const auto& chain = topology.chains[0];
  EXPECT_EQ(chain.egresses, (std::vector<LinkIndex>{link("out")}));
  EXPECT_EQ(chain.drains, (std::vector<LinkIndex>{link("watch.out")}));
  EXPECT_EQ(chain.links.size(), topology.links.size());
  EXPECT_TRUE(chain.edges[1].first_shared) << "fw's link is of two edges";
  EXPECT_FALSE(chain.edges[1].last_shared);
  EXPECT_FALSE(chain.edges[3].first_shared);
  EXPECT_TRUE(chain.edges[3].last_shared) << "nat and dpi merge before monitor";
  const auto tasks = topology.TasksOf(0, {1, 1, 1, 1, 1});
  EXPECT_EQ(FunctionsOf(tasks), (std::vector<std::size_t>{0, 1, 2, 3, 4}));
  const auto& monitor = tasks.set.tasks[3];
  ASSERT_EQ(monitor.ingress.size, 1U);
  EXPECT_EQ(tasks.links[monitor.ingress.Of(tasks.set.ingresses)[0].link], link("monitor.in"));
}

TEST(TopologyTest, APacketOfAFunctionThatChoosesAPortMayLeaveByAll) {
  const Topology topology = Resolved(PortDiamond());
  EXPECT_TRUE(topology.splits.empty());
  ASSERT_EQ(topology.paths.size(), 4U);
  EXPECT_EQ(topology.paths[0].out.size(), 2U);
  EXPECT_EQ(topology.paths[3].in.size(), 2U);
  const auto tasks = topology.TasksOf(0, {1, 1, 1, 1});
  const auto& fw = tasks.set.tasks[0];
  ASSERT_EQ(fw.ingress.size, 1U);
  EXPECT_EQ(fw.egress.size, 2U);
  EXPECT_EQ(fw.ingress.Of(tasks.set.ingresses)[0].reaches, 3U);
  const auto& monitor = tasks.set.tasks[3];
  EXPECT_EQ(monitor.ingress.size, 2U);
  EXPECT_EQ(monitor.egress.size, 1U);
}

TEST(TopologyTest, LinksAreOpenAsLongAsAWayOutOfTheChainIs) {
  const Topology topology = Resolved(Diamond());
  const auto open = [&](const std::set<std::string>& dead, const std::string& link) {
    const auto found = std::ranges::find_if(
        topology.links, [&](const auto& each) { return each.config.name() == link; });
    return topology
        .OpenLinks([&](std::size_t function) {
          return !dead.contains(topology.functions[function].config.name());
        })
        .contains(found->first);
  };
  for (const auto& link : topology.links) EXPECT_TRUE(open({}, link.config.name()));
  EXPECT_TRUE(open({"dpi"}, "fw.in")) << "by nat";
  EXPECT_TRUE(open({"dpi"}, "fw.out"));
  EXPECT_FALSE(open({"dpi"}, "dpi.in"));
  EXPECT_TRUE(open({"watch"}, "fw.in"));
  EXPECT_FALSE(open({"watch"}, "watch.in"));
  EXPECT_FALSE(open({"nat", "dpi"}, "fw.in"));
  EXPECT_FALSE(open({"monitor"}, "nat.in")) << "nothing comes out behind it";
  EXPECT_FALSE(open({"monitor"}, "fw.in"));
  EXPECT_TRUE(open({"monitor"}, "watch.in"));
  for (const auto& path : topology.paths)
    EXPECT_EQ(path.copies, topology.functions[path.function].config.name() == "watch");
}

TEST(TopologyTest, AnEgressToADeadFunctionBlocksNobodyWhereAnotherLeadsOn) {
  const Topology topology = Resolved(PortDiamond());
  const auto egresses = [&](const std::vector<std::size_t>& threads) {
    return topology.TasksOf(0, threads).set.tasks[0].egress.size;
  };
  EXPECT_EQ(egresses({1, 1, 1, 1}), 2U);
  EXPECT_EQ(egresses({1, 1, 0, 1}), 1U);
  EXPECT_EQ(egresses({1, 0, 0, 1}), 2U) << "none leads on";
}

TEST(TopologyTest, SaysWhatIsWrongWithBranches) {
  const auto edge = [](auto& r, int i) { return r.mutable_chains(0)->mutable_edges(i); };
  const auto branch = [](auto& r, int split, int i) {
    return r.mutable_chains(0)->mutable_splits(split)->mutable_branches(i);
  };
  const std::vector<std::pair<std::string, std::function<void(v1::DeployRequest&)>>> mistakes = {
      {"hops and edges", [](auto& r) { AddHop(*r.mutable_chains(0), "fw"); }},
      {"passes through ids, which there is not", [&](auto& r) { edge(r, 1)->set_to("ids"); }},
      {"uses port 3 of nat, which has 1", [&](auto& r) { edge(r, 1)->set_in_port(3); }},
      {"stands before all that lead to fw",
       [](auto& r) { r.mutable_chains(0)->mutable_edges()->SwapElements(0, 1); }},
      {"from monitor to the sink is there twice",
       [](auto& r) {
         for (const auto& one : r.chains(0).edges())
           if (one.to().empty()) return void(*r.mutable_chains(0)->add_edges() = one);
       }},
      {"no circles", [](auto& r) { *r.mutable_chains(0)->add_edges() = r.chains(0).edges(0); }},
      {"goes from link r to link in, and its ports are on fw.out and nat.in",
       [&](auto& r) {
         edge(r, 1)->set_links(0, "r");
         edge(r, 1)->set_links(1, "in");
         AddRing(r, "r");
       }},
      {"needs a split from link fw.out to link nat.in",
       [](auto& r) { r.mutable_chains(0)->mutable_splits(0)->mutable_branches()->RemoveLast(); }},
      {"2 branches from link fw.out take what no other matches",
       [&](auto& r) { branch(r, 0, 1)->clear_match(); }},
      {"0 branches from link nat.out take what no other matches",
       [&](auto& r) { branch(r, 1, 0)->set_copy(true); }},
      {"some branches from link fw.out have a weight",
       [&](auto& r) { branch(r, 0, 0)->set_weight(1); }},
      {"has more than one of match, weight and copy",
       [&](auto& r) { branch(r, 0, 1)->set_weight(1); }},
      {"the packets of chain c end in watch", [](auto& r) { r.mutable_chains(0)->clear_drains(); }},
      {"drains link fw.in, which none of its functions fills",
       [](auto& r) { r.mutable_chains(0)->set_drains(0, "fw.in"); }},
      {"fills link r, which nothing empties",
       [&](auto& r) {
         AddRing(r, "r");
         auto* more = r.mutable_chains(0)->mutable_splits(0)->add_branches();
         more->set_to("r");
         more->set_copy(true);
       }},
      {"empties link r, which nothing fills",
       [](auto& r) {
         AddRing(r, "r");
         r.mutable_chains(0)->set_egress("r");
       }},
      {"emptied twice",
       [](auto& r) { *r.mutable_chains(0)->add_splits() = r.chains(0).splits(0); }},
  };
  for (const auto& [words, make] : mistakes) {
    auto request = Diamond();
    make(request);
    const std::string sentence = Refusal(request);
    EXPECT_NE(sentence.find(words), std::string::npos)
        << "not '" << words << "' but '" << sentence << "'";
  }
}

TEST(TopologyTest, PortsOfAGroupAreCounted) {
  std::vector<std::string> names;
  for (int i = 0; i < 31; ++i) names.push_back("f" + std::to_string(i));
  EXPECT_EQ(Refusal(RingChain(names)), "");
  auto request = RingChain(names);
  auto* port = request.mutable_functions(0)->add_ports();
  port->set_name("spare");
  port->set_rx("chain.0");
  EXPECT_NE(Refusal(request).find("33 ports are too many"), std::string::npos) << Refusal(request);
  // Memifs are none: neither the engine's end nor the program's is a port of the group.
  names.pop_back();
  auto bridged = RingChain(names);
  AddMemif(bridged, "m", 2048);
  auto* own = AddFunction(bridged, "own", v1::GROUP_OWN);
  AddPort(*own, "m", "m");
  AddPort(*AddFunction(bridged, "last"), "chain.0", "");
  EXPECT_EQ(Refusal(bridged), "");
}

TEST(TopologyTest, ForeignChainsEndWithLinksOfAnyKind) {
  const Topology topology = Resolved(ForeignChain());
  ASSERT_EQ(topology.paths.size(), 2U);
  EXPECT_EQ(topology.paths[0].in[0].link, 0U) << "to the server of memif 11";
  EXPECT_EQ(topology.paths[0].out[0].link, 2U) << "from the client of memif 12";
  EXPECT_EQ(topology.paths[0].out[0].link, topology.paths[1].in[0].link);
  EXPECT_EQ(topology.chains[0].ingress, topology.paths[0].in[0].link);
  EXPECT_EQ(topology.chains[0].egresses[0], topology.paths[1].out[0].link);
  EXPECT_TRUE(topology.splits.empty());
}

TEST(TopologyTest, WhatIsForeignAndWhatIsNotDoNotMix) {
  const auto refusal = [](const std::function<void(v1::DeployRequest&)>& change,
                          v1::DeployRequest request = ForeignChain()) {
    change(request);
    return Refusal(request);
  };
  EXPECT_EQ(refusal([](auto& r) { r.mutable_functions(0)->set_group(v1::GROUP_OWN); }),
            "function first is not foreign, unlike the run");
  EXPECT_EQ(refusal([](auto& r) { r.mutable_functions(0)->set_group(v1::GROUP_FOREIGN); },
                    RingChain({"fw"})),
            "function fw is foreign, unlike the run");
  EXPECT_EQ(refusal([](auto& r) { r.mutable_links(0)->mutable_memif()->clear_inode(); }),
            "link memif-11 is foreign and has no inode");
  EXPECT_EQ(
      refusal([](auto& r) { r.mutable_links(2)->mutable_memif()->set_inode(7); }, MemifChain()),
      "link m0 has an inode, which only foreign memifs have");
  EXPECT_EQ(
      refusal([](auto& r) { r.mutable_links(2)->mutable_memif()->clear_socket(); }, MemifChain()),
      "link m0 has no socket");
  EXPECT_EQ(refusal([](auto& r) { r.mutable_links(0)->clear_slots(); }, RingChain({"fw"})),
            "link chain.0 has no slots");
}

TEST(TopologyTest, AForeignMemifHasAtMostOneOfEachEnd) {
  v1::DeployRequest request = ForeignChain();
  request.mutable_functions(0)->mutable_ports(1)->set_end(0);
  EXPECT_EQ(Refusal(request),
            "link memif-12 has 2 users of its end 0 and 0 of its end 1; give each end one");
}

}  // namespace
}  // namespace unis
