// The scheduler as a part of the engine that runs for ever: ticks Algorithm 1 on its cores while
// the engine decides, and watches who runs while a trace is taken. With several service lcores the
// cores are spread over as many of these, which share nothing.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "engine/base/counter.h"
#include "engine/platform/component.h"
#include "engine/platform/heartbeat.h"
#include "engine/scheduler/core_set.h"
#include "engine/timer/tsc_timer.h"
#include "engine/trace/trace_recorder.h"

namespace unis {

class SchedulerComponent final : public Component {
 public:
  // `timer`, and those who learn of each tick, outlive the component: `beat` is for the guard,
  // `heartbeat`, if it is not null, for the functions.
  SchedulerComponent(const std::string& name, const TscTimer& timer, Counter& beat,
                     Heartbeat* heartbeat)
      : Component(name), timer_(timer), beat_(beat), heartbeat_(heartbeat) {}
  ~SchedulerComponent() override { Halt(); }

  // Only inside Do(). Null: the kernel decides.
  void set_cores(std::unique_ptr<CoreSet> cores) { cores_ = std::move(cores); }
  const CoreSet* cores() const { return cores_.get(); }
  void set_trace(std::unique_ptr<TraceRecorder> trace) { trace_ = std::move(trace); }
  TraceRecorder* trace() { return trace_.get(); }

 private:
  std::uint32_t Iterate() noexcept override {
    beat_.Add(1);
    if (heartbeat_ != nullptr) heartbeat_->Beat();
    const std::uint32_t switches = cores_ ? cores_->Tick() : 0;
    if (trace_ && trace_->recording()) [[unlikely]]
      trace_->Sample(timer_.Now());
    return switches;
  }

  const TscTimer& timer_;
  Counter& beat_;
  Heartbeat* const heartbeat_;
  std::unique_ptr<CoreSet> cores_;
  std::unique_ptr<TraceRecorder> trace_;
};

}  // namespace unis
