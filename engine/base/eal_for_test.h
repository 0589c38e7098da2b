// DPDK for tests: EAL without hugepages, devices or files, started once a process. lcore 0 is the
// test's main thread; lcores kServiceLcores share the last CPU, kPlatformLcores CPU 0 with us.
#pragma once

#include <fmt/format.h>
#include <rte_eal.h>

#include <array>
#include <string>
#include <vector>

#include "engine/base/machine_for_test.h"

namespace unis {

inline constexpr std::array kServiceLcores = {1U, 2U};
inline constexpr std::array kPlatformLcores = {3U, 4U, 5U, 6U};
inline constexpr unsigned kPlatformLcore = kPlatformLcores.front();

// False: EAL did not start, and said why.
inline bool StartTestEal(const std::vector<std::string>& more = {}) {
  static const bool started = [&more] {
    std::vector<std::string> words{"test",
                                   "--no-huge",
                                   "-m",
                                   "256",
                                   "--no-shconf",
                                   "--no-pci",
                                   "--no-telemetry",
                                   "--log-level=error",
                                   "--lcores",
                                   fmt::format("0@0,1@{0},2@{0},(3-6)@0", LastCpu())};
    words.insert(words.end(), more.begin(), more.end());
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    return rte_eal_init(static_cast<int>(words.size()), arguments.data()) >= 0;
  }();
  return started;
}

}  // namespace unis
