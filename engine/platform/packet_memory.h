// The packet memory that source, NFs and sink share: a mempool that may be preempted at any point.
//
// DPDK's default mempool (ring_mp_mc) must not be used among preemptible real-time threads: an NF
// preempted inside it stops all others for ever. The stack handler lf_stack is lock-free.
#pragma once

#include <absl/status/statusor.h>
#include <rte_mbuf.h>
#include <rte_mbuf_dyn.h>
#include <rte_mempool.h>

#include <cstdint>
#include <memory>

namespace unis {

inline constexpr std::uint32_t kBurst = 64;              // packets of a burst (section 4.5)
inline constexpr std::uint32_t kPoolCache = 512;         // mbufs cached for each lcore
inline constexpr const char* kPoolHandler = "lf_stack";  // mempool operations, see above

class PacketMemory {
 public:
  // `packets` mbufs of 2 KiB. Fails where hugepages are short, naming what is missing.
  static absl::StatusOr<PacketMemory> Create(std::uint32_t packets);

  rte_mempool* pool() const noexcept { return pool_.get(); }
  std::uint32_t size() const noexcept { return pool_->size; }
  // Neither free nor in an lcore's cache. Counts what the caches hold without locking them.
  std::uint32_t InUse() const noexcept { return rte_mempool_in_use_count(pool_.get()); }

  // When the packet entered the platform, in TSC cycles, carried in a field of the mbuf so that
  // replayed packets stay as they were captured. 0: unknown.
  std::uint64_t& Stamp(rte_mbuf* packet) const noexcept {
    return *RTE_MBUF_DYNFIELD(packet, stamp_offset_, std::uint64_t*);
  }

 private:
  struct PoolDeleter {
    void operator()(rte_mempool* pool) const noexcept { rte_mempool_free(pool); }
  };
  PacketMemory(rte_mempool* pool, int stamp_offset) : pool_(pool), stamp_offset_(stamp_offset) {}

  std::unique_ptr<rte_mempool, PoolDeleter> pool_;
  int stamp_offset_;
};

}  // namespace unis
