// What a deployment is made of, worked out from the contract's messages: which link is in front of
// and behind each path, what the engine carries across, which tasks share a core. Plain data: it
// opens nothing, so every mistake in a deployment is found, and tested, without DPDK.
#pragma once

#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
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
  // A chain's way through a function.
  struct Path {
    std::size_t chain;
    std::size_t function;
    std::size_t in_port, out_port;  // of the function
    LinkIndex in, out;
  };
  // Where the engine carries packets from one link into another.
  struct Bridge {
    std::size_t chain;
    LinkIndex from, to;
  };
  struct Chain {
    v1::ChainConfig config;
    LinkIndex ingress, egress;       // of which the engine has an end, but where they are foreign
    std::vector<std::size_t> paths;  // in `paths`, in order
  };

  std::vector<Link> links;
  std::vector<Function> functions;
  std::vector<Chain> chains;
  std::vector<Path> paths;
  std::vector<Bridge> bridges;
  std::vector<unsigned> cpus;  // of each core of the scheduler

  LinkIndex directions() const;                    // of all links
  const Link& link_of(LinkIndex direction) const;  // the link that a direction belongs to
  std::optional<std::size_t> FindFunction(const std::string& name) const;

  // What the scheduler sees. Each polling thread is a task, those of one function one behind the
  // other; which of them takes and which passes on the scheduler finds out, so they share its
  // paths. Those that no chain passes through have none. `function_of[task]` is its position in
  // `functions`, which is its FunctionIndex too; `thread_of[task]` that among the function's
  // threads.
  struct Tasks {
    TaskSet set;
    std::vector<std::size_t> function_of, thread_of;
  };
  Tasks TasksOf(const std::vector<std::size_t>& threads) const;  // how many of each function

  // `cpus`: those that functions may be put on. The links, functions and chains of the request; an
  // error is a sentence that names what is wrong.
  static absl::StatusOr<Topology> Resolve(const v1::DeployRequest& request,
                                          const std::set<unsigned>& cpus);
};

}  // namespace unis
