// The scheduler as a part of the engine that runs for ever: ticks the schedulers of its cores, and
// watches who runs while a trace is taken. With several service lcores the cores are spread over as
// many of these, which share nothing.
#pragma once

#include <rte_lcore.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/counter.h"
#include "engine/base/favour.h"
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

  // Only inside Do(). Whoever adds one takes it away again. Favour() follows.
  CoreSet& cores() { return cores_; }
  // The lcore comes before other processes if it leaves them time.
  void Favour() {
    // A component that is on no lcore runs Do() in the caller's thread.
    if (rte_lcore_id() != lcore() || rte_lcore_id() == rte_get_main_lcore()) return;
    const int nice =
        cores_.may_nap() && LcoreNap::Of(lcore()).has_all() ? kFirstNice : kFavouredNice;
    FavourThread(nice);
    if (std::exchange(nice_, nice) != nice) FavourSession(nice);
  }
  void Watch(TraceRecorder& trace) { traces_.push_back(&trace); }
  void Unwatch(const TraceRecorder& trace) { std::erase(traces_, &trace); }

 private:
  std::uint32_t Iterate() noexcept override {
    beat_.Add(1);
    if (heartbeat_ != nullptr) heartbeat_->Beat();
    const std::uint32_t switches = cores_.Tick();
    LcoreNap::Of(lcore()).set_slack(cores_.slack());
    for (TraceRecorder* const trace : traces_) trace->Sample(timer_.Now());
    return switches;
  }

  std::int64_t IdleNs() noexcept override {
    if (!traces_.empty()) return 0;
    // 0 also where the kernel decides: then the engine does not know whether functions run.
    const Nanoseconds idle = cores_.idle_for(timer_.Now());
    // The source may have sent since the last look at tasks that sleep: look once more in the turn
    // before a nap.
    if (idle > 0 && cores_.any_sleeps()) cores_.DecideAtNextTick();
    return idle;
  }

  const TscTimer& timer_;
  Counter& beat_;
  Heartbeat* const heartbeat_;
  CoreSet cores_{{}, timer_};
  std::vector<TraceRecorder*> traces_;  // that record
  int nice_ = kFavouredNice;
};

}  // namespace unis
