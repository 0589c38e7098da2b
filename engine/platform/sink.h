// Takes packets from the last links of every chain: counts them, records how long they were under
// way, and frees them or sends them out of a port. Copies that were watched it counts and frees.
#pragma once

#include <memory>

#include "engine/platform/chain.h"
#include "engine/platform/component.h"
#include "engine/platform/eth_port.h"
#include "engine/platform/packet_memory.h"
#include "engine/platform/passage_log.h"
#include "engine/timer/tsc_timer.h"

namespace unis {

class Sink final : public Component {
 public:
  // Without a port packets end here.
  Sink(const PacketMemory& memory, const Chains& chains, std::shared_ptr<EthPort> port,
       std::shared_ptr<PassageLog> passages = {});
  ~Sink() override { Halt(); }

  // Packets that were sent may stay in the port's queue until it is sent more: they are freed now.
  // False: the port cannot do that, and may hold some.
  bool FreeSent();
  std::uint64_t copies_ended() const noexcept { return copies_ended_.value(); }

 private:
  std::uint32_t Iterate() noexcept override;
  std::uint32_t Take(std::size_t chain, LinkEnd& egress) noexcept;
  std::uint32_t Drain(LinkEnd& drain) noexcept;

  const PacketMemory& memory_;
  const Chains& chains_;
  std::shared_ptr<EthPort> port_;
  PassageWriter passages_;
  TscClock clock_;
  Counter copies_ended_;
};

}  // namespace unis
