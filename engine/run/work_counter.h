// Of the CPU time of each function, how much was work and not spinning: packets · cost, summed up
// with the cost of the time, so that it only grows.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>

namespace unis {

class WorkCounter {
 public:
  // `packets`: received so far, of all paths. `cost_ns`: of each since the last call. The work, ns.
  std::uint64_t Update(const std::string& function, std::uint64_t packets, double cost_ns) {
    One& one = functions_[function];
    if (packets > one.packets) {
      one.work_ns += static_cast<double>(packets - one.packets) * cost_ns;
      one.packets = packets;
    }
    // `packets` are a function's to write: not every number of it can be a time.
    constexpr double kMost = 1e18;
    return static_cast<std::uint64_t>(std::min(one.work_ns, kMost));
  }
  // A function of that name which comes later begins at nothing.
  void Forget(const std::string& function) { functions_.erase(function); }

 private:
  struct One {
    std::uint64_t packets = 0;
    double work_ns = 0;
  };
  std::map<std::string, One> functions_;
};

}  // namespace unis
