// Carries packets from one link of which the engine has an end into another, so that a chain can
// pass from one DPDK group into another and back.
//
// It takes from the one no more than the other has room for: what must wait, waits where the
// scheduler sees it. Only what a peer leaves behind that goes in that moment is lost, and counted.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/base/counter.h"
#include "engine/platform/component.h"
#include "engine/platform/links/link.h"
#include "engine/platform/packet_memory.h"

namespace unis {

// All bridges, as one component: DPDK has room for 64 services, and each lcore looks at all of
// them.
class Bridges final : public Component {
 public:
  explicit Bridges(const PacketMemory& memory) : Component("unis_bridges"), memory_(memory) {}
  ~Bridges() override { Halt(); }

  // Before it runs, or while it rests. Ends outlive it, or are taken off before they go.
  void Clear() { bridges_.clear(); }
  void Add(LinkEnd& from, LinkEnd& to) { bridges_.push_back({&from, &to}); }

  std::uint64_t lost() const noexcept { return lost_.value(); }

 private:
  struct Bridge {
    LinkEnd* from;
    LinkEnd* to;
  };

  std::uint32_t Iterate() noexcept override;
  std::uint32_t Carry(const Bridge& bridge) noexcept;

  const PacketMemory& memory_;
  std::vector<Bridge> bridges_;
  Counter lost_;
};

}  // namespace unis
