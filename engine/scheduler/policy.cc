#include "engine/scheduler/policy.h"

#include <algorithm>
#include <iterator>

#include "engine/scheduler/algorithm_one.h"
#include "engine/scheduler/handover.h"

namespace unis {
namespace {

template <typename Scheduler>
std::unique_ptr<CoreScheduler> Make(const SchedulerParts& of) {
  return std::make_unique<Scheduler>(of.settings, of.tasks, of.core, of.costs, of.monitor, of.timer,
                                     of.controller, of.observer);
}

// To add a policy: "To add a policy" in docs/architecture.md.
constexpr PolicyTraits kPolicies[] = {
    {.policy = Policy::kUnis,
     .make_scheduler = Make<AlgorithmOne>,
     .make_handover_scheduler = Make<Handover>},
    {.policy = Policy::kCooperative, .kernel = KernelClass::kFifo, .functions_yield = true},
    {.policy = Policy::kRr, .kernel = KernelClass::kRoundRobin},
    {.policy = Policy::kFifo, .kernel = KernelClass::kFifo},
    {.policy = Policy::kOther, .kernel = KernelClass::kFair},
    {.policy = Policy::kBatch, .kernel = KernelClass::kBatch},
    {.policy = Policy::kIdle, .kernel = KernelClass::kIdle},
};

}  // namespace

std::span<const PolicyTraits> Policies() { return kPolicies; }

const PolicyTraits* TraitsOf(Policy policy) {
  const auto found = std::ranges::find(kPolicies, policy, &PolicyTraits::policy);
  return found == std::end(kPolicies) ? nullptr : found;
}

}  // namespace unis
