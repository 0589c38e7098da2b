// What a packet costs functions that somebody else runs, measured while they run.
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "engine/estimator/online_cost.h"
#include "engine/run/run.h"
#include "engine/run/services.h"

namespace unis {
namespace {

using std::chrono::nanoseconds;
using Clock = std::chrono::steady_clock;

constexpr nanoseconds kTime = std::chrono::seconds(1);
constexpr nanoseconds kMostTime = std::chrono::seconds(4);   // until there is enough
constexpr nanoseconds kLook = std::chrono::milliseconds(2);  // in one go
constexpr nanoseconds kRest = std::chrono::milliseconds(1);  // for what else is counted there

class Watched {
 public:
  Watched(const Deployment& deployment, std::size_t function)
      : deployment_(deployment), function_(deployment.topology().functions[function]) {}

  void Look(std::int64_t now) noexcept {
    std::uint64_t taken = 0;
    bool waiting = false, room = true;
    for (const std::size_t index : function_.paths) {
      const auto& path = deployment_.topology().paths[index];
      if (const LinkProgress* in = deployment_.progress(path.in)) taken += in->received();
      waiting |= deployment_.monitor().NumPkts(path.in) > 0;
      room &= deployment_.monitor().NumPkts(path.out) < deployment_.monitor().PktCap(path.out);
    }
    cost_.Look(now, taken, waiting && room);
  }
  OnlineCost& cost() { return cost_; }
  const std::string& name() const { return function_.config.name(); }

 private:
  const Deployment& deployment_;
  const Topology::Function& function_;
  OnlineCost cost_;
};

// One function after the other: a look at all of them would take too long.
void Watch(Deployment& deployment, const TscTimer& timer, Watched& function) {
  deployment.LookAtLinks([&](const std::function<void()>& count) {
    const auto end = timer.Now() + kLook.count();
    for (auto now = timer.Now(); now < end; now = timer.Now()) {
      count();
      function.Look(now);
    }
  });
  function.cost().Pause();
}

}  // namespace

absl::StatusOr<v1::EstimateReply> Run::EstimateOnline(const v1::EstimateRequest& request,
                                                      const Wanted& wanted) {
  const auto before = Decided();
  if (before) {
    // Whose cost is not known is not scheduled, and would wait for ever behind those that are.
    const auto kernel = Change({.policy = v1::POLICY_OTHER, .controller = before->controller});
    if (!kernel.ok()) return kernel;
  }
  v1::EstimateReply reply;
  absl::Status status;
  for (const std::string& name : request.functions()) {
    status = MeasureOnline(name, wanted, *reply.add_functions());
    if (!status.ok()) break;
  }
  if (before) {
    const std::lock_guard lock(state_);
    wanted_ = before;
    status.Update(RebuildSchedulers([] { return absl::OkStatus(); }));
  }
  if (!status.ok()) return status;
  return reply;
}

absl::Status Run::MeasureOnline(const std::string& name, const Wanted& wanted,
                                v1::FunctionEstimate& estimate) {
  const auto index = deployment_->topology().FindFunction(name);
  if (!index) return absl::InvalidArgumentError(fmt::format("there is no function {}", name));
  Watched function(*deployment_, *index);
  const auto begin = Clock::now();
  const auto goes_on = [&] {
    const auto time = Clock::now() - begin;
    return time < kTime || (time < kMostTime && function.cost().intervals() < OnlineCost::kEnough);
  };
  while (goes_on()) {
    Watch(*deployment_, timer_, function);
    if (!ending_.SleepFor(kRest)) return Ending();
    if (wanted && !wanted()) return CallerGone();
  }
  const auto cost = function.cost().Result();
  if (!cost)
    return absl::FailedPreconditionError(fmt::format(
        "function {} has had too few packets to tell what one costs it ({} bursts one "
        "behind the other, of {} needed): attach it while it is busy, or state what a packet costs "
        "with --cost-ns",
        name, function.cost().intervals(), OnlineCost::kEnough));
  estimate.set_function(name);
  estimate.set_ns(cost->median);
  estimate.set_ns_q1(cost->q1);
  estimate.set_ns_q3(cost->q3);
  estimate.set_cycles(timer_.clock().ToCycles(cost->median));
  costs_->Set(static_cast<FunctionIndex>(*index), cost->median);
  return absl::OkStatus();
}

}  // namespace unis
