// Feeds the chains: takes packets from frames in memory or from a port, stamps them, and sends them
// into the first link of the chain that the flow classifier says.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/base/random.h"
#include "engine/platform/arrival_schedule.h"
#include "engine/platform/chain.h"
#include "engine/platform/classifier.h"
#include "engine/platform/component.h"
#include "engine/platform/eth_port.h"
#include "engine/platform/frames.h"
#include "engine/platform/packet_memory.h"
#include "engine/platform/passage_log.h"
#include "engine/timer/tsc_timer.h"

namespace unis {

class TrafficSource final : public Component {
 public:
  struct List {
    // Takes long where there are many: not while chains stand still for it.
    List(Frames wanted, const Classifier& classifier);

    Frames frames;
    std::vector<std::int32_t> chain;  // of each frame, as the classifier says
    std::size_t next = 0;
  };

  // Frames, one list for each chain or one list for all. Without a rate a list pauses while the
  // link its next frame goes to is full, so nothing is lost before the first NF. With a rate the
  // loop is open: packets are due when the schedule says, the next of the lists in turn, or under
  // Poisson of any list, so that each chain's are Poisson too. What finds the link full, or no
  // buffer free, is dropped and counted. Who was kept from sending sends what was due meanwhile.
  // The stamp says when a packet was due, not when it left.
  TrafficSource(const PacketMemory& memory, const Chains& chains, Classifier classifier,
                std::vector<List> lists, Rate rate, std::shared_ptr<PassageLog> passages = {});
  // A port: its packets come at their own rate.
  TrafficSource(const PacketMemory& memory, const Chains& chains, Classifier classifier,
                std::shared_ptr<EthPort> port);
  ~TrafficSource() override { Halt(); }

  // Other chains, or other frames for them; counters go on. Never for a port's frames: no lists.
  // The source rests meanwhile. A list for each chain, or one for all.
  void Take(Classifier classifier, std::vector<List> lists, Rate rate);

  // Another rate for the same frames; the schedule begins anew. Not of a port.
  void SetRate(const Rate& rate);
  // What falls due in a pause is never sent.
  void SetPaused(bool paused) noexcept {
    paused_.store(paused, std::memory_order_relaxed);
    Wake();
  }
  std::uint64_t unclassified() const noexcept { return unclassified_.value(); }

 private:
  std::uint32_t Iterate() noexcept override;
  std::int64_t IdleNs() noexcept override;
  std::uint32_t SendFrames() noexcept;
  std::uint32_t ReceivePackets() noexcept;
  std::uint32_t SendDue() noexcept;
  List& NextList() noexcept;
  bool TakeFrames(List& list, std::span<rte_mbuf*> packets) noexcept;
  void Fill(rte_mbuf* packet, const List& list, std::size_t frame, std::uint64_t stamp) noexcept;
  void DropUnmade(std::int32_t chain) noexcept;
  std::uint32_t RoomFor(const List& list, std::uint32_t limit) noexcept;
  void Steer(std::span<rte_mbuf*> packets, std::span<const std::int32_t> chains) noexcept;
  void Enqueue(std::size_t chain, std::span<rte_mbuf*> packets) noexcept;
  std::uint32_t Skip(List& list) noexcept;
  bool IsDown(const List& list) const noexcept;
  std::uint32_t MostHeld() const noexcept;

  const PacketMemory& memory_;
  const Chains& chains_;
  Classifier classifier_;
  std::vector<List> lists_;
  std::size_t next_list_ = 0;
  std::shared_ptr<EthPort> port_;
  PassageWriter passages_;  // of packets from a port nothing is noted
  Rate rate_;
  ArrivalSchedule schedule_;
  TscClock clock_;
  Random picks_;            // of lists
  bool begun_ = false;      // the schedule, with the rate as it is
  std::uint32_t held_ = 0;  // packets that may wait for each other in a nap
  std::atomic<bool> paused_{true};
  Counter unclassified_;
};

}  // namespace unis
