// A DPDK port of the platform itself, as source or sink: a NIC, net_pcap, net_af_packet, net_tap.
#pragma once

#include <absl/status/statusor.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>

#include <cstdint>
#include <string>

namespace unis {

// An id for rte_eth_dev_owner_set. The first call in a DPDK group also makes the memory in which
// its processes share their ports, which only the primary can: an engine calls it before NFs start.
absl::StatusOr<std::uint64_t> NewPortOwner();

class EthPort {
 public:
  // `device` as for EAL's --vdev or -a, for example "net_pcap0,rx_pcap=in.pcap" or "0000:03:00.0".
  // The port is owned, in the sense of rte_eth_dev_owner_set, so that NFs of the same DPDK group,
  // which probe it too, do not take it for one of theirs. `queues` each way.
  static absl::StatusOr<EthPort> Open(const std::string& device, rte_mempool* pool,
                                      std::uint16_t queues = 1);
  ~EthPort();
  EthPort(EthPort&& other) noexcept;
  EthPort& operator=(EthPort&&) = delete;

  std::uint16_t id() const noexcept { return port_; }
  bool LinkUp() const;
  // From all queues; one thread.
  std::uint16_t Receive(rte_mbuf** packets, std::uint16_t count) const noexcept;
  // What was sent and still is in the queue. False: its driver cannot.
  bool FreeSent() const noexcept;
  // By the first queue.
  std::uint16_t Send(rte_mbuf** packets, std::uint16_t count) const noexcept;

 private:
  static constexpr std::uint16_t kClosed = 0xffff;
  EthPort(std::uint16_t port, std::uint16_t queues) : port_(port), queues_(queues) {}

  std::uint16_t port_;
  std::uint16_t queues_;
  mutable std::uint16_t next_ = 0;  // the queue that is asked first
};

}  // namespace unis
