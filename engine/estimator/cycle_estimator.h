// Cycle Estimator (sections 4.3.1 and 4.5.1): what a packet costs an NF, measured from outside.
//
// Bursts go into the ingress of an NF that runs alone on its CPU, and are awaited at its egress.
// The paper takes the time of one burst; that holds the way from core to core and back, too, which
// a light NF is not slower than. So trains of one and of kTrain bursts are timed, and the cost is
// what each further packet adds.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <vector>

#include "engine/estimator/injector.h"
#include "engine/platform/frames.h"
#include "engine/platform/packet_memory.h"
#include "engine/timer/tsc_timer.h"

namespace unis {

struct CostEstimate {
  double ns;     // per packet; interquartile mean over the rounds
  double ns_q1;  // quartiles of the same
  double ns_q3;
  double burst_ns;  // one burst, there and back; median
};

// Of any number of runs.
struct CostSamples {
  std::vector<double> ns;        // per packet
  std::vector<double> burst_ns;  // one burst, there and back

  CostEstimate Estimate();  // reorders; of at least one sample
};

class CycleEstimator {
 public:
  static constexpr std::uint32_t kTrain = 16;  // bursts

  // The function behind `injector`. Nobody else may use its links meanwhile: their other users are
  // stopped.
  CycleEstimator(const PacketMemory& memory, Injector& injector);
  ~CycleEstimator();
  CycleEstimator(const CycleEstimator&) = delete;
  CycleEstimator& operator=(const CycleEstimator&) = delete;

  // Sends `frames` over and over; adds a sample each round, before which `go_on` is asked. Fails
  // when the function takes longer than 0.1 s over a train. Afterwards, also after an error: stop
  // the function, then Finish(), and only then let the others go on.
  absl::Status Run(
      const Frames& frames, std::uint64_t rounds, CostSamples& samples,
      const std::function<bool()>& go_on = [] { return true; });

  // Takes back what came late, and leaves the links as they were found. Packets that the function
  // did not take stay in front of it. Fails where it was stopped amid sending: let it run on and
  // stop it again.
  absl::Status Finish();

 private:
  absl::StatusOr<double> TimeTrain(const Frames& frames, std::uint32_t bursts);  // ns
  void AwaitQuiet();
  bool Fill(const Frames& frames, std::uint32_t count);
  static void Write(const Frames& frames, std::size_t index, rte_mbuf* packet);
  void KeepBusy(const Frames& frames);
  std::uint32_t Collect();
  bool TakeRest(std::uint32_t rest);

  const PacketMemory& memory_;
  Injector& injector_;
  TscClock clock_;
  std::vector<rte_mbuf*> packets_;  // of the train
  std::deque<rte_mbuf*> rested_;    // the next ones in front
  std::size_t written_ = 0;
  bool begun_ = false;
};

}  // namespace unis
