// A service function chain in the packet memory: a ring in front of, between and behind its NFs,
// and what is counted at both ends.
#pragma once

#include <absl/status/statusor.h>
#include <rte_memzone.h>
#include <rte_ring.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/counter.h"
#include "engine/base/histogram.h"
#include "ports/net_unis/port_shm.h"

namespace unis {

// What a port tells of itself, read once.
struct PortCounters {
  std::uint64_t polls = 0;
  std::uint64_t rx_packets = 0;
  std::uint64_t tx_packets = 0;
  std::uint64_t tx_refused = 0;
  std::int32_t polling_tid = 0;
};

// The shared-memory end of a net_unis port.
class PortShm {
 public:
  static absl::StatusOr<PortShm> Create(const std::string& name);
  std::uint64_t Polls() const noexcept { return Load(shm().polls); }
  PortCounters Read() const noexcept;

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

struct RingDeleter {
  void operator()(rte_ring* ring) const noexcept { rte_ring_free(ring); }
};
using RingPtr = std::unique_ptr<rte_ring, RingDeleter>;

class Chain {
 public:
  // `nfs` NFs, `nfs` + 1 rings of `ring_size` slots, of which DPDK can fill all but one. `index`
  // among the chains and `first_nf` among all NFs make the names unique in the DPDK group.
  static absl::StatusOr<std::unique_ptr<Chain>> Create(std::string name, std::uint32_t index,
                                                       std::uint32_t first_nf, std::uint32_t nfs,
                                                       std::uint32_t ring_size);

  const std::string& name() const { return name_; }
  std::uint32_t nfs() const { return static_cast<std::uint32_t>(ports_.size()); }
  rte_ring* link(std::size_t i) const { return links_[i].get(); }  // i-th NF's ingress
  rte_ring* first() const { return links_.front().get(); }
  rte_ring* last() const { return links_.back().get(); }
  const PortShm& port(std::size_t i) const { return ports_[i]; }
  std::string VdevOf(std::size_t i) const;  // value of the i-th NF's --vdev
  std::uint64_t InRings() const noexcept;

  // Written by the traffic source.
  Counter offered;
  Counter dropped_ingress_full;
  // Written by the sink.
  Counter delivered;
  Counter delivered_bytes;
  Counter dropped_sink;
  LatencyHistogram latency;  // ns; only inside the sink's Iterate() and Do()

 private:
  Chain(std::string name, std::uint32_t first_nf) : name_(std::move(name)), first_nf_(first_nf) {}

  std::string name_;
  std::uint32_t first_nf_;
  std::vector<RingPtr> links_;
  std::vector<PortShm> ports_;
};

using Chains = std::vector<std::unique_ptr<Chain>>;

}  // namespace unis
