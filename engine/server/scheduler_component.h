// The scheduler as a part of the engine that runs for ever: ticks Algorithm 1 while the engine
// decides, and watches who runs while a trace is taken.
#pragma once

#include <memory>

#include "engine/platform/component.h"
#include "engine/scheduler/scheduler.h"
#include "engine/server/trace_recorder.h"
#include "engine/timer/tsc_timer.h"

namespace unis {

class SchedulerComponent final : public Component {
 public:
  SchedulerComponent(const TscTimer& timer, TraceRecorder& trace)
      : Component("unis_scheduler"), timer_(timer), trace_(trace) {}
  ~SchedulerComponent() override { Halt(); }

  // Only inside Do(). Null: the kernel decides.
  void set_scheduler(std::unique_ptr<Scheduler> scheduler) { scheduler_ = std::move(scheduler); }
  Scheduler* scheduler() { return scheduler_.get(); }

 private:
  std::uint32_t Iterate() noexcept override {
    const std::uint32_t switches = scheduler_ ? scheduler_->Tick() : 0;
    if (trace_.recording()) [[unlikely]]
      trace_.Sample(timer_.Now());
    return switches;
  }

  const TscTimer& timer_;
  TraceRecorder& trace_;
  std::unique_ptr<Scheduler> scheduler_;
};

}  // namespace unis
