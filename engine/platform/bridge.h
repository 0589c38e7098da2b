// Moves packets from one link to others, where the engine has an end of each: between DPDK groups,
// and where a chain branches or merges.
//
// It takes from a link no more than each of the others has room for: what must wait, waits where
// the scheduler sees it. What is for a closed link, or for a peer that goes in that moment, is lost
// and counted. Copies wait for nothing: what finds no room is not copied, and counted.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/base/counter.h"
#include "engine/platform/classifier.h"
#include "engine/platform/component.h"
#include "engine/platform/links/link.h"
#include "engine/platform/packet_memory.h"

namespace unis {

// What went from one link into another.
struct Carried {
  Counter packets;
  Counter dropped;  // there was no room, the link was closed, or there was no buffer for a copy
};

// All bridges, as one component: DPDK has room for 64 services, and each lcore looks at all of
// them. Several may lead into one link, as all are carried by one thread.
class Bridges final : public Component {
 public:
  struct Branch {
    LinkEnd* to;
    Carried* carried;
    Counter* lost;  // of the chain, beside `carried`; not for copies
    std::uint32_t weight = 0;
    bool copy = false;
  };

  explicit Bridges(const PacketMemory& memory) : Component("unis_bridges"), memory_(memory) {}
  ~Bridges() override { Halt(); }

  // Before it runs, or while it rests. Ends outlive it, or are taken off before they go.
  void Clear() { bridges_.clear(); }
  // Copies come last. Each packet takes one of the other branches: where they have weights, the
  // hash of its flow chooses, else `classifier`, which has a branch for every packet.
  void Add(LinkEnd& from, std::vector<Branch> branches, Classifier classifier);

  std::uint64_t copied() const noexcept { return copied_.value(); }
  std::uint64_t copies_dropped() const noexcept { return copies_dropped_.value(); }

 private:
  struct Bridge {
    LinkEnd* from;
    std::vector<Branch> branches;
    std::size_t ways;       // branches that are not copies
    std::uint64_t weights;  // their sum
    Classifier classifier;
  };

  std::uint32_t Iterate() noexcept override;
  std::uint32_t Carry(const Bridge& bridge) noexcept;
  void Divide(const Bridge& bridge, std::span<rte_mbuf* const> packets) noexcept;
  void Send(const Branch& branch, std::span<rte_mbuf*> packets) noexcept;
  void Copy(const Branch& branch, std::span<rte_mbuf* const> packets) noexcept;

  const PacketMemory& memory_;
  std::vector<Bridge> bridges_;
  std::size_t first_ = 0;  // of an iteration
  Counter copied_, copies_dropped_;
};

}  // namespace unis
