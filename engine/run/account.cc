#include "engine/run/account.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

namespace unis {
namespace {

// A program of another DPDK group tells nothing; its links do. What it was refused it alone knows,
// but what the link dropped that it had taken.
PathCounts CountLinks(const Deployment& deployment, const Topology::Path& path) {
  PathCounts counts;
  for (const auto& end : path.out) {
    const LinkProgress* const out = deployment.progress(end.link);
    counts.tx += out == nullptr ? 0 : out->sent();
    counts.sent_known = counts.sent_known && out != nullptr;
    counts.refused += deployment.Dropped(end.link);
  }
  for (const auto& end : path.in) {
    const LinkProgress* const in = deployment.progress(end.link);
    counts.rx += in == nullptr ? 0 : in->received();
    counts.received_known = counts.received_known && in != nullptr;
  }
  return counts;
}

// Why an account that is taken now does not hold exactly, though the source rests; empty: it does.
// Frees what is in the queue of the sink's port.
std::string Doubt(const Deployment& deployment, bool drained) {
  if (!drained) return "the chains did not drain";
  const bool can_free = deployment.FreeSent();
  const std::uint64_t explained = deployment.kept() + deployment.WaitingInside();
  const std::uint32_t in_use = deployment.memory().InUse();
  if (!can_free && in_use > explained)
    return fmt::format(
        "{} packets are in functions or in the queue of a port, whose driver does not tell",
        in_use - explained);
  if (in_use < deployment.kept())
    return fmt::format("a port holds {} packets fewer than when it was opened",
                       deployment.kept() - in_use);
  return "";
}

// Of the functions that are there and of those that were removed.
std::vector<FunctionCounts> CountFunctions(const Deployment& deployment) {
  std::vector<FunctionCounts> all;
  for (std::size_t i = 0; i < deployment.topology().functions.size(); ++i)
    all.push_back(CountFunction(deployment, i));
  for (const auto& [name, counts] : deployment.removed_ports())
    if (!deployment.topology().FindFunction(name)) all.push_back(counts);
  return all;
}

v1::Account Take(const Deployment& deployment, bool exact) {
  deployment.CountWires();
  v1::Account account = deployment.gone().chains;
  account.set_unclassified(deployment.unclassified());
  account.set_offered(account.offered() + account.unclassified());
  for (const auto& chain : deployment.chains()) AddChain(*chain, account);
  if (const EthPort* port = deployment.source_port()) account.set_dropped_source(port->Missed());
  account.set_offered(account.offered() + account.dropped_source());
  std::uint64_t refused = 0, taken = 0;
  for (const FunctionCounts& counts : CountFunctions(deployment)) {
    refused += counts.refused;
    taken += counts.taken();
  }
  account.set_dropped_egress_full(refused);
  const std::uint32_t in_use = deployment.memory().InUse();
  const std::uint64_t in_memory = in_use - std::min(in_use, deployment.kept());
  const std::uint64_t in_rings = deployment.WaitingInside();
  // What functions took and neither sent nor were refused, they hold or have dropped by themselves.
  const std::uint64_t held = in_memory > in_rings ? in_memory - in_rings : 0;
  std::uint64_t dropped = taken > held ? taken - held : 0;
  // Programs of other DPDK groups likewise; while packets move nobody can tell the two apart.
  const std::uint64_t outside = InForeignHands(deployment);
  // What links dropped beyond what is missing, others sent, or it was counted twice: told as
  // unaccounted. While packets move it may only be told before it is missing.
  const std::uint64_t told = deployment.DroppedOnLinks();
  const std::uint64_t on_links = exact ? told : std::min(outside, told);
  const std::uint64_t foreign = outside - std::min(outside, on_links);
  const std::uint64_t waiting = std::min(foreign, deployment.WaitingOutside());
  // Where a link may have dropped what is missing, nobody can say that a function has.
  if (exact && deployment.may_lose_unseen())
    account.set_lost_unseen(foreign - waiting);
  else if (exact)
    dropped += foreign - waiting;
  account.set_dropped_by_function(dropped);
  account.set_dropped_on_links(on_links);
  account.set_in_flight(in_memory + (exact ? waiting : foreign));
  account.set_copied(deployment.copied());
  account.set_copies_dropped(deployment.copies_dropped());
  account.set_copies_ended(deployment.copies_ended());
  // Without signs: what functions count is theirs to write, and must not overflow.
  account.set_unaccounted(
      static_cast<std::int64_t>(account.offered() + account.copied() -
                                (account.delivered() + account.copies_ended() + DroppedOf(account) +
                                 account.copies_dropped_down() + account.in_flight())));
  account.set_exact(exact);
  return account;
}

}  // namespace

void AddChain(const Chain& chain, v1::Account& account) {
  account.set_offered(account.offered() + chain.offered.value());
  account.set_dropped_ingress_full(account.dropped_ingress_full() +
                                   chain.dropped_ingress_full.value());
  account.set_delivered(account.delivered() + chain.delivered.value());
  account.set_dropped_sink(account.dropped_sink() + chain.dropped_sink.value());
  account.set_dropped_down(account.dropped_down() + chain.Down());
  account.set_copies_dropped_down(account.copies_dropped_down() + chain.copies_dropped.value());
}

PathCounts CountPath(const Deployment& deployment, const Topology::Path& path) {
  if (!deployment.topology().functions[path.function].counts()) return CountLinks(deployment, path);
  PathCounts counts{.counted = true};
  // The egresses first: what was sent had been received before.
  for (const auto& end : path.out) {
    const PortCounters sent = deployment.port(path.function, end.port)->Read();
    counts.tx += sent.tx_packets;
    counts.refused += sent.tx_refused;
  }
  for (const auto& end : path.in)
    counts.rx += deployment.port(path.function, end.port)->Read().rx_packets;
  return counts;
}

FunctionCounts CountFunction(const Deployment& deployment, std::size_t index) {
  const auto& function = deployment.topology().functions[index];
  FunctionCounts counts;
  if (!function.counts()) return counts;
  const auto removed = deployment.removed_ports().find(function.config.name());
  if (removed != deployment.removed_ports().end()) counts = removed->second;
  // What was sent had been received before: the egresses are read first.
  for (std::size_t i = 0; i < function.ports.size(); ++i) {
    const PortCounters sent = deployment.port(index, i)->Read();
    counts.tx += sent.tx_packets;
    counts.refused += sent.tx_refused;
  }
  for (std::size_t i = 0; i < function.ports.size(); ++i)
    counts.rx += deployment.port(index, i)->Read().rx_packets;
  return counts;
}

std::optional<std::uint64_t> TakenByFunction(const Deployment& deployment, std::size_t index) {
  const auto& function = deployment.topology().functions[index];
  if (function.counts()) return CountFunction(deployment, index).rx;
  std::uint64_t taken = 0;
  for (const auto& port : function.ports) {
    if (!port.rx) continue;
    if (!deployment.topology().link_of(*port.rx).kind->can_be_read()) return std::nullopt;
    if (const LinkProgress* in = deployment.progress(*port.rx)) taken += in->received();
  }
  return taken;
}

v1::Account TakeAccount(const Deployment& deployment) {
  return deployment.foreign() ? v1::Account() : Take(deployment, false);
}

v1::Account TakeAccountAtRest(const Deployment& deployment, bool drained) {
  if (deployment.foreign()) return {};
  const std::string doubt = Doubt(deployment, drained);  // first: it frees packets
  v1::Account account = Take(deployment, doubt.empty());
  account.set_doubt(doubt);
  return account;
}

std::uint64_t Movement(const Deployment& deployment) {
  deployment.CountWires();
  std::uint64_t moved = 0;
  for (const auto& path : deployment.topology().paths) {
    const PathCounts counts = CountPath(deployment, path);
    moved += counts.rx + counts.tx + counts.refused;
  }
  moved += deployment.SentOutside() + deployment.ReceivedFromOutside() +
           deployment.CarriedByEngine() + deployment.copies_ended();
  for (const auto& chain : deployment.chains())
    moved += chain->delivered.value() + chain->dropped_sink.value() +
             chain->dropped_waiting.value() + chain->copies_dropped.value();
  return moved;
}

std::uint64_t DroppedOf(const v1::Account& account) {
  return account.unclassified() + account.dropped_ingress_full() + account.dropped_egress_full() +
         account.dropped_by_function() + account.dropped_on_links() + account.dropped_sink() +
         account.lost_unseen() + account.dropped_source() + account.dropped_down();
}

std::uint64_t InForeignHands(const Deployment& deployment) {
  const std::uint64_t back =
      deployment.ReceivedFromOutside();  // the later one first: it can only grow
  const std::uint64_t into = deployment.SentOutside();
  return into > back ? into - back : 0;
}

bool Drained(const Deployment& deployment) {
  return deployment.InUse() <= deployment.kept() && deployment.WaitingOutside() == 0;
}

}  // namespace unis
