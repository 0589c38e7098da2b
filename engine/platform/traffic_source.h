// Feeds the chains: takes packets from frames in memory or from a port, stamps them, steers them by
// the flow classifier and puts them into the first rings.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include "engine/platform/chain.h"
#include "engine/platform/classifier.h"
#include "engine/platform/component.h"
#include "engine/platform/eth_port.h"
#include "engine/platform/frames.h"
#include "engine/platform/packet_memory.h"

namespace unis {

// How many packets may leave now. One of the two rates, or neither: no limit.
struct Rate {
  double pps = 0;
  double bps = 0;  // bits of frames with FCS
  bool limited() const { return pps > 0 || bps > 0; }
};

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
  // ring its next frame goes to is full, so nothing is lost before the first NF; with a rate what
  // finds the ring full is dropped and counted.
  TrafficSource(const PacketMemory& memory, const Chains& chains, Classifier classifier,
                std::vector<List> lists, Rate rate);
  // A port: its packets come at their own rate.
  TrafficSource(const PacketMemory& memory, const Chains& chains, Classifier classifier,
                std::shared_ptr<EthPort> port);
  ~TrafficSource() override { Halt(); }

  // Other chains, or other frames for them; counters go on. Never for a port's frames: no lists.
  // The source rests meanwhile. A list for each chain, or one for all.
  void Take(Classifier classifier, std::vector<List> lists, Rate rate);

  void SetPaused(bool paused) noexcept { paused_.store(paused, std::memory_order_relaxed); }
  std::uint64_t unclassified() const noexcept { return unclassified_.value(); }

 private:
  std::uint32_t Iterate() noexcept override;
  std::uint32_t SendFrames() noexcept;
  std::uint32_t ReceivePackets() noexcept;
  std::uint32_t Allowance() noexcept;
  std::uint32_t TakeFrames(List& list, std::uint32_t limit, rte_mbuf** packets) noexcept;
  std::uint32_t RoomFor(const List& list, std::uint32_t limit) noexcept;
  void Steer(std::span<rte_mbuf*> packets) noexcept;
  void Enqueue(Chain& chain, std::span<rte_mbuf*> packets) noexcept;
  std::uint32_t Skip(List& list) noexcept;
  bool IsDown(const List& list) const noexcept;

  const PacketMemory& memory_;
  const Chains& chains_;
  Classifier classifier_;
  std::vector<List> lists_;
  std::size_t next_list_ = 0;
  std::shared_ptr<EthPort> port_;
  Rate rate_;
  double credit_ = 0;  // packets or bits
  std::uint64_t last_ = 0;
  std::atomic<bool> paused_{true};
  Counter unclassified_;
};

}  // namespace unis
