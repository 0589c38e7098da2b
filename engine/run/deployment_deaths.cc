// What is done about a function whose process has died.
#include <rte_lcore.h>
#include <rte_mempool.h>

#include <algorithm>
#include <utility>

#include "engine/platform/dead_port.h"
#include "engine/run/account.h"
#include "engine/run/deployment.h"

namespace unis {

void Deployment::NotePositions(std::size_t function) {
  const auto& of_function = topology_.functions[function];
  for (std::size_t i = 0; of_function.counts() && i < of_function.ports.size(); ++i) {
    const auto& at = of_function.ports[i];
    const PortCounters counted = port(function, i)->Read();
    Positions& positions = positions_[at.name];
    if (at.rx)
      positions.taken =
          occupancy(*at.rx).Received() - static_cast<std::uint32_t>(counted.rx_packets);
    if (at.tx)
      positions.put = occupancy(*at.tx).Sent() - static_cast<std::uint32_t>(counted.tx_packets);
  }
}

void Deployment::ReclaimPorts(std::size_t function) {
  const auto& of_function = topology_.functions[function];
  for (std::size_t i = 0; i < of_function.ports.size(); ++i) {
    const auto& at = of_function.ports[i];
    if (!of_function.counts()) {
      const Topology::Link& where = topology_.link_of(at.rx ? *at.rx : *at.tx);
      if (where.kind->in_group()) continue;
      sampler_->Do([&] {
        for (LinkIndex i = where.first; i < where.first + where.directions(); ++i)
          sampler_->Leave(i);
        link(where.first).Forget(at.rx ? *at.rx - where.first : 0);
        WatchReadable(where);  // what leads to the other end
      });
      continue;
    }
    ReclaimPort(at, *ports_.at(at.name));
    unis_release_dead_port(of_function.config.ports(static_cast<int>(i)).device().c_str());
  }
  if (of_function.counts()) {
    const FunctionCounts counts = CountFunction(*this, function);
    lost_ += counts.rx - std::min(counts.rx, counts.tx);  // what was refused it may have kept
  }
  ReadLinksAnew();
}

void Deployment::FreeDevices(std::size_t function) {
  for (const auto& port : topology_.functions[function].config.ports())
    unis_release_dead_port(port.device().c_str());
}

void Deployment::ReclaimPort(const Topology::Port& at, PortShm& shm) {
  const PortCounters counted = shm.Read();
  const auto noted = positions_.find(at.name);
  std::int32_t taken = 0, put = 0;
  if (at.rx) {
    link(*at.rx).ReclaimReceiver();
    if (noted != positions_.end())
      taken = static_cast<std::int32_t>(occupancy(*at.rx).Received() - noted->second.taken -
                                        static_cast<std::uint32_t>(counted.rx_packets));
  }
  if (at.tx) {
    link(*at.tx).ReclaimSender();
    if (noted != positions_.end())
      put = static_cast<std::int32_t>(occupancy(*at.tx).Sent() - noted->second.put -
                                      static_cast<std::uint32_t>(counted.tx_packets));
  }
  if (counted.polling_tid != 0) shm.Vacate(taken, put);
  if (counted.polling_lcore) lost_ += ForgetCache(*counted.polling_lcore);
  positions_.erase(at.name);
}

// A process may have died while it changed its lcore's cache: nothing that lies there can be
// trusted. Nor can the number, which the process wrote: our own lcores are left alone. How many
// buffers went with it, at most.
std::uint32_t Deployment::ForgetCache(unsigned lcore) {
  if (lcore >= RTE_MAX_LCORE || rte_eal_lcore_role(lcore) != ROLE_OFF) return 0;
  rte_mempool_cache* const cache = rte_mempool_default_cache(memory().pool(), lcore);
  return std::min(std::exchange(cache->len, 0U), 2 * kPoolCache);
}

void Deployment::EmptyBefore(std::size_t function) {
  if (foreign()) return;  // what waits is others'
  for (const std::size_t index : topology_.functions[function].paths) {
    const auto& path = topology_.paths[index];
    Chain& chain = *chains_[path.chain];
    for (const auto& end : path.in) {
      const std::uint32_t dropped = link(end.link).Empty();
      if (dropped == 0) continue;  // also where others receive there
      link(end.link).end()->received.Add(dropped);
      (path.copies ? chain.copies_dropped : chain.dropped_waiting).Add(dropped);
    }
  }
}

void Deployment::Open(const std::function<bool(std::size_t)>& runs) {
  const std::set<LinkIndex> open = topology_.OpenLinks(runs);
  for (std::size_t i = 0; i < chains_.size(); ++i)
    chains_[i]->up = open.contains(topology_.chains[i].ingress);
  for (const auto& split : topology_.splits)
    for (const auto& branch : split.branches)
      link(branch.to).end()->closed = !open.contains(branch.to);
}

// Called once no packet has moved for a while, after a death. Living functions over rings may hold
// buffers then too, and keep them for good or pass them on later. So no more is written off than
// the dead had taken and not passed on; of that they may have freed some, and so a living one may
// still pass some on after all: InUse() falls below kept_ plus what waits then, and the account
// says that it is not exact. It loses none of them, for it goes by the ports' counters; `kept_`
// only says which buffers in use are not waiting anywhere.
void Deployment::WriteOff() {
  const std::uint64_t waiting = WaitingInside() + HeldByLinks();
  const std::uint32_t in_use = InUse();
  const std::uint64_t most = kept_ + std::exchange(lost_, 0);
  if (in_use > waiting) kept_ = static_cast<std::uint32_t>(std::min(in_use - waiting, most));
}

}  // namespace unis
