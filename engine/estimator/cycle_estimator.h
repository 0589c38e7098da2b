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
#include <vector>

#include "engine/estimator/injector.h"
#include "engine/platform/frames.h"
#include "engine/platform/packet_memory.h"
#include "engine/scheduler/components.h"

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

  // Reorders; of at least one sample. An error where more packets took no longer than fewer: a cost
  // of 0 would be a slice of 0.
  absl::StatusOr<CostEstimate> Estimate();
};

class CycleEstimator {
 public:
  static constexpr std::uint32_t kTrain = 16;       // bursts
  static constexpr std::uint32_t kShortBurst = 32;  // where a link does not hold two whole ones

  // The function behind `injector`. Nobody else may use its links meanwhile: their other users are
  // stopped.
  CycleEstimator(const PacketMemory& memory, Injector& injector, const TimerSubsystem& timer);
  ~CycleEstimator();
  CycleEstimator(const CycleEstimator&) = delete;
  CycleEstimator& operator=(const CycleEstimator&) = delete;

  // Sends `frames` over and over; adds a sample each round. As often as wanted: each call goes on
  // where the one before ended. Fails when the function takes longer than 0.5 s over a train.
  // Afterwards, also after an error: let the function run until Settle(), stop it, then Finish(),
  // and only then let the others go on.
  absl::Status Run(const Frames& frames, std::uint64_t rounds, CostSamples& samples);

  // Takes back what came late, while the function runs. True once it was seen polling with nothing
  // of what was sent in hand.
  bool Settle();

  // The function stands still. Leaves the links as they were found; where packets are still in
  // front of it or in its hands, an error, and the links stay as they are: whoever takes from them
  // will get those packets, which nobody offered.
  absl::Status Finish();

 private:
  absl::StatusOr<double> TimeTrain(const Frames& frames, std::uint32_t bursts);  // ns
  absl::Status CheckLinks() const;
  void AwaitQuiet();
  bool Fill(const Frames& frames, std::uint32_t count);
  std::int64_t InHand() const;
  static void Write(const Frames& frames, std::size_t index, rte_mbuf* packet);
  void KeepBusy(const Frames& frames);
  std::uint32_t Collect();
  bool TakeRest(std::uint32_t rest);

  const PacketMemory& memory_;
  Injector& injector_;
  const TimerSubsystem& timer_;
  std::vector<rte_mbuf*> packets_;  // of the train
  std::deque<rte_mbuf*> rested_;    // the next ones in front
  std::size_t written_ = 0;
  std::uint32_t found_in_use_;    // of the packet memory
  std::uint32_t burst_ = kBurst;  // packets
  bool begun_ = false;
  bool settled_ = false;
};

}  // namespace unis
