#include "engine/platform/links/packet_socket.h"

#include <linux/if_packet.h>
#include <linux/sock_diag.h>
#include <sys/socket.h>

#include <algorithm>
#include <utility>

namespace unis {
namespace {

struct Memory {
  std::uint32_t waiting = 0, most = 0;  // bytes
  std::uint32_t drops = 0;              // packets, ever
};

Memory Ask(const HeldSocket& socket) noexcept {
  std::array<std::uint32_t, SK_MEMINFO_VARS> told{};
  socklen_t bytes = sizeof(told);
  if (getsockopt(socket.descriptor.get(), SOL_SOCKET, SO_MEMINFO, told.data(), &bytes) != 0)
    return {};
  return {told[SK_MEMINFO_RMEM_ALLOC], told[SK_MEMINFO_RCVBUF], told[SK_MEMINFO_DROPS]};
}

// Since the last call, or since the socket was made.
std::uint32_t TakePut(const HeldSocket& socket) noexcept {
  tpacket_stats counted{};
  socklen_t bytes = sizeof(counted);
  const int descriptor = socket.descriptor.get();
  if (getsockopt(descriptor, SOL_PACKET, PACKET_STATISTICS, &counted, &bytes) != 0) return 0;
  return counted.tp_packets - counted.tp_drops;
}

// The kernel takes a packet as long as not all bytes are taken.
std::uint32_t PacketsIn(std::uint32_t bytes, std::uint32_t packet_bytes) noexcept {
  return (bytes + packet_bytes - 1) / packet_bytes;
}

}  // namespace

FollowedSockets::FollowedSockets(std::vector<HeldSocket> sockets)
    : sockets_(std::move(sockets)),
      counters_(sockets_.size()),
      drops_(sockets_.size()),
      capacity_(PacketsIn(Ask(sockets_.front()).most, kLeastBytes)) {
  Look();
}

void FollowedSockets::Look() noexcept {
  for (std::size_t socket = 0; socket < sockets_.size(); ++socket) LookAt(socket);
}

// What came between the two answers waits, and was not put: so too little is taken, not too much.
void FollowedSockets::LookAt(std::size_t socket) noexcept {
  Counters& at = counters_[socket];
  const std::uint32_t put = at.put + TakePut(sockets_[socket]);
  const std::uint32_t waiting = PacketsIn(Ask(sockets_[socket]).waiting, kLeastBytes);
  const std::uint32_t taken = put - std::min(waiting, put - at.taken);
  __atomic_store_n(&at.waiting, std::min(waiting, capacity_), __ATOMIC_RELEASE);
  __atomic_store_n(&at.put, put, __ATOMIC_RELEASE);
  __atomic_store_n(&at.taken, taken, __ATOMIC_RELEASE);
}

Occupancy FollowedSockets::occupancy() const {
  return Occupancy::Told({.ahead = &counters_[0].put,
                          .behind = &counters_[0].taken,
                          .queues = static_cast<std::uint32_t>(counters_.size()),
                          .stride = sizeof(Counters)},
                         &counters_[0].waiting, capacity_);
}

std::uint32_t FollowedSockets::Room(std::uint32_t most, std::uint32_t) const noexcept {
  for (const HeldSocket& socket : sockets_) {
    const Memory memory = Ask(socket);
    const std::uint32_t free = memory.most - std::min(memory.most, memory.waiting);
    most = std::min(most, PacketsIn(free, kMostBytes));
  }
  return most;
}

std::uint32_t FollowedSockets::Waiting() const noexcept {
  std::uint32_t waiting = 0;
  for (const HeldSocket& socket : sockets_) waiting += PacketsIn(Ask(socket).waiting, kLeastBytes);
  return waiting;
}

std::uint64_t FollowedSockets::TakeDrops() noexcept {
  std::uint64_t taken = 0;
  for (std::size_t socket = 0; socket < sockets_.size(); ++socket) {
    const std::uint32_t drops = Ask(sockets_[socket]).drops;
    taken += drops - drops_[socket];
    drops_[socket] = drops;
  }
  return taken;
}

// By taking them: the kernel tells bytes, not packets. Others may go on sending, so no more than a
// buffer holds.
std::uint64_t FollowedSockets::TakeAbandoned() noexcept {
  std::uint64_t packets = 0;
  for (const HeldSocket& socket : sockets_) {
    std::uint32_t taken = 0;
    while (taken < capacity_ &&
           recv(socket.descriptor.get(), nullptr, 0, MSG_DONTWAIT | MSG_TRUNC) >= 0)
      ++taken;
    packets += taken;
  }
  return packets;
}

}  // namespace unis
