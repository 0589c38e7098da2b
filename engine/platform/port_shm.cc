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
  const std::int32_t tid = Load(from.polling_tid);
  const std::int32_t lcore = Load(from.polling_lcore);
  return {
      .polls = Load(from.polls),
      .rx_packets = Load(from.rx_packets),
      .tx_packets = Load(from.tx_packets),
      .tx_refused = Load(from.tx_refused),
      .polling_tid = tid,
      .polling_lcore = lcore > 0 ? std::optional(static_cast<unsigned>(lcore) - 1) : std::nullopt};
}

void PortShm::Vacate(std::int32_t rx_uncounted, std::int32_t tx_uncounted) noexcept {
  auto& of_port = *static_cast<unis_port_shm*>(zone_->addr);
  of_port.rx_packets += static_cast<std::uint64_t>(static_cast<std::int64_t>(rx_uncounted));
  of_port.tx_packets += static_cast<std::uint64_t>(static_cast<std::int64_t>(tx_uncounted));
  __atomic_store_n(&of_port.polling_tid, 0, __ATOMIC_RELEASE);
}

}  // namespace unis
