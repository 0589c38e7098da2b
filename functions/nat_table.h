// The state of the NAT: flows from inside, the public port of each, and their age. Told the time,
// so that a test can let hours pass.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "functions/common/flow_table.h"
#include "functions/common/result.h"

namespace unis::functions {

struct NatFlow {
  Ipv4FlowKey key;            // as sent from inside
  std::uint64_t last_seen;    // time of the last packet, either way
  std::uint16_t public_port;  // TCP or UDP port or ICMP echo identifier; 0: this slot is free
};

// The free public ports of one protocol. First in, first out: a port rests as long as possible
// before it stands for another flow.
class PublicPorts {
 public:
  PublicPorts(std::uint16_t first, std::uint16_t last);
  std::optional<std::uint16_t> Take();
  void GiveBack(std::uint16_t port);

 private:
  std::vector<std::uint16_t> free_;  // a ring
  std::size_t head_ = 0;
  std::size_t count_;
};

class NatTable {
 public:
  static constexpr std::uint16_t kFirstPort = 1024;  // below are the public host's own
  static constexpr std::uint16_t kLastPort = 65535;

  struct Limits {
    std::uint32_t max_flows;
    std::uint64_t idle_timeout;  // in the caller's unit of time, the TSC's cycles
    std::uint16_t first_port = kFirstPort;
    std::uint16_t last_port = kLastPort;
  };
  static Result<NatTable> Create(const Limits& limits);

  // The time of all packets until the next call. Looks after a few slots: all get their turn.
  void BeginBurst(std::uint64_t now);

  // The flow of each key, null if it is new. They stay valid during the burst.
  void LookupBurst(const Ipv4FlowKey* keys, std::uint16_t count, NatFlow** flows);
  // Null: no entry or no public port is free, nor has one expired. Only TCP, UDP and ICMP.
  NatFlow* FindOrAdd(const Ipv4FlowKey& key);
  // The flow that a packet from outside answers; its other end must be the flow's.
  NatFlow* FindReply(std::uint32_t protocol, std::uint16_t public_port, std::uint32_t remote,
                     std::uint16_t remote_port);

  std::uint32_t active() const { return active_; }
  std::uint64_t expired() const { return expired_; }

 private:
  // Public ports of one protocol, and whose they are.
  struct PortSpace {
    PublicPorts free;
    std::vector<std::uint32_t> position_of;  // by port, position of the flow plus one; 0: nobody's
  };

  NatTable(FlowTable<Ipv4FlowKey> table, const Limits& limits);
  PortSpace& SpaceOf(std::uint32_t protocol);
  NatFlow* TryAdd(const Ipv4FlowKey& key);
  void Sweep(std::uint32_t slots);
  void Remove(NatFlow& flow);

  FlowTable<Ipv4FlowKey> table_;
  std::vector<NatFlow> flows_;  // by position
  std::vector<PortSpace> spaces_;
  std::uint64_t idle_timeout_;
  std::uint64_t now_ = 0;
  std::uint32_t hand_ = 0;  // next slot to look after
  bool swept_when_full_ = false;
  std::uint32_t active_ = 0;
  std::uint64_t expired_ = 0;
};

}  // namespace unis::functions
