// What packets cost the functions, measured with each alone on its CPU: the others are stopped, and
// they take turns.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/estimator/cycle_estimator.h"
#include "engine/run/deployment.h"
#include "engine/run/thread_registry.h"
#include "engine/timer/tsc_timer.h"
#include "unis/v1/costs.pb.h"
#include "unis/v1/engine.pb.h"

namespace unis {

class Estimation {
 public:
  // Everything outlives it. The chains were never started, so no packet is under way. `go_on` is
  // asked every few rounds: OK, or the error with which to break off.
  using GoOn = std::function<absl::Status()>;
  Estimation(Deployment& deployment, const ThreadRegistry& members, const TscTimer& timer,
             GoOn go_on)
      : deployment_(deployment), threads_(members), timer_(timer), go_on_(std::move(go_on)) {}

  // All functions go on as they were afterwards, whatever happened; they may hold packets of the
  // measurement.
  absl::StatusOr<v1::EstimateReply> Run(const v1::EstimateRequest& request);

 private:
  struct Subject {
    std::string name;
    std::size_t function;
    HeldThread* thread;
    std::string not_measured;          // why; empty: it can be
    std::vector<CostSamples> samples;  // per size
  };

  absl::StatusOr<Subject> SubjectOf(const std::string& name, std::size_t sizes) const;
  std::string NotMeasurable(std::size_t function, std::size_t threads) const;  // empty: it is
  absl::StatusOr<std::unique_ptr<Injector>> InjectorOf(std::size_t function) const;
  absl::Status Sample(Subject& subject, std::uint32_t size, std::uint64_t rounds,
                      CostSamples& samples);
  absl::Status Rounds(CycleEstimator& estimator, const Frames& frames, std::uint64_t rounds,
                      CostSamples& samples);
  absl::Status Finish(HeldThread& thread, CycleEstimator& estimator);
  absl::StatusOr<v1::EstimateReply> Reply(std::vector<Subject>& subjects,
                                          const std::vector<std::uint32_t>& sizes,
                                          const std::vector<double>& weights) const;

  Deployment& deployment_;
  const ThreadRegistry& threads_;
  const TscTimer& timer_;
  GoOn go_on_;
};

}  // namespace unis
