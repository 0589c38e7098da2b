#include "engine/platform/eth_port.h"

#include <fmt/format.h>
#include <rte_bus_vdev.h>
#include <rte_dev.h>
#include <rte_ethdev.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

namespace unis {
namespace {

// As long as the driver says that they are; one that does not say has them as it was asked.
PortQueues Read(std::uint16_t port, PortQueues queues) {
  rte_eth_rxq_info rx{};
  rte_eth_txq_info tx{};
  if (rte_eth_rx_queue_info_get(port, 0, &rx) == 0 && rx.nb_desc > 0) queues.rx = rx.nb_desc;
  if (rte_eth_tx_queue_info_get(port, 0, &tx) == 0 && tx.nb_desc > 0) queues.tx = tx.nb_desc;
  return queues;
}

// `queues` become what the device takes.
absl::Status SetUp(std::uint16_t port, const std::string& device, rte_mempool* pool,
                   PortQueues& queues, bool promiscuous) {
  const auto fail = [&device](const char* step, int code) {
    return absl::InternalError(
        fmt::format("cannot {} port {}: {}", step, device, std::strerror(-code)));
  };
  const auto refused = [&device](const char* way, std::uint16_t descriptors, int code) {
    return absl::InternalError(
        fmt::format("cannot give port {} a {} queue of {} descriptors: {}; `descriptors` in the "
                    "chain file makes it longer or shorter",
                    device, way, descriptors, std::strerror(-code)));
  };
  const rte_eth_conf conf{};
  if (int code = rte_eth_dev_configure(port, queues.rx_count, queues.tx_count, &conf))
    return fail("configure", code);
  if (int code = rte_eth_dev_adjust_nb_rx_tx_desc(port, &queues.rx, &queues.tx))
    return fail("size the queues of", code);
  const int socket = rte_eth_dev_socket_id(port);
  const auto node = static_cast<unsigned>(socket < 0 ? 0 : socket);
  for (std::uint16_t queue = 0; queue < queues.rx_count; ++queue) {
    if (int code = rte_eth_rx_queue_setup(port, queue, queues.rx, node, nullptr, pool))
      return refused("receive", queues.rx, code);
  }
  for (std::uint16_t queue = 0; queue < queues.tx_count; ++queue) {
    if (int code = rte_eth_tx_queue_setup(port, queue, queues.tx, node, nullptr))
      return refused("send", queues.tx, code);
  }
  queues = Read(port, queues);
  if (int code = rte_eth_dev_start(port)) return fail("start", code);
  if (promiscuous) (void)rte_eth_promiscuous_enable(port);  // not every device can, or needs to
  return absl::OkStatus();
}

// Else it is on a bus of the machine, as a PCI device: there it is whether or not anybody drives
// it.
bool IsVirtual(const std::string& device) {
  return device.starts_with("net_") || device.starts_with("eth_");
}

// Not by rte_dev_probe where that can be helped: it has every process of the group open the device
// too, and functions may run already.
int Probe(const std::string& device) {
  const std::size_t comma = device.find(',');
  if (!IsVirtual(device)) return rte_dev_probe(device.c_str());
  const std::string arguments = comma == std::string::npos ? "" : device.substr(comma + 1);
  return rte_vdev_init(device.substr(0, comma).c_str(), arguments.c_str());
}

// EAL names a PCI device with its domain; people often leave 0000 out.
std::optional<std::uint16_t> FindPort(const std::string& name) {
  std::uint16_t port = 0;
  for (const std::string& known : {name, "0000:" + name})
    if (rte_eth_dev_get_port_by_name(known.c_str(), &port) == 0) return port;
  return std::nullopt;
}

// A port that EAL probed at its start is nobody's.
bool IsOwned(std::uint16_t port) {
  rte_eth_dev_owner owner{};
  return rte_eth_dev_owner_get(port, &owner) == 0 && owner.id != RTE_ETH_DEV_NO_OWNER;
}

absl::Status Own(std::uint16_t port) {
  const auto owner = NewPortOwner();
  if (!owner.ok()) return owner.status();
  rte_eth_dev_owner named{.id = *owner, .name = "unis"};
  if (rte_eth_dev_owner_set(port, &named) == 0) return absl::OkStatus();
  return absl::InternalError(fmt::format("cannot own port {}", port));
}

// As it was when EAL had probed it.
void Disown(std::uint16_t port) {
  rte_eth_dev_owner owner{};
  if (rte_eth_dev_owner_get(port, &owner) == 0) (void)rte_eth_dev_owner_unset(port, owner.id);
}

}  // namespace

absl::StatusOr<std::uint64_t> NewPortOwner() {
  std::uint64_t id = 0;
  if (rte_eth_dev_owner_new(&id) == 0) return id;
  return absl::InternalError("DPDK gives no owner id for Ethernet ports");
}

absl::StatusOr<EthPort> EthPort::Open(const std::string& device, rte_mempool* pool,
                                      const PortQueues& wanted, bool promiscuous) {
  const std::string name = device.substr(0, device.find(','));
  std::optional<std::uint16_t> port = FindPort(name);
  if (port && IsOwned(*port)) {
    return absl::InvalidArgumentError(fmt::format(
        "device {} is used twice; name it once, with both rx and tx, or use two devices", name));
  }
  if (!port) {  // EAL has not probed it at its start, as it does a PCI device
    if (int code = Probe(device)) {
      return absl::InvalidArgumentError(
          fmt::format("DPDK cannot open device {}: {}; check its name and arguments", device,
                      std::strerror(-code)));
    }
    port = FindPort(name);
  }
  if (!port) {
    if (IsVirtual(name)) rte_vdev_uninit(name.c_str());
    return absl::InvalidArgumentError(fmt::format("device {} is not an Ethernet port", device));
  }
  EthPort opened(*port, wanted);  // from now on closed also after an error
  if (auto status = Own(*port); !status.ok()) return status;
  if (auto status = SetUp(*port, device, pool, opened.queues_, promiscuous); !status.ok())
    return status;
  opened.missed_before_ = opened.MissedEver();
  return opened;
}

EthPort::~EthPort() {
  if (port_ == kClosed) return;
  char device[RTE_ETH_NAME_MAX_LEN] = {};
  rte_eth_dev_get_name_by_port(port_, device);
  rte_eth_dev_stop(port_);
  // Not closed: EAL makes the port of a PCI device once, when it probes the device. Not removed
  // from its bus: rte_dev_remove waits for every process of the group.
  if (!IsVirtual(device)) {
    Disown(port_);
    return;
  }
  rte_eth_dev_close(port_);
  rte_vdev_uninit(device);  // the bus of virtual devices would keep it
}

EthPort::EthPort(EthPort&& other) noexcept
    : port_(std::exchange(other.port_, kClosed)),
      queues_(other.queues_),
      missed_before_(other.missed_before_),
      next_(other.next_) {}

bool EthPort::LinkUp() const {
  rte_eth_link link{};
  return rte_eth_link_get_nowait(port_, &link) == 0 && link.link_status == RTE_ETH_LINK_UP;
}

std::array<std::uint8_t, 6> EthPort::Address() const {
  rte_ether_addr address{};
  (void)rte_eth_macaddr_get(port_, &address);
  return std::to_array(address.addr_bytes);
}

std::uint64_t EthPort::Missed() const {
  const std::uint64_t ever = MissedEver();
  return ever - std::min(ever, missed_before_);
}

// Of a device that is not closed the driver goes on counting.
std::uint64_t EthPort::MissedEver() const {
  rte_eth_stats stats{};
  return rte_eth_stats_get(port_, &stats) == 0 ? stats.imissed + stats.ierrors : 0;
}

std::uint16_t EthPort::Receive(rte_mbuf** packets, std::uint16_t count) const noexcept {
  if (queues_.rx_count == 1) return rte_eth_rx_burst(port_, 0, packets, count);
  std::uint16_t received = 0;
  for (std::uint16_t turn = 0; turn < queues_.rx_count; ++turn) {
    const auto queue = static_cast<std::uint16_t>((next_ + turn) % queues_.rx_count);
    const auto left = static_cast<std::uint16_t>(count - received);
    received = static_cast<std::uint16_t>(received +
                                          rte_eth_rx_burst(port_, queue, packets + received, left));
  }
  // Else the others might wait for ever.
  next_ = static_cast<std::uint16_t>((next_ + 1) % queues_.rx_count);
  return received;
}

std::uint16_t EthPort::Send(rte_mbuf** packets, std::uint16_t count) const noexcept {
  return rte_eth_tx_burst(port_, 0, packets, count);
}

// A queue that is shorter never has.
std::optional<bool> EthPort::HasRoom(std::uint16_t count) const noexcept {
  const auto last = static_cast<std::uint16_t>(count - 1);
  const int status = rte_eth_tx_descriptor_status(port_, 0, last);
  if (status == -ENOTSUP || status == -ENODEV) return std::nullopt;
  return status == RTE_ETH_TX_DESC_DONE;
}

bool EthPort::FreeSent() const noexcept { return rte_eth_tx_done_cleanup(port_, 0, 0) >= 0; }

}  // namespace unis
