// The engine's end of a memif: a server of its own, for one client.
//
// Not DPDK's net_memif: that panics when a client comes and leaves at once (its listener closes a
// descriptor that the interrupt thread still waits for), and reads and writes wherever the client's
// descriptors say. It would also be a DPDK port, of which a group has 32 and which cannot be made
// once functions run. Here a client can hang up, lie and die as it likes.
#pragma once

#include <absl/status/statusor.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>
#include <rte_spinlock.h>

#include <atomic>
#include <memory>
#include <string>

#include "engine/base/unique_fd.h"
#include "engine/platform/links/link.h"
#include "engine/platform/links/memif_memory.h"
#include "engine/platform/links/memif_message.h"
#include "engine/platform/links/memif_region.h"
#include "engine/platform/links/peer_socket.h"

namespace unis {

class MemifServer final : public LinkEnd {
 public:
  // Listens at `socket`, a path, which only its owner may connect to. Packets are of `pool`.
  static absl::StatusOr<std::unique_ptr<MemifServer>> Listen(const std::string& socket,
                                                             std::uint32_t id,
                                                             const MemifShape& shape,
                                                             rte_mempool* pool);
  MemifServer(const MemifServer&) = delete;
  MemifServer& operator=(const MemifServer&) = delete;

  bool LinkUp() const noexcept { return up_.load(std::memory_order_acquire); }
  // None are taken while the client comes or goes.
  std::uint16_t Receive(rte_mbuf** packets, std::uint16_t count) noexcept override;
  std::uint16_t Send(rte_mbuf** packets, std::uint16_t count) noexcept override;
  std::uint32_t Room() noexcept override;
  std::uint32_t capacity() const noexcept override { return shape_.slots; }
  bool carries_mbufs() const noexcept override { return false; }

 private:
  MemifServer(std::uint32_t id, const MemifShape& shape, rte_mempool* pool,
              std::unique_ptr<PeerServer> peers);
  void Talk(const UniqueFd& client);  // till it hangs up
  void Take(std::unique_ptr<MemifMemory> memory);

  const std::uint32_t id_;
  const MemifShape shape_;
  rte_mempool* const pool_;
  // For who reads or changes memory_: one of them for who sends, one for who receives.
  rte_spinlock_t sending_ = RTE_SPINLOCK_INITIALIZER, receiving_ = RTE_SPINLOCK_INITIALIZER;
  std::unique_ptr<MemifMemory> memory_;
  std::atomic<bool> up_ = false;
  std::unique_ptr<PeerServer> peers_;  // the last: its thread uses the rest
};

}  // namespace unis
