// What a run did between two moments, and who ran when: the difference of two snapshots, and traces
// of all schedulers as one reply.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "engine/base/stolen_time.h"
#include "engine/run/core_control.h"
#include "engine/run/deployment.h"
#include "engine/run/thread_registry.h"
#include "engine/timer/tsc_timer.h"
#include "unis/v1/engine.pb.h"

namespace unis {

struct Snapshot {
  Nanoseconds time = 0;
  v1::Account account;
  std::uint64_t delivered_bytes = 0;
  std::uint64_t switches = 0;
  std::uint64_t engine_cpu_ns = 0;
  struct OfChain {
    std::uint64_t offered = 0;
    std::uint64_t delivered = 0;
    LatencyHistogram latency;
  };
  std::map<std::string, OfChain> chains;
  std::map<std::string, std::uint64_t> cpu_ns, turns, packets, context_switches;  // by function
  StolenNs stolen;
};

// `counts`: of all schedulers so far.
Snapshot TakeSnapshot(const Deployment& deployment, const ThreadRegistry& members,
                      const ScheduleCounts& counts, const TscTimer& timer);
v1::MeasureReply Difference(const Snapshot& begin, const Snapshot& end);

struct CoreTrace {
  unsigned cpu = 0;
  std::vector<std::string> functions;  // by task
  Trace trace;
};
// Fills in switches and runs of all cores, in the order of time.
void FillTrace(const std::vector<CoreTrace>& cores, v1::TraceReply& reply);

}  // namespace unis
