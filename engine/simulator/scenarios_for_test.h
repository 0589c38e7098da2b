// Scenarios that several tests start from.
#pragma once

#include <string>
#include <vector>

#include "engine/simulator/scenario.h"

namespace unis::sim {

inline constexpr Nanoseconds kMillisecond = 1'000'000;

// A saturated chain of NFs a, b, c … of equal cost on CPU 1, as on the paper's testbed: the lead is
// as long as a switch, co-operative NFs yield every 8 bursts (section 5.1.3).
inline Scenario OneCore(Policy policy, std::size_t nfs, double cost_ns) {
  Scenario scenario;
  scenario.policy = policy;
  scenario.duration = 200 * kMillisecond;
  scenario.warmup = 20 * kMillisecond;
  scenario.scheduler.lead = static_cast<Nanoseconds>(scenario.machine.switch_ns);
  ChainSpec chain;
  chain.name = "chain";
  for (std::size_t i = 0; i < nfs; ++i) {
    NfSpec nf;
    nf.name = std::string(1, static_cast<char>('a' + i));
    nf.cpu = 1;
    nf.cost_ns = cost_ns;
    nf.yield_every = 8;
    chain.nfs.push_back(nf);
  }
  scenario.chains.push_back(chain);
  return scenario;
}

// Packets per second of the first chain.
inline double Throughput(const Scenario& scenario, const Result& result) {
  return static_cast<double>(result.chains.at(0).delivered) * 1e9 /
         static_cast<double>(scenario.duration);
}

}  // namespace unis::sim
