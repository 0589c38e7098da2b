// The policies of the contract. Whatever runs a policy, the engine or the simulator, asks here what
// the policy is and who makes its scheduler.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "engine/scheduler/components.h"
#include "engine/scheduler/core_scheduler.h"
#include "engine/scheduler/settings.h"
#include "engine/scheduler/task.h"

namespace unis {

// Numbered as v1::Policy is.
enum class Policy : std::uint8_t {
  kUnis = 1,
  kCooperative = 2,
  kRr = 3,
  kFifo = 4,
  kOther = 5,
  kBatch = 6,
  kIdle = 7,
};

// How the kernel runs the tasks of a core where it decides.
enum class KernelClass : std::uint8_t { kFair, kBatch, kIdle, kFifo, kRoundRobin };

// What the scheduler of a core is made of. The references but that to `tasks` outlive it;
// `observer` may be null.
struct SchedulerParts {
  const SchedulerSettings& settings;
  const TaskSet& tasks;
  CoreIndex core;
  Costs& costs;
  const InterfaceMonitor& monitor;
  const TimerSubsystem& timer;
  ProcessController& controller;
  SwitchObserver* observer;
};

using SchedulerMaker = std::unique_ptr<CoreScheduler> (*)(const SchedulerParts& parts);

struct PolicyTraits {
  Policy policy;
  KernelClass kernel = KernelClass::kFair;  // of the tasks, where the kernel decides
  bool functions_yield = false;             // they give up the CPU on their own
  // Who chooses the task that runs next. Null: the kernel decides.
  SchedulerMaker make_scheduler = nullptr;
  // For controller handover. Null: the engine switches by priority instead. Tasks hand the CPU over
  // by themselves, in the order of their line, so this scheduler watches controller.yielding(), as
  // Handover does.
  SchedulerMaker make_handover_scheduler = nullptr;

  bool engine_decides() const { return make_scheduler != nullptr; }
  bool hands_over() const { return make_handover_scheduler != nullptr; }
  // Only where the engine decides.
  std::unique_ptr<CoreScheduler> MakeScheduler(const SchedulerParts& parts) const {
    return (hands_over() && parts.controller.yielding() != nullptr ? make_handover_scheduler
                                                                   : make_scheduler)(parts);
  }
};

// By their numbers, from 1 on.
std::span<const PolicyTraits> Policies();
// Null: there is no such policy.
const PolicyTraits* TraitsOf(Policy policy);

}  // namespace unis
