// Scenarios that several tests start from.
#pragma once

#include <string>
#include <vector>

#include "models/simulator/scenario.h"

namespace unis::sim {

inline constexpr Nanoseconds kMillisecond = 1'000'000;

inline constexpr std::uint32_t kRing = 2047;  // packets that a ring of 2048 slots holds

inline FunctionSpec Function(const std::string& name, double cost_ns, std::uint32_t cpu = 1) {
  FunctionSpec function;
  function.name = name;
  function.cpu = cpu;
  function.cost_ns = cost_ns;
  function.yield_every = 8;
  return function;
}

inline ChainSpec Chain(const std::string& name, const std::vector<FunctionIndex>& path,
                       std::uint32_t capacity = kRing) {
  ChainSpec chain;
  chain.name = name;
  chain.path = path;
  chain.capacity.assign(path.size() + 1, capacity);
  return chain;
}

// A saturated chain of functions a, b, c … of equal cost on CPU 1, as on the paper's testbed: the
// lead is as long as a switch, co-operative functions yield every 8 bursts (section 5.1.3).
inline Scenario OneCore(Policy policy, std::size_t functions, double cost_ns) {
  Scenario scenario;
  scenario.policy = policy;
  scenario.duration = 200 * kMillisecond;
  scenario.warmup = 20 * kMillisecond;
  scenario.scheduler.latency_compensation = static_cast<Nanoseconds>(scenario.machine.switch_ns);
  std::vector<FunctionIndex> path;
  for (FunctionIndex i = 0; i < functions; ++i) {
    scenario.functions.push_back(Function(std::string(1, static_cast<char>('a' + i)), cost_ns));
    path.push_back(i);
  }
  scenario.chains.push_back(Chain("chain", path));
  return scenario;
}

// The same chain again, of functions of its own on another CPU.
inline void AddChainLikeTheFirst(Scenario& scenario, std::uint32_t cpu) {
  ChainSpec chain = scenario.chains[0];
  chain.name += std::to_string(scenario.chains.size());
  for (FunctionIndex& hop : chain.path) {
    FunctionSpec function = scenario.functions[hop];
    function.name += std::to_string(scenario.chains.size());
    function.cpu = cpu;
    hop = static_cast<FunctionIndex>(scenario.functions.size());
    scenario.functions.push_back(function);
  }
  scenario.chains.push_back(chain);
}

// Packets per second of the first chain.
inline double Throughput(const Scenario& scenario, const Result& result) {
  return static_cast<double>(result.chains.at(0).delivered) * 1e9 /
         static_cast<double>(scenario.duration);
}

}  // namespace unis::sim
