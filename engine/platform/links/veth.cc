#include "engine/platform/links/veth.h"

#include <fmt/format.h>
#include <net/if.h>
#include <rte_cycles.h>
#include <rte_ether.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <utility>

#include "engine/platform/links/kinds.h"
#include "engine/platform/links/packet_socket.h"
#include "engine/platform/links/xdp_socket.h"
#include "engine/platform/packet_memory.h"

namespace unis {
namespace {

constexpr std::size_t kAddresses = 12;  // bytes in front of a VLAN tag
constexpr std::size_t kTag = 4;
// Of the ring of a program that is not attached: the engine cannot read it.
constexpr std::uint32_t kAssumedSlots = 1024;

}  // namespace

// ------------------------------------------------------------------ the engine's end

VethEnd::VethEnd(const PacketRings& rings, UniqueFd sending, rte_mempool* pool,
                 std::uint32_t most_bytes)
    : rings_(rings),
      sender_(std::move(sending)),
      pool_(pool),
      most_bytes_(most_bytes),
      capacity_(rings.slots()) {
  for (std::size_t i = 0; i < messages_.size(); ++i) {
    messages_[i].msg_hdr.msg_iov = &vectors_[i];
    messages_[i].msg_hdr.msg_iovlen = 1;
  }
}

absl::StatusOr<UniqueFd> VethEnd::OpenSender(const std::string& device) {
  UniqueFd socket(::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0));
  sockaddr_ll address{};
  address.sll_family = AF_PACKET;
  address.sll_ifindex = static_cast<int>(if_nametoindex(device.c_str()));
  const int on = 1;
  if (!socket.valid() || address.sll_ifindex == 0 ||
      setsockopt(socket.get(), SOL_PACKET, PACKET_QDISC_BYPASS, &on, sizeof(on)) != 0 ||
      bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0)
    return absl::ErrnoToStatus(errno, fmt::format("cannot open a packet socket on {}", device));
  return socket;
}

absl::StatusOr<MacAddress> VethEnd::AddressOf(const UniqueFd& socket, const std::string& device) {
  ifreq request{};
  device.copy(request.ifr_name, IFNAMSIZ - 1);
  if (ioctl(socket.get(), SIOCGIFHWADDR, &request) != 0)
    return absl::ErrnoToStatus(errno, fmt::format("cannot read the address of {}", device));
  MacAddress address;
  std::memcpy(address.data(), request.ifr_hwaddr.sa_data, address.size());
  return address;
}

std::uint16_t VethEnd::Send(rte_mbuf** packets, std::uint16_t count) noexcept {
  const std::uint32_t room = RoomOfReceiver(std::min<std::uint32_t>(count, kBurst));
  std::array<std::uint16_t, kBurst> at;  // of a message: the number of its packet
  unsigned messages = 0;
  for (std::uint16_t i = 0; i < room; ++i) {
    const rte_mbuf& packet = *packets[i];
    if (packet.pkt_len > most_bytes_ || packet.pkt_len < kLeastBytes) continue;
    next_.Write(packets[i]);
    const void* const bytes = rte_pktmbuf_read(&packet, 0, packet.pkt_len, &flat_[messages]);
    vectors_[messages] = {.iov_base = const_cast<void*>(bytes), .iov_len = packet.pkt_len};
    at[messages++] = i;
  }
  const unsigned passed = Pass(messages);
  if (passed < messages) refused_at_ = rte_rdtsc();
  // Only now: then all that is counted is in the receiver's ring.
  __atomic_store_n(&handed_, handed_ + passed, __ATOMIC_RELEASE);
  const auto sent = static_cast<std::uint16_t>(passed < messages ? at[passed] : room);
  unfit_.Add(sent - passed);
  rte_pktmbuf_free_bulk(packets, sent);
  return sent;
}

// How many the kernel took. It says why it refused a message only where that is the first of a
// call, so the rest is offered again. What a device drops at once, as one without a carrier does,
// is both refused and counted there: until a call returns nobody may see that count alone.
unsigned VethEnd::Pass(unsigned messages) noexcept {
  const std::uint64_t before = refused_.load(std::memory_order_relaxed);
  unsigned passed = 0, refusals = 0;
  int taken = 1;
  while (passed < messages && taken > 0) {
    refused_.store(before + refusals + 1, std::memory_order_release);
    taken = sendmmsg(sender_.get(), &messages_[passed], messages - passed, MSG_DONTWAIT);
    if (taken > 0) passed += static_cast<unsigned>(taken);
    if (passed < messages) ++refusals;
  }
  const bool counted = passed == messages || errno == ENOBUFS;
  refused_.store(before + (counted ? refusals : 0), std::memory_order_release);
  return passed;
}

std::uint16_t VethEnd::Receive(rte_mbuf** packets, std::uint16_t count) noexcept {
  std::uint16_t received = 0;
  for (; received < count; ++received) {
    tpacket2_hdr& slot = *rings_.received(received_);
    if (!Waits(slot)) break;
    packets[received] = Take(slot);
    if (packets[received] == nullptr) break;
    __atomic_store_n(&slot.tp_status, TP_STATUS_KERNEL, __ATOMIC_RELEASE);
    ++received_;
  }
  return received;
}

// The kernel keeps a VLAN tag beside the packet.
rte_mbuf* VethEnd::Take(const tpacket2_hdr& slot) const noexcept {
  rte_mbuf* const packet = rte_pktmbuf_alloc(pool_);
  if (packet == nullptr) return nullptr;
  const bool tagged = (slot.tp_status & TP_STATUS_VLAN_VALID) != 0 && slot.tp_snaplen > kAddresses;
  const std::size_t tag = tagged ? kTag : 0;
  char* const to = rte_pktmbuf_append(packet, static_cast<std::uint16_t>(slot.tp_snaplen + tag));
  const char* const from = reinterpret_cast<const char*>(&slot) + slot.tp_mac;
  const std::size_t before = tagged ? kAddresses : 0;
  std::memcpy(to, from, before);
  if (tagged) {
    const rte_be16_t type =
        rte_cpu_to_be_16((slot.tp_status & TP_STATUS_VLAN_TPID_VALID) != 0 ? slot.tp_vlan_tpid
                                                                           : RTE_ETHER_TYPE_VLAN);
    const rte_be16_t control = rte_cpu_to_be_16(slot.tp_vlan_tci);
    std::memcpy(to + before, &type, sizeof(type));
    std::memcpy(to + before + sizeof(type), &control, sizeof(control));
  }
  std::memcpy(to + before + tag, from + before, slot.tp_snaplen - before);
  return packet;
}

std::uint32_t VethEnd::Room() noexcept {
  if (refused_at_ != 0 && rte_rdtsc() - refused_at_ < rte_get_tsc_hz() / 1'000'000 * kRefusedUs)
    return 0;
  return RoomOfReceiver(kBurst);
}

std::uint32_t VethEnd::RoomOfReceiver(std::uint32_t count) noexcept {
  if (rte_spinlock_trylock(&sending_) == 0) return 0;
  std::uint32_t room = receiver_ == nullptr ? 0 : count;
  if (room > 0 && through_ != nullptr) {
    const Occupancy behind = receiver_->occupancy();
    room = through_->Room(room, behind.capacity() - behind.Packets(), behind.capacity());
  } else if (room > 0) {
    room = receiver_->Room(room, handed_);
  }
  rte_spinlock_unlock(&sending_);
  return room;
}

void VethEnd::SendInto(PacketReceiver* receiver) noexcept {
  if (receiver != nullptr) receiver->Feed(&handed_);
  const std::uint32_t slots = rings_.slots();
  capacity_ = receiver == nullptr ? slots : std::min(slots, receiver->occupancy().capacity());
  rte_spinlock_lock(&sending_);
  receiver_ = receiver;
  rte_spinlock_unlock(&sending_);
}

// ------------------------------------------------------------------ the link

VethLink::VethLink(const v1::LinkConfig& config)
    : name_(config.name()),
      kind_(config.kind()),
      slots_(config.has_slots() ? config.slots() : kAssumedSlots),
      queues_(config.veth().queues()),
      without_rings_(config.veth().without_rings()),
      by_nic_(config.veth().by_nic()),
      foreign_(!config.has_slots()) {
  directions_[0].device = config.veth().device0();
  directions_[1].device = config.veth().device1();
  directions_[0].port = config.veth().port0();
  directions_[1].port = config.veth().port1();
  const std::string& pid_file = config.veth().switch_pid_file();
  if (pid_file.empty()) return;
  directions_[0].through = std::make_unique<SwitchPort>(pid_file, config.veth().port1());
  directions_[1].through = std::make_unique<SwitchPort>(pid_file, config.veth().port0());
}

absl::StatusOr<std::unique_ptr<VethLink>> VethLink::Create(const v1::LinkConfig& config,
                                                           rte_mempool* pool) {
  std::unique_ptr<VethLink> link(new VethLink(config));
  if (!link->foreign_) {
    auto host = NetworkDevices::Of(getpid());
    if (!host.ok()) return link->Named(host.status());
    link->host_ = *std::move(host);
  }
  for (const Direction& way : link->directions_)
    if (auto found = way.through ? way.through->Follow() : absl::OkStatus(); !found.ok())
      return link->Named(found);
  if (auto opened = link->OpenQueues(); !opened.ok()) return link->Named(opened);
  if (!config.veth().engine_end()) return link;
  auto rings = PacketRings::Open(link->directions_[0].device, link->slots_);
  if (!rings.ok()) return link->Named(rings.status());
  auto sending = VethEnd::OpenSender(link->directions_[0].device);
  if (!sending.ok()) return link->Named(sending.status());
  NextHop next;
  if (const std::string& to = config.veth().next_mac(); !to.empty()) {
    const auto own = VethEnd::AddressOf(*sending, link->directions_[0].device);
    if (!own.ok()) return link->Named(own.status());
    next = NextHop(to, *own);
  }
  std::vector<PacketRings> own;
  own.push_back(*std::move(rings));
  auto followed = std::make_unique<FollowedRings>(std::move(own));
  link->end_ = std::make_unique<VethEnd>(followed->rings().front(), *std::move(sending), pool,
                                         link->kind_ == v1::LINK_TAP || link->by_nic_
                                             ? VethEnd::kMostUsualBytes
                                             : VethEnd::kMostBytes);
  link->end_->SendThrough(link->directions_[1].through.get());
  link->end_->SendTo(next);
  link->directions_[0].receiver = std::move(followed);
  return link;
}

absl::Status VethLink::OpenQueues() {
  if (kind_ != v1::LINK_TAP) return absl::OkStatus();
  const std::string &first = directions_[0].device, &second = directions_[1].device;
  const bool functions = first != second;
  for (unsigned end = functions ? 0 : 1; end < directions_.size(); ++end) {
    auto queue = TapQueue::Open(directions_[end].device,
                                !functions ? ""
                                : end == 0 ? second
                                           : first,
                                slots_);
    if (!queue.ok()) return queue.status();
    directions_[end].queue = *std::move(queue);
  }
  return absl::OkStatus();
}

Occupancy VethLink::occupancy(unsigned direction) const {
  const auto& receiver = directions_[direction].receiver;
  if (!receiver) return Occupancy::Unreadable(slots_);
  const Occupancy seen = receiver->occupancy().Slow();
  return directions_[direction].through || by_nic_ ? seen.Late() : seen;
}

void VethLink::Look(unsigned direction) noexcept {
  if (const auto& receiver = directions_[direction].receiver) receiver->Look();
}

void VethLink::Follow() {
  for (const Direction& way : directions_)
    if (way.through) (void)way.through->Follow();
}

std::uint64_t VethLink::Unsent(unsigned direction) const {
  const Direction& sender = directions_[1 - direction];
  const std::string& port = directions_[direction].port;
  const std::uint64_t dropped = (sender.devices ? *sender.devices : *host_).Unsent(sender.device);
  // Read last: it must not be less than what is among the drops.
  const std::uint64_t refused = direction == 1 && end_ ? end_->refused() : 0;
  return dropped - std::min(dropped, refused) + (port.empty() ? 0 : host_->Unsent(port));
}

std::uint64_t VethLink::Dropped(unsigned direction) {
  if (foreign_) return 0;
  Direction& way = directions_[direction];
  const std::lock_guard lock(counting_);  // the kernel tells each drop once
  if (way.receiver) way.dropped += way.receiver->TakeDrops();
  if (kind_ != v1::LINK_TAP) way.unsent = std::max(way.unsent, Unsent(direction));
  const std::uint64_t on_the_way = way.through ? way.through->Dropped()
                                   : way.queue ? way.queue->Dropped()
                                               : 0;
  return way.dropped + way.unsent + on_the_way + (direction == 1 && end_ ? end_->unfit() : 0);
}

namespace {

struct FoundReceiver final : Link::Found {
  FoundReceiver(unsigned at, std::unique_ptr<PacketReceiver> found)
      : end(at), receiver(std::move(found)) {}
  unsigned end;
  std::unique_ptr<PacketReceiver> receiver;
  std::optional<NetworkDevices> devices;  // none: they are foreign
};

// Slots as this file knows them, each at an address that its words allow.
bool CanBeRead(const UniqueFd& socket, const RingShape& shape) {
  int version = -1;
  socklen_t bytes = sizeof(version);
  return getsockopt(socket.get(), SOL_PACKET, PACKET_VERSION, &version, &bytes) == 0 &&
         version == TPACKET_V2 && std::has_single_bit(shape.slots) &&
         shape.slot_bytes >= sizeof(tpacket2_hdr) && shape.slot_bytes % TPACKET_ALIGNMENT == 0 &&
         std::size_t{shape.slots} * shape.slot_bytes <= shape.bytes;
}

absl::StatusOr<std::unique_ptr<PacketReceiver>> FindXdp(pid_t pid, const v1::PortConfig& port) {
  std::vector<HeldSocket> sockets;
  for (const auto& asked : port.sockets()) {
    if (!asked.xdp())
      return absl::InvalidArgumentError("has sockets of AF_XDP and of AF_PACKET at one end");
    auto socket = FindSocket(pid, AF_XDP, asked.inode());
    if (!socket.ok()) return socket.status();
    sockets.push_back(*std::move(socket));
  }
  return FollowXdp(std::move(sockets));
}

}  // namespace

absl::StatusOr<std::unique_ptr<PacketReceiver>> VethLink::FindReceiver(pid_t pid,
                                                                       const Direction& way) const {
  const std::string& device = way.device;
  if (way.queue) {
    auto program = OpenTap::Find(pid, device);
    if (!program.ok()) return program.status();
    return std::make_unique<FollowedTap>(*std::move(program), *way.queue);
  }
  if (kind_ == v1::LINK_XDP)
    return absl::NotFoundError(
        fmt::format("process {} has no AF_XDP socket on {} that was told", pid, device));
  if (without_rings_) {
    auto sockets = FindPacketSockets(pid, device, queues_);
    if (!sockets.ok()) return sockets.status();
    return std::make_unique<FollowedSockets>(*std::move(sockets));
  }
  auto rings = PacketRings::Find(pid, device, slots_, queues_);
  if (!rings.ok()) return rings.status();
  return std::make_unique<FollowedRings>(*std::move(rings));
}

absl::StatusOr<std::unique_ptr<Link::Found>> VethLink::Find(pid_t pid, unsigned end) const {
  const Direction& way = directions_[end];
  if (way.receiver && way.receiver->HeldBy(pid)) return nullptr;
  return FoundAt(pid, end, FindReceiver(pid, way));
}

absl::StatusOr<std::unique_ptr<Link::Found>> VethLink::FoundAt(
    pid_t pid, unsigned end, absl::StatusOr<std::unique_ptr<PacketReceiver>> receiver) const {
  if (!receiver.ok()) return Named(receiver.status());
  auto found = std::make_unique<FoundReceiver>(end, *std::move(receiver));
  if (foreign_) return found;
  auto devices = NetworkDevices::Of(pid);
  if (!devices.ok()) return Named(devices.status());
  found->devices = *std::move(devices);
  return found;
}

absl::StatusOr<std::unique_ptr<Link::Found>> VethLink::FindNamed(pid_t pid, unsigned end,
                                                                 const v1::PortConfig& port) const {
  if (directions_[end].receiver && directions_[end].receiver->HeldBy(pid)) return nullptr;
  if (std::ranges::any_of(port.sockets(), &v1::PacketSocket::xdp))
    return FoundAt(pid, end, FindXdp(pid, port));
  std::vector<PacketRings> rings;
  std::vector<HeldSocket> sockets;
  for (const auto& asked : port.sockets()) {
    auto socket = FindSocket(pid, AF_PACKET, asked.inode());
    if (!socket.ok()) return Named(socket.status());
    if (asked.slots() == 0) {
      sockets.push_back(*std::move(socket));
      continue;
    }
    const RingShape shape{
        .slots = asked.slots(), .slot_bytes = asked.slot_bytes(), .bytes = asked.ring_bytes()};
    if (!CanBeRead(socket->descriptor, shape) ||
        (!rings.empty() && rings.front().slots() != shape.slots))
      return Named(absl::InvalidArgumentError(fmt::format(
          "a ring of {} slots of {} bytes cannot be read", shape.slots, shape.slot_bytes)));
    auto mapped = PacketRings::Map(*std::move(socket), shape);
    if (!mapped.ok()) return Named(mapped.status());
    rings.push_back(*std::move(mapped));
  }
  if (rings.empty() == sockets.empty())
    return Named(absl::InvalidArgumentError("has sockets with rings, or sockets without"));
  if (rings.empty())
    return FoundAt(pid, end, std::make_unique<FollowedSockets>(std::move(sockets)));
  return FoundAt(pid, end, std::make_unique<FollowedRings>(std::move(rings)));
}

absl::Status VethLink::Named(const absl::Status& error) const {
  return {error.code(), fmt::format("link {}: {}", name_, std::string(error.message()))};
}

void VethLink::Take(std::unique_ptr<Found> found) {
  auto& taken = static_cast<FoundReceiver&>(*found);
  Forget(taken.end);
  auto& now = directions_[taken.end].receiver;
  now = std::move(taken.receiver);
  if (const auto& queue = directions_[taken.end].queue) queue->Begin();
  {
    const std::lock_guard lock(counting_);
    directions_[taken.end].devices = std::move(taken.devices);
  }
  if (end_ && taken.end == 1) end_->SendInto(now.get());
}

void VethLink::Forget(unsigned end) {
  Direction& way = directions_[end];
  if (!way.receiver) return;
  if (end_ && end == 1) end_->SendInto(nullptr);
  const std::lock_guard lock(counting_);
  if (!foreign_) {
    way.dropped += way.receiver->TakeAbandoned() + way.receiver->TakeDrops();
    Direction& back = directions_[1 - end];
    if (kind_ != v1::LINK_TAP) back.unsent = std::max(back.unsent, Unsent(1 - end));
    way.devices.reset();
  }
  replaced_.push_back(std::move(way.receiver));
}

// ------------------------------------------------------------------ the kind

namespace {

class VethLinks : public LinkKind {
 public:
  std::string name() const override { return "veth"; }
  bool in_group() const override { return false; }
  v1::LinkConfig::SettingsCase settings() const override { return v1::LinkConfig::kVeth; }
  bool engine_has_end(const v1::LinkConfig& config) const override {
    return config.veth().engine_end();
  }
  std::uint32_t packets(const v1::LinkConfig&) const override { return 2 * kBurst; }
  absl::Status Check(const v1::LinkConfig& config, bool foreign) const override {
    if (foreign) return CheckForeign(config);
    if (!config.has_slots()) return WrongLink(config, "has no slots");
    for (const std::string& device : {config.veth().device0(), config.veth().device1()})
      if (device.empty()) return WrongLink(config, "has no device at an end");
    if (!std::has_single_bit(config.slots()) || config.slots() > PacketRings::kMaxSlots)
      return WrongLink(config, fmt::format("has {} slots; a {} has a power of two, at most {}",
                                           config.slots(), name(), PacketRings::kMaxSlots));
    if ((config.veth().device0() == config.veth().device1()) != is_one_device(config))
      return WrongLink(config, is_one_device(config) ? "has two devices, one of the engine"
                                                     : "has the same device at both ends");
    if (auto status = CheckNextMac(config, config.veth().next_mac()); !status.ok()) return status;
    return CheckWay(config);
  }
  bool hands_over_at_once() const override { return false; }
  bool tells_of_drops(const v1::LinkConfig& config) const override {
    return !config.veth().by_nic();
  }
  absl::Status CheckBeside(const v1::LinkConfig& config,
                           const v1::LinkConfig& other) const override {
    if (!config.has_slots()) return absl::OkStatus();  // foreign
    const auto theirs = DevicesOf(other);
    for (const std::string& device : DevicesOf(config))
      if (!device.empty() && std::ranges::find(theirs, device) != theirs.end())
        return WrongLink(config, fmt::format("has device {}, as link {}", device, other.name()));
    return absl::OkStatus();
  }
  absl::StatusOr<std::unique_ptr<Link>> Make(const v1::LinkConfig& config, bool,
                                             rte_mempool* pool) const override {
    return VethLink::Create(config, pool);
  }

 protected:
  // What joins the two devices: nothing else does.
  virtual bool has_ports() const { return false; }
  virtual bool has_switch() const { return false; }
  virtual bool is_one_device(const v1::LinkConfig&) const { return false; }

 private:
  static std::array<std::string, 4> DevicesOf(const v1::LinkConfig& config) {
    const auto& veth = config.veth();
    return {veth.device0(), veth.device1(), veth.port0(), veth.port1()};
  }
  absl::Status CheckWay(const v1::LinkConfig& config) const {
    const auto& veth = config.veth();
    if (veth.port0().empty() == has_ports() || veth.port1().empty() == has_ports())
      return WrongLink(config, has_ports() ? "names no port for an end"
                                           : fmt::format("is a {}, and names ports", name()));
    if (has_ports() && veth.port0() == veth.port1())
      return WrongLink(config, "has the same port at both ends");
    if (veth.switch_pid_file().empty() == has_switch())
      return WrongLink(config, has_switch() ? "names no switch"
                                            : fmt::format("is a {}, and names a switch", name()));
    return absl::OkStatus();
  }
  // Ports say what is at its ends.
  static absl::Status CheckForeign(const v1::LinkConfig& config) {
    const auto& veth = config.veth();
    if (config.has_slots() || veth.engine_end() || !(veth.device0() + veth.device1()).empty())
      return WrongLink(config, "is foreign, and has slots, devices or an end of the engine");
    return absl::OkStatus();
  }
};

class BridgeLinks final : public VethLinks {
 public:
  std::string name() const override { return "bridge"; }

 protected:
  bool has_ports() const override { return true; }
};

class XdpLinks final : public VethLinks {
 public:
  std::string name() const override { return "xdp"; }
  absl::Status Check(const v1::LinkConfig& config, bool foreign) const override {
    if (foreign) return WrongLink(config, "is foreign, which an xdp cannot be");
    if (config.veth().queues() != 1 || config.veth().without_rings())
      return WrongLink(config, "is an xdp, whose functions have one queue, with rings");
    return VethLinks::Check(config, foreign);
  }
};

class OvsLinks final : public VethLinks {
 public:
  std::string name() const override { return "ovs"; }

 protected:
  bool has_ports() const override { return true; }
  bool has_switch() const override { return true; }
};

class TapLinks final : public VethLinks {
 public:
  std::string name() const override { return "tap"; }
  absl::Status Check(const v1::LinkConfig& config, bool foreign) const override {
    if (foreign) return WrongLink(config, "is foreign, which a tap cannot be");
    if (config.veth().queues() != 1 || config.veth().without_rings())
      return WrongLink(config, "is a tap, whose functions have one queue, and no sockets");
    return VethLinks::Check(config, foreign);
  }

 protected:
  // The engine has the kernel's side of the function's.
  bool is_one_device(const v1::LinkConfig& config) const override {
    return config.veth().engine_end();
  }
};

}  // namespace

const LinkKind& VethKind() {
  static const VethLinks kind;
  return kind;
}

const LinkKind& BridgeKind() {
  static const BridgeLinks kind;
  return kind;
}

const LinkKind& XdpKind() {
  static const XdpLinks kind;
  return kind;
}

const LinkKind& OvsKind() {
  static const OvsLinks kind;
  return kind;
}

const LinkKind& TapKind() {
  static const TapLinks kind;
  return kind;
}

}  // namespace unis
