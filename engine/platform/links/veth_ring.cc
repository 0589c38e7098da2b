#include "engine/platform/links/veth_ring.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <linux/if_ether.h>
#include <net/if.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace unis {
namespace {

constexpr std::uint32_t kBlockBytes = 4096;
constexpr std::uint64_t kNsPerSecond = 1'000'000'000;

// Of `rings` rings, one of ours or the two of net_af_packet.
RingShape ShapeOf(std::uint32_t slots, std::size_t rings) {
  constexpr std::uint32_t kBytes = PacketRings::kFrameBytes;
  return {.slots = slots, .slot_bytes = kBytes, .bytes = rings * slots * kBytes};
}

absl::Status Failed(const std::string& what) { return absl::ErrnoToStatus(errno, what); }

template <typename Value>
bool Set(const UniqueFd& socket, int option, const Value& value) {
  return setsockopt(socket.get(), SOL_PACKET, option, &value, sizeof(value)) == 0;
}

std::uint64_t CameAt(const tpacket2_hdr& slot) {
  return __atomic_load_n(&slot.tp_sec, __ATOMIC_RELAXED) * kNsPerSecond +
         __atomic_load_n(&slot.tp_nsec, __ATOMIC_RELAXED);
}

}  // namespace

absl::StatusOr<PacketRings> PacketRings::Open(const std::string& device, std::uint32_t slots,
                                              bool sends) {
  // Of no protocol until it is bound: else it receives from every device meanwhile.
  UniqueFd socket(::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0));
  if (!socket.valid()) return Failed("cannot make a packet socket, for which unisd needs net_raw");
  const unsigned index = if_nametoindex(device.c_str());
  if (index == 0) return Failed(fmt::format("there is no device {}", device));
  const tpacket_req request{.tp_block_size = kBlockBytes,
                            .tp_block_nr = slots / (kBlockBytes / kFrameBytes),
                            .tp_frame_size = kFrameBytes,
                            .tp_frame_nr = slots};
  if (!Set(socket, PACKET_VERSION, int{TPACKET_V2}) || !Set(socket, PACKET_RX_RING, request) ||
      (sends && !Set(socket, PACKET_TX_RING, request)))
    return Failed(
        fmt::format("cannot give a packet socket on {} a ring of {} slots", device, slots));
  sockaddr_ll address{};
  address.sll_family = AF_PACKET;
  address.sll_protocol = htons(ETH_P_ALL);
  address.sll_ifindex = static_cast<int>(index);
  if (bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0)
    return Failed(fmt::format("cannot bind a packet socket to {}", device));
  return Map({std::move(socket), 0}, ShapeOf(slots, sends ? 2 : 1), PROT_READ | PROT_WRITE);
}

absl::StatusOr<std::vector<PacketRings>> PacketRings::Find(pid_t pid, const std::string& device,
                                                           std::uint32_t slots,
                                                           std::uint32_t sockets) {
  auto held = FindPacketSockets(pid, device, sockets);
  if (!held.ok()) return held.status();
  std::vector<PacketRings> found;
  for (HeldSocket& socket : *held) {
    auto rings = Map(std::move(socket), ShapeOf(slots, 2));
    if (!rings.ok())
      return absl::NotFoundError(fmt::format(
          "process {} has a packet socket on {} without rings of {} slots", pid, device, slots));
    found.push_back(*std::move(rings));
  }
  return found;
}

absl::StatusOr<PacketRings> PacketRings::Map(HeldSocket socket, const RingShape& shape,
                                             int access) {
  void* const memory = mmap(nullptr, shape.bytes, access, MAP_SHARED, socket.descriptor.get(), 0);
  if (memory == MAP_FAILED) return Failed("cannot map the rings of a packet socket");
  return PacketRings(std::move(socket), memory, shape);
}

PacketRings::~PacketRings() {
  if (memory_ != nullptr) munmap(memory_, shape_.bytes);
}

PacketRings::PacketRings(PacketRings&& other) noexcept
    : socket_(std::move(other.socket_)),
      memory_(std::exchange(other.memory_, nullptr)),
      shape_(other.shape_) {}

std::uint32_t PacketRings::TakeDrops() const noexcept {
  tpacket_stats counted{};
  socklen_t bytes = sizeof(counted);
  const int status = getsockopt(socket(), SOL_PACKET, PACKET_STATISTICS, &counted, &bytes);
  return status == 0 ? counted.tp_drops : 0;
}

FollowedRings::FollowedRings(std::vector<PacketRings> rings)
    : rings_(std::move(rings)), counters_(rings_.size()), positions_(rings_.size()) {
  for (std::size_t ring = 0; ring < rings_.size(); ++ring) Begin(ring);
}

// The position behind the newest packet, where the dates fall back the most: to a ring before, or
// to none. Packets that wait in front of it were not taken yet.
void FollowedRings::Begin(std::size_t ring) noexcept {
  const PacketRings& in = rings_[ring];
  Position& at = positions_[ring];
  at.dates.resize(in.slots());
  for (std::uint32_t slot = 0; slot < in.slots(); ++slot)
    at.dates[slot] = CameAt(*in.received(slot));
  std::uint32_t head = 0;
  std::uint64_t most = 0;
  for (std::uint32_t slot = 0; slot < in.slots(); ++slot) {
    const std::uint64_t next = at.dates[(slot + 1) & (in.slots() - 1)];
    const std::uint64_t back = at.dates[slot] - std::min(at.dates[slot], next);
    if (back <= most) continue;
    most = back;
    head = slot + 1;
  }
  std::uint32_t waiting = 0;
  while (waiting < in.slots() && Waits(*in.received(head - waiting - 1))) ++waiting;
  at.first = head - waiting;
  at.seen = waiting;
  counters_[ring].put = waiting;
}

void FollowedRings::Look() noexcept {
  const std::uint32_t sent = sent_ == nullptr ? 0 : __atomic_load_n(sent_, __ATOMIC_ACQUIRE);
  for (std::size_t ring = 0; ring < rings_.size(); ++ring) {
    Follow(ring);
    const std::uint32_t head = positions_[ring].first + counters_[ring].put;
    __atomic_store_n(&positions_[ring].head, std::uint64_t{head} << 32 | sent, __ATOMIC_RELEASE);
  }
}

void FollowedRings::Follow(std::size_t ring) noexcept {
  const PacketRings& in = rings_[ring];
  Position& at = positions_[ring];
  std::uint32_t put = counters_[ring].put, taken = counters_[ring].taken;
  for (std::uint32_t steps = 0; steps < in.slots(); ++steps, ++put) {
    const tpacket2_hdr& slot = *in.received(at.first + put);
    std::uint64_t& date = at.dates[(at.first + put) & (in.slots() - 1)];
    const bool waits = Waits(slot);
    const std::uint64_t came = CameAt(slot);
    if (!waits && CameAt(slot) != came) break;  // the kernel is at it
    // A packet that waits where none was is a new one, whatever its date.
    if (came == date && !(waits && put - taken < in.slots())) break;
    date = came;
  }
  // The kernel dates a packet before it says that it waits: what came since the last look may look
  // as if it had been taken.
  while (taken != at.seen && !Waits(*in.received(at.first + taken))) ++taken;
  if (put - taken > in.slots()) taken = put - in.slots();
  at.seen = put;
  __atomic_store_n(&counters_[ring].put, put, __ATOMIC_RELEASE);
  __atomic_store_n(&counters_[ring].taken, taken, __ATOMIC_RELEASE);
}

std::uint32_t FollowedRings::Room(std::uint32_t most, std::uint32_t sent) const noexcept {
  std::uint32_t room = std::min(most, rings_.front().slots());
  for (std::size_t ring = 0; room > 0 && ring < rings_.size(); ++ring) {
    const std::uint32_t head = Head(ring, sent);
    room = InRow(room, [&](std::uint32_t at) { return !Waits(*rings_[ring].received(head + at)); });
  }
  return room;
}

// The next slot of a ring that the kernel fills, if since the last look those packets came there
// that `sent` says, and no others.
std::uint32_t FollowedRings::Head(std::size_t ring, std::uint32_t sent) const noexcept {
  const std::uint64_t seen = __atomic_load_n(&positions_[ring].head, __ATOMIC_ACQUIRE);
  return static_cast<std::uint32_t>(seen >> 32) + (sent - static_cast<std::uint32_t>(seen));
}

Occupancy FollowedRings::occupancy() const {
  return Occupancy::Filled({.ahead = &counters_[0].put,
                            .behind = &counters_[0].taken,
                            .queues = static_cast<std::uint32_t>(rings_.size()),
                            .stride = sizeof(Counters)},
                           rings_[0].slots());
}

std::uint64_t FollowedRings::TakeDrops() noexcept {
  std::uint64_t drops = 0;
  for (const PacketRings& in : rings_) drops += in.TakeDrops();
  return drops;
}

std::uint64_t FollowedRings::TakeAbandoned() noexcept {
  std::uint64_t packets = 0;
  for (const PacketRings& in : rings_)
    for (std::uint32_t slot = 0; slot < in.slots(); ++slot)
      packets += Waits(*in.received(slot)) ? 1 : 0;
  return packets;
}

}  // namespace unis
