#include "engine/platform/port_shm.h"

#include <fmt/format.h>
#include <rte_errno.h>

#include <cstring>

namespace unis {

absl::StatusOr<PortShm> PortShm::Create(const std::string& name) {
  const rte_memzone* zone = rte_memzone_reserve_aligned(name.c_str(), sizeof(unis_port_shm),
                                                        SOCKET_ID_ANY, 0, RTE_CACHE_LINE_SIZE);
  if (zone == nullptr) {
    return absl::ResourceExhaustedError(
        fmt::format("cannot reserve memzone {}: {}", name, rte_strerror(rte_errno)));
  }
  std::memset(zone->addr, 0, sizeof(unis_port_shm));
  return PortShm(zone);
}

PortCounters PortShm::Read() const noexcept {
  const unis_port_shm& from = shm();
  return {.polls = Load(from.polls),
          .rx_packets = Load(from.rx_packets),
          .tx_packets = Load(from.tx_packets),
          .tx_refused = Load(from.tx_refused),
          .polling_tid = Load(from.polling_tid)};
}

}  // namespace unis
