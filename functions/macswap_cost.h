// The imitated cost of a packet (section 5.1.2 of the paper: light, medium and heavy functions), in
// CPU core cycles, constant or a step function of the packet's size.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "functions/common/result.h"

namespace unis::functions {

struct CostStep {
  std::uint32_t size;    // bytes, inclusive
  std::uint32_t cycles;  // for packets of up to `size` bytes that no earlier step took
  bool operator==(const CostStep&) const = default;
};

class PacketCost {
 public:
  static constexpr std::uint32_t kLight = 50, kMedium = 150, kHeavy = 250;  // cycles
  static constexpr std::uint32_t kMax = 100'000'000;                        // cycles

  PacketCost() = default;
  // light, medium, heavy, a number of cycles, or SIZE:CYCLES,… with growing sizes.
  static Result<PacketCost> Parse(std::string_view value);

  // The last step also stands for anything longer.
  std::uint32_t Cycles(std::uint32_t size) const {
    const CostStep* step = steps_.data();
    const CostStep* const last = step + steps_.size() - 1;
    while (step != last && size > step->size) ++step;
    return step->cycles;
  }
  bool IsZero() const;
  std::span<const CostStep> steps() const { return steps_; }

 private:
  explicit PacketCost(std::vector<CostStep> steps) : steps_(std::move(steps)) {}
  std::vector<CostStep> steps_{{0, 0}};  // never empty
};

// Work that takes about `cycles` core cycles and keeps its meaning when the thread is preempted
// (unlike waiting for a clock) or the clock rate changes: a chain of integer multiplications, each
// of which needs the result of the one before. A 32-bit IMUL has a latency of 3 cycles on Intel
// since Nehalem and on AMD since K8 (Agner Fog, Instruction tables); MUL has 2 to 3 on Arm
// Cortex-A72 and Neoverse N1 (Arm's Software Optimization Guides). The loop's own counting runs
// beside the chain. Takes and returns the chain's value, so that the work of one packet waits for
// that of the last.
inline std::uint32_t ImitateWork(std::uint32_t chain, std::uint32_t cycles) {
  constexpr std::uint32_t kLatency = 3;  // cycles
  for (std::uint32_t i = (cycles + kLatency / 2) / kLatency; i > 0; --i) {
    chain *= 0x9e3779b1u;
    asm volatile("" : "+r"(chain));  // keeps the compiler from folding multiplications
  }
  return chain;
}

}  // namespace unis::functions
