#include "engine/platform/links/xdp_socket.h"

#include <linux/if_xdp.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace unis {
namespace {

constexpr std::uint32_t kMostSlots = 1U << 20;
constexpr std::size_t kCounterBytes = 4096;  // a page: counters are in front of the ring

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

absl::StatusOr<std::unique_ptr<FollowedXdp>> FollowedXdp::Follow(HeldSocket socket) {
  const int descriptor = socket.descriptor.get();
  xdp_mmap_offsets at{};
  socklen_t bytes = sizeof(at);
  if (getsockopt(descriptor, SOL_XDP, XDP_MMAP_OFFSETS, &at, &bytes) != 0)
    return absl::ErrnoToStatus(errno, "cannot tell where the rings of an AF_XDP socket are");
  XdpCounters received(descriptor, XDP_PGOFF_RX_RING, at.rx.producer, at.rx.consumer);
  if (!received.valid())
    return absl::ErrnoToStatus(
        errno, "cannot map the rings of an AF_XDP socket, for which Linux 6.4 is needed");
  XdpCounters offered(descriptor, XDP_UMEM_PGOFF_FILL_RING, at.fr.producer, at.fr.consumer);
  const std::uint32_t slots = SlotsOf(descriptor, at.rx.desc);
  return std::unique_ptr<FollowedXdp>(
      new FollowedXdp(std::move(socket), slots, std::move(received), std::move(offered)));
}

Occupancy FollowedXdp::occupancy() const {
  return Occupancy::Filled({.ahead = received_.producer(), .behind = received_.consumer()}, slots_);
}

std::uint32_t FollowedXdp::Room(std::uint32_t most, std::uint32_t) const noexcept {
  const std::uint32_t free = slots_ - received_.Apart(slots_);
  return std::min(free, offered_.valid() ? offered_.Apart(most) : most);
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

// ------------------------------------------------------------------ several of them

namespace {

// One for each queue of a device. Their counters are apart, so a look brings them together.
class FollowedXdps final : public PacketReceiver {
 public:
  explicit FollowedXdps(std::vector<std::unique_ptr<FollowedXdp>> sockets)
      : sockets_(std::move(sockets)), counters_(sockets_.size()) {
    Look();
  }

  void Look() noexcept override {
    for (std::size_t socket = 0; socket < sockets_.size(); ++socket) {
      const Occupancy now = sockets_[socket]->occupancy();
      // What was taken first: it cannot have overtaken what was put there.
      const std::uint32_t taken = now.Received();
      __atomic_store_n(&counters_[socket].taken, taken, __ATOMIC_RELEASE);
      __atomic_store_n(&counters_[socket].put, now.Sent(), __ATOMIC_RELEASE);
    }
  }
  Occupancy occupancy() const override {
    return Occupancy::Filled({.ahead = &counters_[0].put,
                              .behind = &counters_[0].taken,
                              .queues = static_cast<std::uint32_t>(counters_.size()),
                              .stride = sizeof(Counters)},
                             sockets_.front()->occupancy().capacity());
  }
  std::uint32_t Room(std::uint32_t most, std::uint32_t sent) const noexcept override {
    for (const auto& socket : sockets_) most = std::min(most, socket->Room(most, sent));
    return most;
  }
  void Feed(const std::uint32_t*) noexcept override {}
  std::uint64_t TakeDrops() noexcept override {
    return Sum([](FollowedXdp& socket) { return socket.TakeDrops(); });
  }
  std::uint64_t TakeAbandoned() noexcept override {
    return Sum([](FollowedXdp& socket) { return socket.TakeAbandoned(); });
  }
  bool HeldBy(pid_t pid) const override { return sockets_.front()->HeldBy(pid); }

 private:
  struct Counters {
    std::uint32_t put = 0, taken = 0;
  };
  template <typename Count>
  std::uint64_t Sum(Count count) const noexcept {
    std::uint64_t sum = 0;
    for (const auto& socket : sockets_) sum += count(*socket);
    return sum;
  }

  std::vector<std::unique_ptr<FollowedXdp>> sockets_;
  std::vector<Counters> counters_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<PacketReceiver>> FollowXdp(std::vector<HeldSocket> sockets) {
  std::vector<std::unique_ptr<FollowedXdp>> followed;
  for (HeldSocket& socket : sockets) {
    auto one = FollowedXdp::Follow(std::move(socket));
    if (!one.ok()) return one.status();
    followed.push_back(*std::move(one));
  }
  if (followed.size() == 1) return std::move(followed.front());
  return std::make_unique<FollowedXdps>(std::move(followed));
}

}  // namespace unis
