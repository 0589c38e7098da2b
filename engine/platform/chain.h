// A service function chain as source and sink see it: the engine's ends of its first link and of
// its last ones, and what is counted there. The links between its functions are the run's.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/counter.h"
#include "engine/base/histogram.h"
#include "engine/platform/links/link.h"
#include "ports/unis_ports/sampling.h"

namespace unis {

class Chain {
 public:
  // Must outlive the chain; null: others have them.
  struct Ends {
    LinkEnd* ingress;
    std::vector<LinkEnd*> egresses;
    std::vector<LinkEnd*> drains = {};  // of copies, that end where they come out
    friend bool operator==(const Ends&, const Ends&) = default;
  };

  Chain(std::string name, Ends ends) : name_(std::move(name)), ends_(std::move(ends)) {}
  Chain(const Chain&) = delete;
  Chain& operator=(const Chain&) = delete;

  const std::string& name() const { return name_; }
  const Ends& ends() const { return ends_; }
  LinkEnd* ingress() const { return ends_.ingress; }
  // Packets that were lost because a function was not there.
  std::uint64_t Down() const {
    return dropped_down.value() + dropped_waiting.value() + dropped_in_bridges.value();
  }

  // False: no packet comes through, for functions are not there, and what comes is dropped.
  std::atomic<bool> up{true};
  // Written by the traffic source.
  Counter offered;
  Counter dropped_ingress_full;
  Counter dropped_down;
  unis_sampler sent_sampler{};
  // Written by whoever takes what waits for a function that is not there.
  Counter dropped_waiting, copies_dropped;
  // Written by the bridges.
  Counter dropped_in_bridges;
  // Written by the sink.
  Counter delivered;
  Counter delivered_bytes;
  Counter dropped_sink;
  unis_sampler received_sampler{};
  // ns; only inside the sink's Iterate() and Do(). A packet's time of entry travels in its mbuf,
  // which a link that copies does not carry over: such packets are not recorded.
  LatencyHistogram latency;

 private:
  std::string name_;
  Ends ends_;
};

using Chains = std::vector<std::unique_ptr<Chain>>;

}  // namespace unis
