// The engine's end of a vhost-user link: a backend of its own, for one virtio driver.
//
// Not DPDK's librte_vhost: a driver that truncates its memory would end the engine, and several
// could be connected to a socket. Here a driver can hang up, lie and die as it likes.
#pragma once

#include <absl/status/statusor.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>
#include <rte_spinlock.h>

#include <atomic>
#include <memory>
#include <string>

#include "engine/base/counter.h"
#include "engine/base/unique_fd.h"
#include "engine/platform/links/link.h"
#include "engine/platform/links/peer_socket.h"
#include "engine/platform/links/vhost_device.h"
#include "engine/platform/links/vhost_queue.h"
#include "engine/platform/links/vhost_socket.h"

namespace unis {

class VhostServer final : public LinkEnd {
 public:
  // Listens at `socket`, a path, which only its owner may connect to. Packets are of `pool`.
  static absl::StatusOr<std::unique_ptr<VhostServer>> Listen(const std::string& socket,
                                                             std::uint32_t slots,
                                                             rte_mempool* pool);
  VhostServer(const VhostServer&) = delete;
  VhostServer& operator=(const VhostServer&) = delete;

  bool LinkUp() const noexcept { return up_.load(std::memory_order_acquire); }
  const std::string& socket() const noexcept { return peers_->path(); }
  // Null: the driver has not started them.
  std::shared_ptr<const VhostQueues> queues() noexcept;

  // Packets that did not fit, on their way to the driver (direction 1) or from it (0).
  std::uint64_t dropped(unsigned direction) const noexcept {
    return (direction == 0 ? from_driver_dropped_ : to_driver_dropped_).value();
  }

  // None are taken while the driver comes or goes.
  std::uint16_t Receive(rte_mbuf** packets, std::uint16_t count) noexcept override;
  std::uint16_t Send(rte_mbuf** packets, std::uint16_t count) noexcept override;
  std::uint32_t Room() noexcept override;
  std::uint32_t capacity() const noexcept override { return slots_; }
  bool carries_mbufs() const noexcept override { return false; }

 private:
  VhostServer(std::uint32_t slots, rte_mempool* pool, std::unique_ptr<PeerServer> peers);
  void Talk(const UniqueFd& driver);  // till it hangs up
  std::shared_ptr<VhostQueues> Exchange(std::shared_ptr<VhostQueues> queues);

  const std::uint32_t slots_;
  rte_mempool* const pool_;
  // For who reads or changes queues_: one of them for who sends, one for who receives.
  rte_spinlock_t sending_ = RTE_SPINLOCK_INITIALIZER, receiving_ = RTE_SPINLOCK_INITIALIZER;
  std::shared_ptr<VhostQueues> queues_;
  Counter to_driver_dropped_, from_driver_dropped_;  // by who sends, and by who receives
  std::atomic<bool> up_ = false;
  VhostLog log_;                       // of the thread
  std::unique_ptr<PeerServer> peers_;  // the last: its thread uses the rest
};

}  // namespace unis
