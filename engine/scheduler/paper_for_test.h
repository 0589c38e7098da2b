// The paper's settings, tasks in a line or apart, for tests of Algorithm 1.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/scheduler/algorithm_one.h"
#include "engine/scheduler/rig_for_test.h"

namespace unis {

constexpr std::uint32_t kCapacity = 2048;
constexpr std::uint32_t kThetaMin = 56;
constexpr std::uint32_t kThetaMax = 1536;  // 0.75 · 2048
constexpr std::uint32_t kPlenty = 1000;    // neither ≤ θmin nor ≥ θmax
constexpr Nanoseconds kT = 1'000;
constexpr double kCost = 100;
constexpr Nanoseconds kSlice = 153'600;  // 100 ns · 0.75 · 2048

// That of the first core, under policy unis.
inline AlgorithmOne& AlgorithmOf(Rig& rig) { return dynamic_cast<AlgorithmOne&>(rig.cores[0]); }

inline FakeMonitor Links(std::size_t count) {
  FakeMonitor monitor;
  monitor.packets.assign(count, kPlenty);
  monitor.capacity.assign(count, kCapacity);
  return monitor;
}

// Links that hold `packets`.
inline FakeMonitor Filled(const std::vector<std::uint32_t>& packets) {
  FakeMonitor links;
  links.packets = packets;
  links.capacity.assign(packets.size(), kCapacity);
  links.sent.assign(packets.size(), 0);
  links.received.assign(packets.size(), 0);
  return links;
}

// One chain whose task i reads link i and writes link i + 1.
inline std::vector<OnePath> Chain(const std::vector<CoreIndex>& cores) {
  std::vector<OnePath> tasks;
  for (LinkIndex i = 0; i < cores.size(); ++i) tasks.push_back({cores[i], i, i + 1, kCost});
  return tasks;
}

// `count` tasks on one core with two links each, so that a test can fill them one by one: task i
// reads link 2i and writes link 2i + 1.
inline std::vector<OnePath> Apart(std::size_t count) {
  std::vector<OnePath> tasks;
  for (LinkIndex i = 0; i < count; ++i) tasks.push_back({0, 2 * i, 2 * i + 1, kCost});
  return tasks;
}

inline Rig Started(const SchedulerSettings& settings, const std::vector<OnePath>& tasks,
                   CoreIndex cores, std::size_t links) {
  return Rig(settings, tasks, cores, Links(links));
}

}  // namespace unis
