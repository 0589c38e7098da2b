#include "engine/platform/chain.h"

#include <fmt/format.h>
#include <rte_errno.h>

#include <cstring>

namespace unis {
namespace {

std::string PortName(std::uint32_t nf) { return fmt::format("unis_port_{}", nf); }

}  // namespace

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

absl::StatusOr<std::unique_ptr<Chain>> Chain::Create(std::string name, std::uint32_t index,
                                                     std::uint32_t first_nf, std::uint32_t nfs,
                                                     std::uint32_t ring_size) {
  std::unique_ptr<Chain> chain(new Chain(std::move(name), first_nf));
  for (std::uint32_t i = 0; i <= nfs; ++i) {
    const std::string ring = fmt::format("unis_{}_{}", index, i);
    chain->links_.emplace_back(
        rte_ring_create(ring.c_str(), ring_size, SOCKET_ID_ANY, RING_F_SP_ENQ | RING_F_SC_DEQ));
    if (!chain->links_.back()) {
      return absl::ResourceExhaustedError(
          fmt::format("cannot make a ring of {} slots for chain {}: {}", ring_size, chain->name_,
                      rte_strerror(rte_errno)));
    }
  }
  for (std::uint32_t i = 0; i < nfs; ++i) {
    auto port = PortShm::Create(PortName(first_nf + i));
    if (!port.ok()) return port.status();
    chain->ports_.push_back(*std::move(port));
  }
  return chain;
}

std::string Chain::VdevOf(std::size_t i) const {
  const auto nf = first_nf_ + static_cast<std::uint32_t>(i);
  return fmt::format("net_unis{},rx={},tx={},shm={}", nf, links_[i]->name, links_[i + 1]->name,
                     PortName(nf));
}

std::uint64_t Chain::InRings() const noexcept {
  std::uint64_t packets = 0;
  for (const RingPtr& link : links_) packets += rte_ring_count(link.get());
  return packets;
}

}  // namespace unis
