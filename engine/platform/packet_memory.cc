#include "engine/platform/packet_memory.h"

#include <fmt/format.h>
#include <rte_errno.h>
#include <rte_lcore.h>

#include <string>

#include "ports/net_unis/port_shm.h"

namespace unis {

absl::StatusOr<PacketMemory> PacketMemory::Create(std::uint32_t packets) {
  static const rte_mbuf_dynfield kStampField = {.name = "unis_stamp",
                                                .size = sizeof(std::uint64_t),
                                                .align = alignof(std::uint64_t),
                                                .flags = 0};
  const int offset = rte_mbuf_dynfield_register(&kStampField);
  if (offset < 0) return absl::ResourceExhaustedError("no room for a time stamp in DPDK's mbuf");
  // A testpmd that is a secondary process looks for a pool of this name on the socket of its main
  // lcore, which has the engine's CPU.
  const std::string name =
      fmt::format(UNIS_PACKET_MEMORY "{}", rte_lcore_to_socket_id(rte_get_main_lcore()));
  rte_mempool* pool = rte_pktmbuf_pool_create_by_ops(
      name.c_str(), packets, kPoolCache, 0, RTE_MBUF_DEFAULT_BUF_SIZE, SOCKET_ID_ANY, kPoolHandler);
  if (pool == nullptr) {
    return absl::ResourceExhaustedError(fmt::format(
        "cannot make a packet memory of {} packets ({} MB, handler {}): {}; free or add hugepages "
        "(`unis doctor` tells how)",
        packets, (std::uint64_t{packets} * 2432) >> 20, kPoolHandler, rte_strerror(rte_errno)));
  }
  return PacketMemory(pool, offset);
}

}  // namespace unis
