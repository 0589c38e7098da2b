// A link between two kernel devices, each with a socket on it: both ways, by copying. They
// are a pair, or a bridge joins them, of the kernel or of a switch that is a process. The engine
// has one of its ends, or none.
//
// Of a tap the two ends are one device, or two where functions have both: behind it there is no
// socket but a program that has the device open.
//
// Who sends pays: in its system call the kernel puts the packet into the receiver's ring or socket
// buffer, and drops it there if that is full.
#pragma once

#include <absl/status/statusor.h>
#include <rte_mempool.h>
#include <rte_spinlock.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/unique_fd.h"
#include "engine/platform/links/link.h"
#include "engine/platform/links/next_hop.h"
#include "engine/platform/links/switch_port.h"
#include "engine/platform/links/tap_queue.h"
#include "engine/platform/links/veth_ring.h"
#include "engine/platform/packet_memory.h"

namespace unis {

// The engine's end: two packet sockets of its own. It receives from a ring. It sends by sendmmsg:
// of a packet in a ring the kernel makes a page of its own, and to free that takes the receiver
// longer.
class VethEnd final : public LinkEnd {
 public:
  // Of a frame without FCS: what the devices' MTU allows, 1504, and 1500 where net_tap sets it or a
  // NIC has it.
  static constexpr std::uint32_t kMostBytes = 1518, kMostUsualBytes = 1514;
  // The kernel refuses less than an Ethernet header.
  static constexpr std::uint32_t kLeastBytes = 14;
  // After the kernel has refused a packet; its device may be down.
  static constexpr std::uint64_t kRefusedUs = 1000;

  // `rings` are those of a socket of our own, and outlive it. `sending`: see OpenSender().
  VethEnd(const PacketRings& rings, UniqueFd sending, rte_mempool* pool,
          std::uint32_t most_bytes = kMostBytes);

  // A socket that receives nothing, on a device of this network namespace.
  static absl::StatusOr<UniqueFd> OpenSender(const std::string& device);
  // Of the device, by such a socket.
  static absl::StatusOr<MacAddress> AddressOf(const UniqueFd& socket, const std::string& device);

  // No more than the receiver has room for, so that the kernel drops none, and one burst at most.
  // Frees what is too long or too short.
  std::uint16_t Send(rte_mbuf** packets, std::uint16_t count) noexcept override;
  std::uint16_t Receive(rte_mbuf** packets, std::uint16_t count) noexcept override;
  std::uint32_t Room() noexcept override;
  std::uint32_t capacity() const noexcept override {
    return capacity_.load(std::memory_order_relaxed);
  }
  bool carries_mbufs() const noexcept override { return false; }

  // What is at the other end; null: there is nobody, and nothing is sent.
  void SendInto(PacketReceiver* receiver) noexcept;
  // What packets pass before; before the first SendInto().
  void SendThrough(SwitchPort* through) noexcept { through_ = through; }
  // Likewise: who receives, where a NIC carries the frames.
  void SendTo(const NextHop& next) noexcept { next_ = next; }
  std::uint64_t unfit() const noexcept { return unfit_.value(); }
  // Packets that the device counts as dropped, and that stayed the caller's.
  std::uint64_t refused() const noexcept { return refused_.load(std::memory_order_acquire); }

 private:
  std::uint32_t RoomOfReceiver(std::uint32_t count) noexcept;
  unsigned Pass(unsigned messages) noexcept;
  rte_mbuf* Take(const tpacket2_hdr& slot) const noexcept;

  const PacketRings& rings_;
  const UniqueFd sender_;
  rte_mempool* const pool_;
  const std::uint32_t most_bytes_;
  NextHop next_;
  // Of a burst that is sent; `flat_`: of packets in several segments.
  std::array<mmsghdr, kBurst> messages_{};
  std::array<iovec, kBurst> vectors_{};
  std::array<std::array<std::byte, kMostBytes>, kBurst> flat_;
  std::uint64_t refused_at_ = 0;                       // TSC
  rte_spinlock_t sending_ = RTE_SPINLOCK_INITIALIZER;  // for who reads or changes receiver_
  PacketReceiver* receiver_ = nullptr;
  SwitchPort* through_ = nullptr;  // null: what is sent is at the receiver at once
  std::uint32_t received_ = 0;     // packets, as a position in the ring
  std::uint32_t handed_ = 0;       // to the kernel, likewise
  std::atomic<std::uint32_t> capacity_;
  std::atomic<std::uint64_t> refused_ = 0;
  Counter unfit_;
};

class VethLink final : public Link {
 public:
  static absl::StatusOr<std::unique_ptr<VethLink>> Create(const v1::LinkConfig& config,
                                                          rte_mempool* pool);

  LinkEnd* end() noexcept override { return end_.get(); }
  Occupancy occupancy(unsigned direction) const override;
  void Look(unsigned direction) noexcept override;
  // Of an xdp or a tap only what comes to the engine.
  bool counts_by_looks() const noexcept override {
    return (kind_ != v1::LINK_XDP && kind_ != v1::LINK_TAP) || end_;
  }
  bool looks_disturb() const noexcept override { return counts_by_looks(); }
  void Follow() override;
  std::uint64_t Dropped(unsigned direction) override;
  absl::StatusOr<std::unique_ptr<Found>> Find(pid_t pid, unsigned end) const override;
  // Of what is not foreign an AF_XDP socket alone.
  absl::StatusOr<std::unique_ptr<Found>> FindNamed(pid_t pid, unsigned end,
                                                   const v1::PortConfig& port) const override;
  void Take(std::unique_ptr<Found> found) override;
  void Forget(unsigned end) override;
  void DropReplaced() override { replaced_.clear(); }

 private:
  // What leads to an end, and how it gets there.
  struct Direction {
    std::string device;                        // of that end
    std::optional<NetworkDevices> devices;     // where it is, while a function there is known
    std::string port;                          // of a bridge, that sends to it; else empty
    std::unique_ptr<TapQueue> queue;           // null: it is no tap, or leads to the engine
    std::unique_ptr<PacketReceiver> receiver;  // null: not found yet, or forgotten
    std::uint64_t dropped = 0;                 // by those that were replaced, and counted so far
    std::uint64_t unsent = 0;                  // by the device that sends, and by the port
    std::unique_ptr<SwitchPort> through;       // null: no process is on the way there
  };

  explicit VethLink(const v1::LinkConfig& config);
  std::uint64_t Unsent(unsigned direction) const;  // under counting_
  absl::Status OpenQueues();
  absl::StatusOr<std::unique_ptr<PacketReceiver>> FindReceiver(pid_t pid,
                                                               const Direction& way) const;
  absl::StatusOr<std::unique_ptr<Found>> FoundAt(
      pid_t pid, unsigned end, absl::StatusOr<std::unique_ptr<PacketReceiver>> receiver) const;
  absl::Status Named(const absl::Status& error) const;

  std::string name_;
  v1::LinkKind kind_;
  std::optional<NetworkDevices> host_;  // none: it is foreign
  std::uint32_t slots_, queues_;
  bool without_rings_;  // the sockets of functions
  bool by_nic_;         // what is sent is on its way for a time
  // Sockets and devices are others'. The engine asks neither what they dropped: a socket would
  // count from 0 then.
  bool foreign_;
  std::array<Direction, 2> directions_;
  std::unique_ptr<VethEnd> end_;  // null: the engine has none
  std::vector<std::unique_ptr<PacketReceiver>> replaced_;
  std::mutex counting_;  // for drops
};

}  // namespace unis
