// What a deployment is made of, worked out from the contract's messages: which links are in front
// of and behind each path, what the engine carries across, which tasks share a core. Plain data: it
// opens nothing, so every mistake in a deployment is found, and tested, without DPDK.
#pragma once

#include <absl/status/statusor.h>

#include <cstddef>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "engine/platform/links/link.h"
#include "engine/scheduler/task.h"
#include "unis/v1/engine.pb.h"

namespace unis {

struct Topology {
  // A LinkIndex for each direction of a link.
  struct Link {
    v1::LinkConfig config;
    const LinkKind* kind;
    LinkIndex first = 0;
    LinkIndex directions() const { return kind->directions(); }
    bool engine_has_end() const { return kind->engine_has_end(config); }
    bool is_wire() const { return kind->is_wire(config); }
    // As one of its ends sees it.
    LinkIndex rx(unsigned end) const { return directions() == 1 ? first : first + end; }
    LinkIndex tx(unsigned end) const { return directions() == 1 ? first : first + 1 - end; }
  };
  struct Port {
    std::string name;
    std::optional<LinkIndex> rx, tx;
  };
  struct Function {
    v1::FunctionConfig config;
    CoreIndex core = 0;
    std::vector<Port> ports;
    std::vector<std::size_t> paths;                                     // in `paths`
    bool counts() const { return config.group() == v1::GROUP_ENGINE; }  // by net_unis ports
  };
  // A port of a function, and the link that it receives from or sends to.
  struct End {
    std::size_t port;
    LinkIndex link;
    friend bool operator==(const End&, const End&) = default;
  };
  // A chain's way through a function: what comes in by one end may leave by any. One end on each
  // side, but where the chain branches or merges.
  struct Path {
    std::size_t chain;
    std::size_t function;
    std::vector<End> in, out;
    bool copies = false;  // nothing but copies come in
  };
  // Where the engine carries packets from one link into others; of one branch it is a bridge.
  struct Branch {
    v1::Branch config;
    LinkIndex to;
  };
  struct Split {
    std::size_t chain;
    LinkIndex from;
    std::vector<Branch> branches;  // those with a match, then the others, then the copies
  };
  // Of a chain with branches, from the link that packets come into first to the one that they
  // leave last. A link is shared where other edges of the chain have it too.
  struct Edge {
    v1::ChainEdge config;
    LinkIndex first, last;
    bool first_shared = false, last_shared = false;
  };
  // The engine has an end of all these links, but where they are foreign or wires.
  struct Chain {
    v1::ChainConfig config;
    LinkIndex ingress = 0;
    std::vector<LinkIndex> egresses;
    std::vector<LinkIndex> drains;   // of copies
    std::vector<std::size_t> paths;  // in `paths`, each behind those that lead to it
    std::vector<Edge> edges;         // none: it has no branches
    std::set<LinkIndex> links;       // all that its packets pass
  };

  std::vector<Link> links;
  std::vector<Function> functions;
  std::vector<Chain> chains;
  std::vector<Path> paths;
  std::vector<Split> splits;
  std::vector<unsigned> cpus;  // of each core of the scheduler

  LinkIndex directions() const;                    // of all links
  const Link& link_of(LinkIndex direction) const;  // the link that a direction belongs to
  std::optional<std::size_t> FindFunction(const std::string& name) const;
  // The links whose packets still come out of their chain, copies where they are drained, while
  // only those positions in `functions` run of which `runs` says so.
  std::set<LinkIndex> OpenLinks(const std::function<bool(std::size_t)>& runs) const;

  // What the scheduler of a core sees. Each polling thread is a task, those of one function one
  // behind the other; which of them takes and which passes on the scheduler finds out, so they
  // share its paths. Functions that no chain passes through have none. Where one of a function's
  // egresses is open, the others are not among them.
  //
  // Links and functions have numbers of this core alone, so that what changes on others does not
  // change them: `links[LinkIndex]` is the direction here, `functions[FunctionIndex]` the position
  // in `functions`. `thread_of[task]`: among the function's threads.
  struct Tasks {
    TaskSet set;  // all on core 0
    std::vector<LinkIndex> links;
    std::vector<std::size_t> functions;
    std::vector<std::size_t> thread_of;
  };
  Tasks TasksOf(CoreIndex core, const std::vector<std::size_t>& threads) const;  // of each function
  // The CPUs of these functions, and of all that share a link with one of them.
  std::set<unsigned> CpusAround(const std::set<std::string>& functions) const;

  // `cpus`: those that functions may be put on. The links, functions and chains of the request; an
  // error is a sentence that names what is wrong.
  static absl::StatusOr<Topology> Resolve(const v1::DeployRequest& request,
                                          const std::set<unsigned>& cpus);
};

}  // namespace unis
