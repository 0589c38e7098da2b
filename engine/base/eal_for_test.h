// DPDK for tests: EAL without hugepages, devices or files, started once a process. lcore 0 is the
// test's main thread; lcores kServiceLcores share the last CPU, kPlatformLcores CPU 0 with us.
#pragma once

#include <fmt/format.h>
#include <rte_eal.h>
#include <rte_mempool.h>

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/machine_for_test.h"
#include "engine/base/sanitizer.h"

namespace unis {

inline constexpr std::array kServiceLcores = {1U, 2U};
inline constexpr std::array kPlatformLcores = {3U, 4U, 5U, 6U};
inline constexpr unsigned kPlatformLcore = kPlatformLcores.front();

#if UNIS_THREAD_SANITIZER
// Tells the thread sanitizer, which does not see into DPDK's libraries, that a buffer of packet
// memory comes from the thread that gave it back.
inline rte_mempool_ops pool_handler;

inline void LetSanitizerSeePools() {
  for (std::uint32_t i = 0; i < rte_mempool_ops_table.num_ops; ++i) {
    rte_mempool_ops& ops = rte_mempool_ops_table.ops[i];
    if (std::string_view(ops.name) != "lf_stack") continue;  // as PacketMemory has it
    pool_handler = ops;
    ops.enqueue = [](rte_mempool* pool, void* const* buffers, unsigned count) {
      Released(&pool_handler);
      return pool_handler.enqueue(pool, buffers, count);
    };
    ops.dequeue = [](rte_mempool* pool, void** buffers, unsigned count) {
      const int result = pool_handler.dequeue(pool, buffers, count);
      Acquired(&pool_handler);
      return result;
    };
  }
}
#else
inline void LetSanitizerSeePools() {}
#endif

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
    if (rte_eal_init(static_cast<int>(words.size()), arguments.data()) < 0) return false;
    LetSanitizerSeePools();
    return true;
  }();
  return started;
}

}  // namespace unis
