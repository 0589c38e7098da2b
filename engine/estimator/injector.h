// Where the estimator feeds a function and takes its answers: two rings, or memifs of which the
// engine has an end.
#pragma once

#include <rte_mbuf.h>
#include <rte_ring.h>

#include <cstdint>
#include <span>

#include "engine/monitor/occupancy.h"
#include "engine/platform/links/link.h"
#include "engine/platform/port_shm.h"
#include "engine/scheduler/components.h"

namespace unis {

class Injector {
 public:
  virtual ~Injector() = default;
  // Packets that fit in front of the function as well as behind it.
  virtual std::uint32_t Room() const = 0;
  virtual std::uint32_t WaitingBefore() const = 0;
  virtual std::uint32_t WaitingBehind() const = 0;
  // How many of them were sent; the rest stay the caller's.
  virtual std::uint32_t Send(std::span<rte_mbuf*> packets) noexcept = 0;
  virtual std::uint32_t Receive(std::span<rte_mbuf*> packets) noexcept = 0;
  // When the function was seen to be done with all that was ever sent, whether it answers or drops;
  // 0: not yet.
  virtual Nanoseconds DoneAt() noexcept = 0;
  // Leaves what is behind the function as it was found, for whoever takes from there. The links are
  // empty, and the function stands still with no packet in hand: one that has some may stand
  // anywhere amid sending, and its next store would undo ours.
  virtual void Rewind() noexcept = 0;
};

class RingInjector final : public Injector {
 public:
  // `port` is the one at which the function receives.
  RingInjector(rte_ring* ingress, rte_ring* egress, const PortShm& port,
               const TimerSubsystem& timer);

  std::uint32_t Room() const override;
  std::uint32_t WaitingBefore() const override { return rte_ring_count(ingress_); }
  std::uint32_t WaitingBehind() const override { return rte_ring_count(egress_); }
  std::uint32_t Send(std::span<rte_mbuf*> packets) noexcept override;
  std::uint32_t Receive(std::span<rte_mbuf*> packets) noexcept override;
  Nanoseconds DoneAt() noexcept override;
  void Rewind() noexcept override;

 private:
  rte_ring* ingress_;
  rte_ring* egress_;
  const PortShm& port_;
  const TimerSubsystem& timer_;
  std::uint32_t position_;   // of the egress, when found
  std::uint64_t expected_;   // rx_packets of the port when all that was sent is taken
  std::uint64_t polls_ = 0;  // of the port, after all was seen to be taken
  bool taken_ = false;       // all was
};

// The two may be the same memif. A program over memif tells nothing of itself: it is done when it
// took all packets and no answer came for kQuiet.
class MemifInjector final : public Injector {
 public:
  static constexpr Nanoseconds kQuiet = 2'000'000;  // longer than a burst takes: 31 µs a packet

  MemifInjector(LinkEnd& ingress, Occupancy to_function, LinkEnd& egress, Occupancy from_function,
                const TimerSubsystem& timer);

  std::uint32_t Room() const override;
  std::uint32_t WaitingBefore() const override { return to_function_.Packets(); }
  std::uint32_t WaitingBehind() const override { return from_function_.Packets(); }
  std::uint32_t Send(std::span<rte_mbuf*> packets) noexcept override;
  std::uint32_t Receive(std::span<rte_mbuf*> packets) noexcept override;
  Nanoseconds DoneAt() noexcept override;
  void Rewind() noexcept override {}

 private:
  LinkEnd& ingress_;
  LinkEnd& egress_;
  Occupancy to_function_;
  Occupancy from_function_;
  const TimerSubsystem& timer_;
  Nanoseconds taken_at_ = 0;  // when all was seen to be taken; 0: not yet
  Nanoseconds moved_at_ = 0;  // when the last packet was seen to move
};

}  // namespace unis
