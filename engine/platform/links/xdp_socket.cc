#include "engine/platform/links/xdp_socket.h"

#include <fmt/format.h>
#include <linux/if_xdp.h>
#include <net/if.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace unis {
namespace {

constexpr std::uint32_t kMostSlots = 1U << 20;
constexpr std::size_t kCounterBytes = 4096;  // a page: counters are in front of the ring

// No call tells what an AF_XDP socket is bound to. But a socket without a fill ring of its own may
// share memory with it on the same queue of the same device, and nowhere else: so one that is made
// for that, bound, and closed again changes nothing of the other.
absl::StatusOr<bool> IsOn(const HeldSocket& socket, unsigned device) {
  const UniqueFd probe(::socket(AF_XDP, SOCK_RAW | SOCK_CLOEXEC, 0));
  const std::uint32_t slots = 64;
  if (!probe.valid() || setsockopt(probe.get(), SOL_XDP, XDP_RX_RING, &slots, sizeof(slots)) != 0)
    return absl::ErrnoToStatus(errno,
                               "cannot make an AF_XDP socket, for which unisd needs net_raw");
  const sockaddr_xdp address{
      .sxdp_family = AF_XDP,
      .sxdp_flags = XDP_SHARED_UMEM,
      .sxdp_ifindex = device,
      .sxdp_queue_id = 0,
      .sxdp_shared_umem_fd = static_cast<std::uint32_t>(socket.descriptor.get())};
  return bind(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
}

bool IsMappable(int socket, std::size_t bytes) {
  void* const memory = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, socket, XDP_PGOFF_RX_RING);
  if (memory == MAP_FAILED) return false;
  munmap(memory, bytes);
  return true;
}

// The kernel maps no more than the ring has, in whole pages: so fewer than 128 look like 128.
std::uint32_t SlotsOf(int socket, std::uint64_t first) {
  std::uint32_t slots = 128;
  while (slots < kMostSlots && IsMappable(socket, first + 2 * slots * sizeof(xdp_desc))) slots *= 2;
  return slots;
}

}  // namespace

// ------------------------------------------------------------------ the counters of a ring

XdpCounters::XdpCounters(int socket, std::uint64_t offset, std::uint64_t producer,
                         std::uint64_t consumer)
    : producer_(producer), consumer_(consumer) {
  constexpr std::size_t kLast = kCounterBytes - sizeof(std::uint32_t);
  errno = ERANGE;
  if (producer > kLast || consumer > kLast) return;
  void* const memory =
      mmap(nullptr, kCounterBytes, PROT_READ, MAP_SHARED, socket, static_cast<off_t>(offset));
  if (memory != MAP_FAILED) memory_ = static_cast<std::byte*>(memory);
}

XdpCounters::~XdpCounters() {
  if (memory_ != nullptr) munmap(memory_, kCounterBytes);
}

XdpCounters::XdpCounters(XdpCounters&& other) noexcept
    : memory_(std::exchange(other.memory_, nullptr)),
      producer_(other.producer_),
      consumer_(other.consumer_) {}

XdpCounters& XdpCounters::operator=(XdpCounters&& other) noexcept {
  std::swap(memory_, other.memory_);
  std::swap(producer_, other.producer_);
  std::swap(consumer_, other.consumer_);
  return *this;
}

std::uint32_t XdpCounters::Apart(std::uint32_t most) const noexcept {
  const std::uint32_t taken = __atomic_load_n(consumer(), __ATOMIC_ACQUIRE);
  return std::min(__atomic_load_n(producer(), __ATOMIC_ACQUIRE) - taken, most);
}

// ------------------------------------------------------------------ the socket

FollowedXdp::FollowedXdp(HeldSocket socket, std::uint32_t slots, XdpCounters received,
                         XdpCounters offered)
    : socket_(std::move(socket)),
      slots_(slots),
      received_(std::move(received)),
      offered_(std::move(offered)) {}

absl::StatusOr<std::unique_ptr<FollowedXdp>> FollowedXdp::Find(pid_t pid,
                                                               const std::string& device) {
  const unsigned index = if_nametoindex(device.c_str());
  if (index == 0) return absl::ErrnoToStatus(errno, fmt::format("there is no device {}", device));
  auto sockets = SocketsOf(pid, AF_XDP);
  if (!sockets.ok()) return sockets.status();
  for (HeldSocket& socket : *sockets) {
    const auto there = IsOn(socket, index);
    if (!there.ok()) return there.status();
    if (*there) return Follow(std::move(socket));
  }
  return absl::NotFoundError(
      fmt::format("process {} has no AF_XDP socket on queue 0 of {}", pid, device));
}

absl::StatusOr<std::unique_ptr<FollowedXdp>> FollowedXdp::Follow(HeldSocket socket) {
  const int descriptor = socket.descriptor.get();
  xdp_mmap_offsets at{};
  socklen_t bytes = sizeof(at);
  if (getsockopt(descriptor, SOL_XDP, XDP_MMAP_OFFSETS, &at, &bytes) != 0)
    return absl::ErrnoToStatus(errno, "cannot tell where the rings of an AF_XDP socket are");
  XdpCounters received(descriptor, XDP_PGOFF_RX_RING, at.rx.producer, at.rx.consumer);
  XdpCounters offered;
  if (received.valid())
    offered = XdpCounters(descriptor, XDP_UMEM_PGOFF_FILL_RING, at.fr.producer, at.fr.consumer);
  if (!offered.valid())
    return absl::ErrnoToStatus(
        errno, "cannot map the rings of an AF_XDP socket, for which Linux 6.4 is needed");
  const std::uint32_t slots = SlotsOf(descriptor, at.rx.desc);
  return std::unique_ptr<FollowedXdp>(
      new FollowedXdp(std::move(socket), slots, std::move(received), std::move(offered)));
}

Occupancy FollowedXdp::occupancy() const {
  return Occupancy::Filled({.ahead = received_.producer(), .behind = received_.consumer()}, slots_);
}

std::uint32_t FollowedXdp::Room(std::uint32_t most, std::uint32_t) const noexcept {
  return std::min(slots_ - received_.Apart(slots_), offered_.Apart(most));
}

// A packet that found no buffer is among `rx_dropped`; rx_fill_ring_empty_descs counts it again.
std::uint64_t FollowedXdp::TakeDrops() noexcept {
  xdp_statistics counted{};
  socklen_t bytes = sizeof(counted);
  if (getsockopt(socket_.descriptor.get(), SOL_XDP, XDP_STATISTICS, &counted, &bytes) != 0)
    return 0;
  const std::uint64_t drops = counted.rx_dropped + counted.rx_ring_full;
  return drops - std::exchange(drops_, drops);
}

}  // namespace unis
