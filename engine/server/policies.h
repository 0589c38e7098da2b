// What each policy of the contract means on this machine. The one place to add a policy.
#pragma once

#include <absl/status/statusor.h>
#include <sched.h>

#include "unis/v1/engine.pb.h"

namespace unis {

struct PolicyTraits {
  v1::Policy policy;
  bool engine_decides;  // Algorithm 1 runs, through a process controller; else the kernel decides
  int kernel_class;     // of the NFs, where the kernel decides
  int priority;
  bool nfs_yield;  // NFs give up the CPU on their own
};

inline constexpr PolicyTraits kPolicies[] = {
    {v1::POLICY_UNIS, true, SCHED_OTHER, 0, false},
    {v1::POLICY_COOPERATIVE, false, SCHED_FIFO, 1, true},
    {v1::POLICY_RR, false, SCHED_RR, 1, false},
    {v1::POLICY_FIFO, false, SCHED_FIFO, 1, false},
    {v1::POLICY_OTHER, false, SCHED_OTHER, 0, false},
    {v1::POLICY_BATCH, false, SCHED_BATCH, 0, false},
};

inline absl::StatusOr<PolicyTraits> TraitsOf(v1::Policy policy) {
  for (const PolicyTraits& traits : kPolicies) {
    if (traits.policy == policy) return traits;
  }
  return absl::InvalidArgumentError("unknown policy");
}

}  // namespace unis
