#include "engine/platform/heartbeat.h"

#include <fmt/format.h>
#include <rte_errno.h>

#include <cstring>

namespace unis {

absl::StatusOr<Heartbeat> Heartbeat::Create() {
  const rte_memzone* zone = rte_memzone_reserve_aligned(UNIS_HEARTBEAT, sizeof(unis_heartbeat),
                                                        SOCKET_ID_ANY, 0, RTE_CACHE_LINE_SIZE);
  if (zone == nullptr) {
    return absl::ResourceExhaustedError(
        fmt::format("cannot reserve memzone " UNIS_HEARTBEAT ": {}", rte_strerror(rte_errno)));
  }
  std::memset(zone->addr, 0, sizeof(unis_heartbeat));
  return Heartbeat(zone);
}

}  // namespace unis
