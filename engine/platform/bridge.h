// Carries packets between a ring and a memif of which the engine has an end, so that a chain can
// pass from one DPDK group into another and back.
//
// It loses nothing: it takes from the one side no more than the other side has room for, and what
// must wait, waits where the scheduler sees it.
#pragma once

#include <rte_ring.h>

#include <cstdint>
#include <string>

#include "engine/base/counter.h"
#include "engine/platform/component.h"
#include "engine/platform/eth_port.h"
#include "engine/platform/packet_memory.h"

namespace unis {

// From a ring into a memif.
class RingToMemif final : public Component {
 public:
  RingToMemif(std::string name, rte_ring* from, const EthPort& to)
      : Component(std::move(name)), from_(from), to_(to) {}
  ~RingToMemif() override { Halt(); }
  std::uint64_t carried() const noexcept { return handled(); }

 private:
  std::uint32_t Iterate() noexcept override;

  rte_ring* from_;
  const EthPort& to_;
};

// From a memif into a ring. The time at which a packet entered the platform is not known any more.
class MemifToRing final : public Component {
 public:
  MemifToRing(std::string name, const PacketMemory& memory, const EthPort& from, rte_ring* to)
      : Component(std::move(name)), memory_(memory), from_(from), to_(to) {}
  ~MemifToRing() override { Halt(); }
  std::uint64_t carried() const noexcept { return handled(); }

 private:
  std::uint32_t Iterate() noexcept override;

  const PacketMemory& memory_;
  const EthPort& from_;
  rte_ring* to_;
};

}  // namespace unis
