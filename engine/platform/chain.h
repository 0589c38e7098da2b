// A service function chain as source and sink see it: the engine's end of its first and of its last
// link, and what is counted there. The links between its functions are the run's.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/counter.h"
#include "engine/base/histogram.h"
#include "engine/platform/links/link.h"

namespace unis {

class Chain {
 public:
  // The ends must outlive the chain; null: others have them.
  Chain(std::string name, LinkEnd* ingress, LinkEnd* egress)
      : name_(std::move(name)), ingress_(ingress), egress_(egress) {}
  Chain(const Chain&) = delete;
  Chain& operator=(const Chain&) = delete;

  const std::string& name() const { return name_; }
  LinkEnd* ingress() const { return ingress_; }
  LinkEnd* egress() const { return egress_; }

  // False: a function of it is not there, and what comes is dropped.
  std::atomic<bool> up{true};
  // Written by the traffic source.
  Counter offered;
  Counter dropped_ingress_full;
  Counter dropped_down;
  // Written by whoever takes what waits for a function that is not there.
  Counter dropped_waiting;
  // Written by the sink.
  Counter delivered;
  Counter delivered_bytes;
  Counter dropped_sink;
  // ns; only inside the sink's Iterate() and Do(). A packet's time of entry travels in its mbuf,
  // which a link that copies does not carry over: such packets are not recorded.
  LatencyHistogram latency;

 private:
  std::string name_;
  LinkEnd* ingress_;
  LinkEnd* egress_;
};

using Chains = std::vector<std::unique_ptr<Chain>>;

}  // namespace unis
