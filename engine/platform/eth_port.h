// A DPDK port of the platform itself, as source or sink: a NIC, net_pcap, net_af_packet, net_tap.
#pragma once

#include <absl/status/statusor.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>

namespace unis {

// An id for rte_eth_dev_owner_set. The first call in a DPDK group also makes the memory in which
// its processes share their ports, which only the primary can: an engine calls it before NFs start.
absl::StatusOr<std::uint64_t> NewPortOwner();

// Of a port, each way.
struct PortQueues {
  static constexpr std::uint16_t kLeast = 64;      // descriptors; with fewer some drivers refuse
  static constexpr std::uint16_t kDefault = 1024;  // their own thresholds of freeing

  std::uint16_t rx_count = 1, tx_count = 1;
  // Descriptors of each: packet buffers that wait for the device to fill them, and packets that
  // wait to be sent or, sent, to be freed. That is all that the device may read or write.
  std::uint16_t rx = kDefault, tx = kDefault;

  bool operator==(const PortQueues&) const = default;
};

class EthPort {
 public:
  // `device` as for EAL's --vdev or -a, for example "net_pcap0,rx_pcap=in.pcap" or "0000:03:00.0".
  // The port is owned, in the sense of rte_eth_dev_owner_set, so that NFs of the same DPDK group,
  // which probe it too, do not take it for one of theirs. Queues are as near to `wanted` as the
  // device allows: queues() says how long they are.
  // `promiscuous`: also what is sent to others, where the device can.
  static absl::StatusOr<EthPort> Open(const std::string& device, rte_mempool* pool,
                                      const PortQueues& wanted = {}, bool promiscuous = true);
  ~EthPort();
  EthPort(EthPort&& other) noexcept;
  EthPort& operator=(EthPort&&) = delete;

  std::uint16_t id() const noexcept { return port_; }
  const PortQueues& queues() const noexcept { return queues_; }
  bool LinkUp() const;
  std::array<std::uint8_t, 6> Address() const;  // MAC
  // Packets that came and found no room in its queues or were no frame that it takes, since it was
  // opened, as its driver counts.
  std::uint64_t Missed() const;
  // From all queues; one thread.
  std::uint16_t Receive(rte_mbuf** packets, std::uint16_t count) const noexcept;
  // What was sent and still is in the queue. False: its driver cannot.
  bool FreeSent() const noexcept;
  // Whether the first queue has room for so many packets of one buffer each. None: its driver does
  // not tell.
  std::optional<bool> HasRoom(std::uint16_t count) const noexcept;
  // By the first queue.
  std::uint16_t Send(rte_mbuf** packets, std::uint16_t count) const noexcept;

 private:
  static constexpr std::uint16_t kClosed = 0xffff;
  EthPort(std::uint16_t port, const PortQueues& queues) : port_(port), queues_(queues) {}

  std::uint64_t MissedEver() const;

  std::uint16_t port_;
  PortQueues queues_;
  std::uint64_t missed_before_ = 0;  // by who had the port then
  mutable std::uint16_t next_ = 0;   // the queue that is asked first
};

}  // namespace unis
