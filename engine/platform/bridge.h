// Carries packets between rings and memifs of which the engine has an end, so that a chain can pass
// from one DPDK group into another and back.
//
// It loses nothing: it takes from the one side no more than the other side has room for, and what
// must wait, waits where the scheduler sees it.
#pragma once

#include <rte_ring.h>

#include <cstdint>
#include <string>
#include <vector>

#include "engine/base/counter.h"
#include "engine/platform/component.h"
#include "engine/platform/links/memif_server.h"
#include "engine/platform/packet_memory.h"

namespace unis {

// All bridges, as one component: DPDK has room for 64 services, and each lcore looks at all of
// them.
class Bridges final : public Component {
 public:
  explicit Bridges(const PacketMemory& memory) : Component("unis_bridges"), memory_(memory) {}
  ~Bridges() override { Halt(); }

  // Before it runs, or while it rests. Rings and memifs outlive it, or are taken off before they
  // go.
  void Clear() {
    into_.clear();
    out_of_.clear();
  }
  void Into(rte_ring* from, const MemifServer& to) { into_.push_back({from, &to}); }
  void OutOf(const MemifServer& from, rte_ring* to) { out_of_.push_back({to, &from}); }

  // Packets, into memifs and out of them.
  std::uint64_t carried_into() const noexcept { return carried_into_.value(); }
  std::uint64_t carried_out_of() const noexcept { return carried_out_of_.value(); }

 private:
  struct Bridge {
    rte_ring* ring;
    const MemifServer* memif;
  };

  std::uint32_t Iterate() noexcept override;
  static std::uint32_t CarryInto(const Bridge& bridge) noexcept;
  std::uint32_t CarryOutOf(const Bridge& bridge) const noexcept;

  const PacketMemory& memory_;
  std::vector<Bridge> into_, out_of_;
  Counter carried_into_, carried_out_of_;
};

}  // namespace unis
