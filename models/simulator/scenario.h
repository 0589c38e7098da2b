// What is simulated and what came of it, as plain data: the simulator's core knows no protobuf.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/histogram.h"
#include "engine/base/size_mix.h"
#include "engine/scheduler/components.h"
#include "engine/scheduler/policy.h"
#include "engine/scheduler/settings.h"

namespace unis::sim {

enum class ArrivalKind : std::uint8_t { kSaturating, kConstant, kPoisson, kOnOff };

// A function is one task: a poll-mode thread that serves all chains that pass through it.
struct FunctionSpec {
  std::string name;
  std::uint32_t cpu = 0;
  double cost_ns = 0;  // per packet
  // (bytes, ns), ascending, linear in between, constant beyond the ends; empty: cost_ns.
  std::vector<std::pair<std::uint32_t, double>> cost_by_size;
  std::uint32_t yield_every = 0;            // bursts; 0: it never yields
  double pass_ratio = 1;                    // share of the packets that it sends on
  std::optional<double> scheduled_cost_ns;  // what the scheduler believes; absent: the true mean
  // From `cost_changes_at` on, warm-up included, a packet costs `cost_factor` times as much.
  double cost_factor = 1;
  Nanoseconds cost_changes_at = 0;
};

struct ArrivalSpec {
  ArrivalKind kind = ArrivalKind::kSaturating;
  double pps = 0;       // while on
  Nanoseconds on = 0;   // kOnOff
  Nanoseconds off = 0;  // kOnOff
  SizeMix mix = SizeMix::kFixed;
  std::uint32_t size = 64;   // bytes with FCS, kFixed
  std::uint32_t burst = 32;  // packets that arrive together
};

// Packets of a chain pass from a function to another. Edges that leave a function by different
// ports are links that it fills itself, each with its share of the packets. Edges that leave by one
// port are a split of the engine's: it takes packets from the link behind the port when there is
// room for them in the link of the edge. A copy that finds no room is not made.
struct EdgeSpec {
  std::optional<FunctionIndex> from = {};  // none: packets arrive
  std::optional<FunctionIndex> to = {};    // none: packets are delivered
  std::uint32_t port = 0;                  // of `from`
  double weight = 1;                       // packets take edges by their weights
  bool copy = false;                       // of every packet that leaves by the port
  std::uint32_t capacity = 0;              // packets
};

// Either a path or edges.
struct ChainSpec {
  std::string name;
  std::vector<FunctionIndex> path;      // functions, in order
  std::vector<std::uint32_t> capacity;  // packets; of the link before each function and the last
  std::vector<EdgeSpec> edges;
  ArrivalSpec arrivals;
};

// Measured on a two-core virtual machine, Linux 6.18.
struct MachineSpec {
  double switch_ns = 14'000;  // from the scheduler's decision until the next task runs
  std::optional<double> scheduled_switch_ns;  // what the scheduler believes; absent: the truth
  double switch_call_ns = 8'000;              // of which the scheduler itself is busy
  double yield_ns = 1'400;                    // a co-operative hand-over
  double kernel_switch_ns = 2'500;            // a preemption by the kernel: nobody runs meanwhile
  double poll_ns = 20;                        // an empty poll
  Nanoseconds rr_slice = 100'000'000;         // the kernel's sched_rr_timeslice_ms
  Nanoseconds fair_slice = 3'000'000;         // EEVDF's base slice
  // Per packet. Both 0: source, sink and decisions take no time.
  double source_ns = 0;
  double sink_ns = 0;
  bool platform_has_three_cpus = false;  // else source, sink and scheduler take turns on one
  // Injected faults.
  double late_tick_ratio = 0;    // share of the ticks that come late
  Nanoseconds late_tick = 0;     // by so much
  double lost_switch_ratio = 0;  // share of the scheduler's switches that fail

  bool platform_takes_time() const { return source_ns > 0 || sink_ns > 0; }
};

struct Scenario {
  std::vector<FunctionSpec> functions;  // in the order of the chains: wait queues keep it
  std::vector<ChainSpec> chains;
  MachineSpec machine;
  SchedulerSettings scheduler;
  Policy policy = Policy::kUnis;
  bool handover = false;     // functions yield by themselves, as with the controller of that name
  Nanoseconds duration = 0;  // measured, after the warm-up
  Nanoseconds warmup = 0;
  std::uint64_t seed = 0;
  bool trace = false;
};

struct FunctionResult {
  std::uint64_t processed = 0;
  std::uint64_t dropped_egress_full = 0;
  std::uint64_t dropped_by_function = 0;
  Nanoseconds busy = 0;
  Nanoseconds spinning = 0;
  std::uint64_t switched_in = 0;
};

// offered = taken + dropped + waiting. What waited when the warm-up ended is offered.
struct EdgeResult {
  std::uint64_t offered = 0;
  std::uint64_t taken = 0;
  std::uint64_t dropped = 0;  // the link was full
  std::uint64_t waiting = 0;
};

// offered + copied = delivered + drops + in_flight. What was in flight when the warm-up ended is
// offered.
struct ChainResult {
  std::uint64_t offered = 0;
  std::uint64_t copied = 0;
  std::uint64_t delivered = 0;
  std::uint64_t dropped_ingress_full = 0;
  std::uint64_t dropped_egress_full = 0;
  std::uint64_t dropped_by_function = 0;
  std::uint64_t in_flight = 0;
  LatencyHistogram latency;  // ns, from arrival to sink
  std::vector<EdgeResult>
      edges;  // as in ChainSpec; of a path one before each function and the last
};

struct RunInterval {
  CoreIndex core;
  FunctionIndex function;
  Nanoseconds begin;
  Nanoseconds end;
  std::uint64_t packets;
};

struct Result {
  std::vector<std::uint32_t> cpus;  // CPU number of each core index
  std::vector<ChainResult> chains;
  std::vector<FunctionResult> functions;
  std::uint64_t switches = 0;  // completed
  std::uint64_t failed_switches = 0;
  std::uint64_t ticks = 0;  // looks at a core
  std::vector<SwitchRecord> events;
  std::vector<RunInterval> runs;
};

}  // namespace unis::sim
