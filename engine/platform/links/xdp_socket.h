// An AF_XDP socket of a function, as DPDK's net_af_xdp has them, seen from outside by a descriptor
// that is ours. The kernel counts in its memory which packets it has put into the receive ring, and
// the function which it has taken: both are read there, exactly, and without a system call.
//
// The function may write whatever it likes there. Nothing that stands there is an address: a number
// is at most wrong, and no greater than the ring. What the ring holds is never read.
//
// A packet needs a place in the receive ring, and a buffer that the function has offered in the
// fill ring. Where one of the two is missing the kernel drops it, tells the sender nothing, and
// counts it in the socket.
//
// The socket, and the memory of the function in which its packets are, live as long as this: until
// then nobody else can have an AF_XDP socket on the device.
#pragma once

#include <absl/status/statusor.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/platform/links/packet_receiver.h"

namespace unis {

// The counters of a ring, mapped for reading.
class XdpCounters {
 public:
  XdpCounters() = default;
  // Of one that the kernel places at `offset` of the socket's memory. `producer` and `consumer` are
  // the kernel's: where they stand. Invalid where it cannot be mapped, see errno.
  XdpCounters(int socket, std::uint64_t offset, std::uint64_t producer, std::uint64_t consumer);
  ~XdpCounters();
  XdpCounters(XdpCounters&& other) noexcept;
  XdpCounters& operator=(XdpCounters&& other) noexcept;

  bool valid() const noexcept { return memory_ != nullptr; }
  const std::uint32_t* producer() const noexcept { return At(producer_); }
  const std::uint32_t* consumer() const noexcept { return At(consumer_); }
  // What was put there and not taken, from 0 to `most`.
  std::uint32_t Apart(std::uint32_t most) const noexcept;

 private:
  const std::uint32_t* At(std::size_t offset) const noexcept {
    return reinterpret_cast<const std::uint32_t*>(memory_ + offset);
  }

  std::byte* memory_ = nullptr;
  std::size_t producer_ = 0, consumer_ = 0;
};

class FollowedXdp final : public PacketReceiver {
 public:
  static absl::StatusOr<std::unique_ptr<FollowedXdp>> Follow(HeldSocket socket);

  void Look() noexcept override {}
  // The capacity is that of the receive ring, which the function chose.
  Occupancy occupancy() const override;
  std::uint32_t Room(std::uint32_t most, std::uint32_t sent) const noexcept override;
  void Feed(const std::uint32_t*) noexcept override {}
  std::uint64_t TakeDrops() noexcept override;
  std::uint64_t TakeAbandoned() noexcept override { return received_.Apart(slots_); }
  bool HeldBy(pid_t pid) const override { return socket_.HeldBy(pid); }

 private:
  FollowedXdp(HeldSocket socket, std::uint32_t slots, XdpCounters received, XdpCounters offered);

  HeldSocket socket_;
  std::uint32_t slots_;
  // The receive ring and the fill ring. One that shares another's fill ring has none: it is
  // invalid.
  XdpCounters received_, offered_;
  std::uint64_t drops_ = 0;  // that were told
};

// One at least, of one device: several have a queue each.
absl::StatusOr<std::unique_ptr<PacketReceiver>> FollowXdp(std::vector<HeldSocket> sockets);

}  // namespace unis
