// The engine's side of what a net_unis port tells of itself.
#pragma once

#include <absl/status/statusor.h>
#include <rte_memzone.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "ports/net_unis/port_shm.h"

namespace unis {

// Read once.
struct PortCounters {
  std::uint64_t polls = 0;
  std::uint64_t rx_packets = 0;
  std::uint64_t tx_packets = 0;
  std::uint64_t tx_refused = 0;
  std::int32_t polling_tid = 0;
  std::optional<unsigned> polling_lcore;  // none: unknown
};

class PortShm {
 public:
  // A memzone of that name, zeroed: a port's shm=.
  static absl::StatusOr<PortShm> Create(const std::string& name);

  std::uint64_t Polls() const noexcept { return Load(shm().polls); }
  PortCounters Read() const noexcept;
  // For one whose process has died: packets that it had taken, or put, and not counted yet; and it
  // polls no more.
  void Vacate(std::int32_t rx_uncounted, std::int32_t tx_uncounted) noexcept;

 private:
  struct ZoneDeleter {
    void operator()(const rte_memzone* zone) const noexcept { rte_memzone_free(zone); }
  };
  explicit PortShm(const rte_memzone* zone) : zone_(zone) {}
  const unis_port_shm& shm() const noexcept {
    return *static_cast<const unis_port_shm*>(zone_->addr);
  }
  template <typename T>
  static T Load(const T& field) noexcept {
    return __atomic_load_n(&field, __ATOMIC_ACQUIRE);
  }

  std::unique_ptr<const rte_memzone, ZoneDeleter> zone_;
};

}  // namespace unis
