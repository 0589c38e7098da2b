// The policies of the contract. Whatever runs a policy, the engine or the simulator, asks here what
// the policy is and who makes its scheduler.
#pragma once

#include <cstdint>
#include <memory>

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
};

// How the kernel runs the tasks of a core where it decides.
enum class KernelClass : std::uint8_t { kFair, kBatch, kFifo, kRoundRobin };

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

struct PolicyTraits {
  Policy policy;
  // Null: the kernel decides.
  std::unique_ptr<CoreScheduler> (*make_scheduler)(const SchedulerParts& parts);
  KernelClass kernel;    // of the tasks, where the kernel decides
  bool functions_yield;  // they give up the CPU on their own

  bool engine_decides() const { return make_scheduler != nullptr; }
};

// Null: there is no such policy.
const PolicyTraits* TraitsOf(Policy policy);

}  // namespace unis
