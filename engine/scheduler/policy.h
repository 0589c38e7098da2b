// What each policy of the contract is. The one place to add one: the engine applies the kernel's
// part of a line, the simulator imitates it.
#pragma once

#include <cstdint>

#include "engine/scheduler/components.h"

namespace unis {

// Numbered as v1::Policy is.
enum class Policy : std::uint8_t {
  kUnis = 1,
  kCooperative = 2,
  kRr = 3,
  kFifo = 4,
  kOther = 5,
  kBatch = 6,
};

// How the kernel runs the tasks of a core where it decides.
enum class KernelClass : std::uint8_t { kFair, kBatch, kFifo, kRoundRobin };

struct PolicyTraits {
  Policy policy;
  bool engine_decides;   // Algorithm 1, through a process controller; else the kernel
  KernelClass kernel;    // of the tasks, where the kernel decides
  bool functions_yield;  // they give up the CPU on their own
};

inline constexpr PolicyTraits kPolicies[] = {
    {Policy::kUnis, true, KernelClass::kFair, false},
    {Policy::kCooperative, false, KernelClass::kFifo, true},
    {Policy::kRr, false, KernelClass::kRoundRobin, false},
    {Policy::kFifo, false, KernelClass::kFifo, false},
    {Policy::kOther, false, KernelClass::kFair, false},
    {Policy::kBatch, false, KernelClass::kBatch, false},
};

// Null: there is no such policy.
constexpr const PolicyTraits* TraitsOf(Policy policy) {
  for (const PolicyTraits& traits : kPolicies) {
    if (traits.policy == policy) return &traits;
  }
  return nullptr;
}

}  // namespace unis
