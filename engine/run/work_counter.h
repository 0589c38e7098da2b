// Of the CPU time of each function, how much was work and not spinning: packets · cost, summed up
// with the cost of the time, so that it only grows.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace unis {

class WorkCounter {
 public:
  explicit WorkCounter(std::size_t functions) : functions_(functions) {}

  // `packets`: received so far, of all paths. `cost_ns`: of each since the last call.
  std::uint64_t Update(std::size_t function, std::uint64_t packets, double cost_ns) {
    One& one = functions_[function];
    if (packets > one.packets) {
      one.work_ns += static_cast<double>(packets - one.packets) * cost_ns;
      one.packets = packets;
    }
    // `packets` are a function's to write: not every number of it can be a time.
    constexpr double kMost = 1e18;
    return static_cast<std::uint64_t>(std::min(one.work_ns, kMost));
  }
  // Goes on from where `before` was with the function that has the number `at` there.
  void Inherit(std::size_t function, const WorkCounter& before, std::size_t at) {
    functions_[function] = before.functions_[at];
  }

 private:
  struct One {
    std::uint64_t packets = 0;
    double work_ns = 0;
  };
  std::vector<One> functions_;
};

}  // namespace unis
