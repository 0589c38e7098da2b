#include "functions/common/ports.h"

#include <fmt/format.h>
#include <rte_dev.h>
#include <rte_devargs.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_lcore.h>
#include <rte_mbuf.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <iterator>
#include <set>
#include <thread>
#include <vector>

#include "functions/common/signals.h"
#include "ports/net_unis/port_shm.h"

namespace unis::functions {
namespace {

constexpr std::uint16_t kDescriptors = 512;    // per queue, before the driver has its say
constexpr std::uint32_t kSparePackets = 2047;  // in flight beyond the descriptors
// With net_af_xdp what waits does so in as many descriptors, as on other kernel devices by default;
// and whatever their number, the driver holds so many packets.
constexpr std::uint16_t kAfXdpDescriptors = 1024;
constexpr std::uint32_t kAfXdpHolds = 2048;
constexpr unsigned kPoolCache = 128;  // packets: two bursts
// Lock-free: with DPDK's default, a function that is preempted inside it would stop all others that
// free its packets.
constexpr const char* kPoolHandler = "lf_stack";
constexpr auto kPeerTimeout = std::chrono::seconds(10);
constexpr auto kPeerPoll = std::chrono::milliseconds(20);

// What a port is opened with; filled in steps, so that the pool can be made in between.
struct PortPlan {
  std::uint16_t id;
  std::string name;
  rte_eth_dev_info info = {};
  std::uint16_t rx_descriptors = kDescriptors;
  std::uint16_t tx_descriptors = kDescriptors;
};

Error PortError(const PortPlan& port, std::string_view what, int status) {
  return Error{fmt::format("port {}: {}: {}", port.name, what, rte_strerror(-status))};
}

std::vector<std::uint16_t> AvailablePorts() {
  std::vector<std::uint16_t> ids;
  std::uint16_t id;
  RTE_ETH_FOREACH_DEV(id) ids.push_back(id);
  return ids;
}

std::string ListOf(const std::vector<std::uint16_t>& ids) {
  std::string list;
  for (const std::uint16_t id : ids) list += (list.empty() ? "" : ", ") + PortName(id);
  return list.empty() ? "none" : list;
}

Result<std::uint16_t> FindPort(const std::string& name) {
  std::uint16_t id = 0;
  if (rte_eth_dev_get_port_by_name(name.c_str(), &id) == 0) return id;
  return Error{fmt::format("there is no port '{}'; EAL found: {}", name, ListOf(AvailablePorts()))};
}

Result<std::vector<Direction>> ChoosePorts(const PortNames& names) {
  if (!names.in.empty()) {
    const auto in = FindPort(names.in);
    if (!in) return in.error();
    const auto out = FindPort(names.out);
    if (!out) return out.error();
    return std::vector<Direction>{{*in, *out}};
  }
  const auto ids = AvailablePorts();
  if (ids.empty()) {
    return Error{"EAL found no port; name one, for example --vdev net_pcap0,rx_pcap=F,tx_pcap=G"};
  }
  if (ids.size() == 1) return std::vector<Direction>{{ids[0], ids[0]}};
  if (ids.size() % 2 != 0) {
    return Error{
        fmt::format("there are {} ports ({}), which makes no pairs; choose with --ports "
                    "IN,OUT",
                    ids.size(), ListOf(ids))};
  }
  std::vector<Direction> directions;
  for (std::size_t i = 0; i < ids.size(); i += 2) {
    directions.push_back({ids[i], ids[i + 1]});
    directions.push_back({ids[i + 1], ids[i]});
  }
  return directions;
}

std::string_view ArgumentsOf(const PortPlan& port) {
  const rte_devargs* arguments = rte_dev_devargs(port.info.device);
  return arguments == nullptr ? "" : arguments->args;
}

// How long net_virtio_user's queues are; it uses no more of them than it is asked for. 0: of
// another driver.
std::uint16_t VirtioDescriptors(const PortPlan& port) {
  constexpr std::string_view kSize = "queue_size=";
  const std::string_view words = ArgumentsOf(port);
  const std::size_t at = words.find(kSize);
  if (std::string_view(port.info.driver_name) != "net_virtio_user" || at == words.npos) return 0;
  std::uint16_t size = 0;
  std::from_chars(words.data() + at + kSize.size(), words.data() + words.size(), size);
  return size;
}

bool IsAfXdp(const PortPlan& port) {
  return std::string_view(port.info.driver_name) == "net_af_xdp";
}

Failure Configure(PortPlan& port) {
  if (const int status = rte_eth_dev_info_get(port.id, &port.info); status != 0) {
    return PortError(port, "cannot be asked what it can do", status);
  }
  rte_eth_conf config = {};
  // Jumbo frames come in several segments. Never MBUF_FAST_FREE: packets are of several pools.
  config.txmode.offloads = port.info.tx_offload_capa & RTE_ETH_TX_OFFLOAD_MULTI_SEGS;
  // One queue each way also where one direction is not used: some drivers insist on pairs.
  if (const int status = rte_eth_dev_configure(port.id, 1, 1, &config); status != 0) {
    return PortError(port, "cannot be configured with one queue each way", status);
  }
  if (IsAfXdp(port)) port.rx_descriptors = kAfXdpDescriptors;
  if (const std::uint16_t size = VirtioDescriptors(port); size > 0)
    port.rx_descriptors = port.tx_descriptors = size;
  const int status =
      rte_eth_dev_adjust_nb_rx_tx_desc(port.id, &port.rx_descriptors, &port.tx_descriptors);
  if (status != 0) return PortError(port, "cannot be given descriptors", status);
  return std::nullopt;
}

int NumaSocket(const PortPlan& port) {
  const int socket = rte_eth_dev_socket_id(port.id);
  return socket < 0 ? SOCKET_ID_ANY : socket;
}

bool IsMemifClient(const PortPlan& port) {
  if (std::string_view(port.info.driver_name) != "net_memif") return false;
  return ArgumentsOf(port).find("role=server") == std::string_view::npos;
}

using Deadline = std::chrono::steady_clock::time_point;

// Once more until then. False: it is over, or a signal asked for the end.
bool WaitForPeers(Deadline deadline) {
  if (StopRequested() || std::chrono::steady_clock::now() >= deadline) return false;
  std::this_thread::sleep_for(kPeerPoll);
  return true;
}

Failure SetUpQueues(const PortPlan& port, rte_mempool* pool) {
  int status = rte_eth_rx_queue_setup(port.id, 0, port.rx_descriptors,
                                      static_cast<unsigned>(NumaSocket(port)), nullptr, pool);
  if (status != 0) return PortError(port, "receive queue", status);
  rte_eth_txconf tx = port.info.default_txconf;
  tx.offloads = port.info.tx_offload_capa & RTE_ETH_TX_OFFLOAD_MULTI_SEGS;
  status = rte_eth_tx_queue_setup(port.id, 0, port.tx_descriptors,
                                  static_cast<unsigned>(NumaSocket(port)), &tx);
  if (status != 0) return PortError(port, "transmit queue", status);
  return std::nullopt;
}

Failure Start(const PortPlan& port, bool addressed, Deadline deadline) {
  int status = rte_eth_dev_start(port.id);
  const bool client = IsMemifClient(port);
  while (status != 0 && client && WaitForPeers(deadline)) status = rte_eth_dev_start(port.id);
  if (status != 0) {
    return PortError(port, client ? "no server listens at its socket" : "cannot be started",
                     status);
  }
  if (addressed) return std::nullopt;
  // A function forwards what is not addressed to it. Virtual ports know no other mode and say so.
  status = rte_eth_promiscuous_enable(port.id);
  if (status != 0 && status != -ENOTSUP) return PortError(port, "promiscuous mode", status);
  return std::nullopt;
}

bool IsUp(const PortPlan& port) {
  rte_eth_link link = {};
  return rte_eth_link_get_nowait(port.id, &link) == 0 && link.link_status == RTE_ETH_LINK_UP;
}

// A memif's server listens before it is started, and turns away who comes too early; net_memif does
// not try again by itself.
void KnockAgain(const PortPlan& port) {
  if (!IsMemifClient(port) || IsUp(port)) return;
  rte_eth_dev_stop(port.id);
  rte_eth_dev_start(port.id);
}

void WaitForLinks(const std::vector<PortPlan>& ports, Deadline deadline) {
  constexpr int kKnockEach = 10;  // looks: a connection takes a few milliseconds
  for (int look = 1; !std::ranges::all_of(ports, IsUp) && WaitForPeers(deadline); ++look) {
    if (look % kKnockEach == 0) std::ranges::for_each(ports, KnockAgain);
  }
}

// ethdev wants a pool for each port, and net_unis ignores it, so all ports of rings get the
// engine's. One of our own would stay in the memory of the group if we are killed. Null: make one.
rte_mempool* PoolOfPrimary(const std::vector<PortPlan>& plans) {
  const bool rings = std::ranges::all_of(plans, [](const PortPlan& plan) {
    return std::string_view(plan.info.driver_name) == "net_unis";
  });
  if (!rings || rte_eal_process_type() != RTE_PROC_SECONDARY) return nullptr;
  rte_mempool* found = nullptr;
  rte_mempool_walk(
      [](rte_mempool* pool, void* to) {
        rte_mempool*& first = *static_cast<rte_mempool**>(to);
        if (first == nullptr && std::string_view(pool->name).starts_with(UNIS_PACKET_MEMORY))
          first = pool;
      },
      &found);
  return found;
}

}  // namespace

std::string PortName(std::uint16_t id) {
  char name[RTE_ETH_NAME_MAX_LEN] = {};
  return rte_eth_dev_get_name_by_port(id, name) == 0 ? name : fmt::format("{}", id);
}

Result<PortNames> ParsePortNames(std::string_view value) {
  const std::size_t comma = value.find(',');
  const std::string_view in = value.substr(0, comma);
  const std::string_view out = comma == std::string_view::npos ? in : value.substr(comma + 1);
  if (in.empty() || out.empty() || out.find(',') != std::string_view::npos) {
    return Error{fmt::format("bad value of --ports '{}': must be IN,OUT or one name", value)};
  }
  return PortNames{std::string(in), std::string(out)};
}

Result<NextHops> ParseNextHops(std::string_view value) {
  NextHops next_hops;
  for (const std::string_view word : Split(value, ',')) {
    if (word == "-") {
      next_hops.emplace_back();
      continue;
    }
    const auto mac = ParseMac(word, "value of --next-hop");
    if (!mac) return mac.error();
    if ((mac->bytes.front() & 1) != 0) {
      return Error{fmt::format("bad value of --next-hop '{}': is an address of many", word)};
    }
    next_hops.push_back(*mac);
  }
  return next_hops;
}

std::string NameOfLcore(std::string_view what) {
  return fmt::format("{}_lcore{}", what, rte_get_main_lcore());
}

std::string NameOfProcess(std::string_view what) { return fmt::format("{}_{}", what, getpid()); }

void Ports::FreeIfWhole::operator()(rte_mempool* pool) const {
  if (rte_mempool_full(pool)) rte_mempool_free(pool);
}

Result<Ports> Ports::Open(const PortNames& names, const NextHops& next_hops) {
  const auto chosen = ChoosePorts(names);
  if (!chosen) return chosen.error();
  Ports ports(*chosen);
  std::vector<PortPlan> plans;
  for (const Direction& direction : ports.directions_) {
    for (const std::uint16_t id : {direction.in, direction.out}) {
      if (std::ranges::find(plans, id, &PortPlan::id) == plans.end()) {
        plans.push_back({id, PortName(id)});
      }
    }
  }
  std::uint32_t packets = kSparePackets;
  for (PortPlan& plan : plans) {
    if (Failure failure = Configure(plan)) return *failure;
    ports.configured_.push_back(plan.id);
    packets += plan.tx_descriptors;
    packets += IsAfXdp(plan) ? kAfXdpHolds : plan.rx_descriptors;
  }
  rte_mempool* pool = PoolOfPrimary(plans);
  if (pool == nullptr) {
    ports.pool_.reset(rte_pktmbuf_pool_create_by_ops(NameOfProcess("rx").c_str(), packets,
                                                     kPoolCache, 0, RTE_MBUF_DEFAULT_BUF_SIZE,
                                                     NumaSocket(plans.front()), kPoolHandler));
    pool = ports.pool_.get();
  }
  if (pool == nullptr) {
    return Error{fmt::format("no memory for {} packets: {}; give EAL more with -m MB", packets,
                             rte_strerror(rte_errno))};
  }
  const Deadline deadline = std::chrono::steady_clock::now() + kPeerTimeout;
  for (const PortPlan& plan : plans) {
    if (Failure failure = SetUpQueues(plan, pool)) return *failure;
    if (Failure failure = Start(plan, !next_hops.empty(), deadline)) return *failure;
  }
  if (Failure failure = ports.Address(next_hops)) return *failure;
  WaitForLinks(plans, deadline);
  return ports;
}

Failure Ports::Address(const NextHops& next_hops) {
  if (next_hops.empty()) return std::nullopt;
  std::set<std::uint16_t> leave_by;
  for (const Direction& direction : directions_) leave_by.insert(direction.out);
  if (next_hops.size() != 1 && next_hops.size() != leave_by.size()) {
    return Error{fmt::format(
        "--next-hop has {} addresses, and packets leave by {} ports; give one for all, or one for "
        "each",
        next_hops.size(), leave_by.size())};
  }
  for (Direction& direction : directions_) {
    const auto at = std::distance(leave_by.begin(), leave_by.find(direction.out));
    const auto& next = next_hops[next_hops.size() == 1 ? 0 : static_cast<std::size_t>(at)];
    if (!next) continue;
    rte_ether_addr own = {};
    if (const int status = rte_eth_macaddr_get(direction.out, &own); status != 0) {
      return PortError({direction.out, PortName(direction.out)}, "has no MAC address", status);
    }
    auto& addresses = direction.addresses.emplace();
    std::ranges::copy(own.addr_bytes, std::ranges::copy(next->bytes, addresses.begin()).out);
  }
  return std::nullopt;
}

Ports::~Ports() {
  for (const std::uint16_t id : configured_) {
    rte_eth_dev_stop(id);
    rte_eth_dev_close(id);
  }
}

}  // namespace unis::functions
