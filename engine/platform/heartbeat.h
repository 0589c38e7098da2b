// By which functions of the DPDK group know that the engine goes on (see
// ports/net_unis/port_shm.h).
#pragma once

#include <absl/status/statusor.h>
#include <rte_memzone.h>

#include <memory>

#include "ports/net_unis/port_shm.h"

namespace unis {

class Heartbeat {
 public:
  static absl::StatusOr<Heartbeat> Create();

  // Functions take an engine that has never beaten, or does so no longer by itself, for one that
  // does not schedule yet. Nobody beats meanwhile.
  void Reset() noexcept {
    __atomic_store_n(&static_cast<unis_heartbeat*>(zone_->addr)->beats, 0, __ATOMIC_RELAXED);
  }
  // By one thread. A store.
  void Beat() noexcept {
    std::uint64_t& beats = static_cast<unis_heartbeat*>(zone_->addr)->beats;
    __atomic_store_n(&beats, beats + 1, __ATOMIC_RELAXED);
  }

 private:
  struct ZoneDeleter {
    void operator()(const rte_memzone* zone) const noexcept { rte_memzone_free(zone); }
  };
  explicit Heartbeat(const rte_memzone* zone) : zone_(zone) {}

  std::unique_ptr<const rte_memzone, ZoneDeleter> zone_;
};

}  // namespace unis
