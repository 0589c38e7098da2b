// Waiting in tests for what other threads and processes do.
#pragma once

#include <chrono>
#include <thread>

namespace unis {

using TestClock = std::chrono::steady_clock;
using namespace std::chrono_literals;

// Calls `condition` until it holds; false: not within `limit`.
template <typename Condition>
bool Eventually(Condition condition, TestClock::duration limit = 20s) {
  const auto deadline = TestClock::now() + limit;
  while (!condition()) {
    if (TestClock::now() > deadline) return false;
    std::this_thread::sleep_for(100us);
  }
  return true;
}

}  // namespace unis
