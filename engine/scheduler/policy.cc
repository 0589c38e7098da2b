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

// Hand-over needs tasks that yield by themselves, and those are the controller's to know.
std::unique_ptr<CoreScheduler> MakeUnis(const SchedulerParts& parts) {
  return parts.controller.yielding() != nullptr ? Make<Handover>(parts) : Make<AlgorithmOne>(parts);
}

// To add a policy: a line here, its name in common.proto, and a scheduler where the engine decides.
constexpr PolicyTraits kPolicies[] = {
    {Policy::kUnis, MakeUnis, KernelClass::kFair, false},
    {Policy::kCooperative, nullptr, KernelClass::kFifo, true},
    {Policy::kRr, nullptr, KernelClass::kRoundRobin, false},
    {Policy::kFifo, nullptr, KernelClass::kFifo, false},
    {Policy::kOther, nullptr, KernelClass::kFair, false},
    {Policy::kBatch, nullptr, KernelClass::kBatch, false},
};

}  // namespace

const PolicyTraits* TraitsOf(Policy policy) {
  const auto found = std::ranges::find(kPolicies, policy, &PolicyTraits::policy);
  return found == std::end(kPolicies) ? nullptr : found;
}

}  // namespace unis
