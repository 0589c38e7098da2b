#include "engine/estimator/injector.h"

#include <algorithm>

namespace unis {

RingInjector::RingInjector(rte_ring* ingress, rte_ring* egress, const PortShm& port,
                           const TimerSubsystem& timer)
    : ingress_(ingress),
      egress_(egress),
      port_(port),
      timer_(timer),
      position_(egress->cons.head),
      expected_(port.Read().rx_packets) {}

std::uint32_t RingInjector::Room() const {
  return std::min(rte_ring_get_capacity(ingress_), rte_ring_get_capacity(egress_));
}

std::uint32_t RingInjector::Send(std::span<rte_mbuf*> packets) noexcept {
  const unsigned sent =
      rte_ring_sp_enqueue_burst(ingress_, reinterpret_cast<void**>(packets.data()),
                                static_cast<unsigned>(packets.size()), nullptr);
  expected_ += sent;
  taken_ = false;
  return sent;
}

std::uint32_t RingInjector::Receive(std::span<rte_mbuf*> packets) noexcept {
  return rte_ring_sc_dequeue_burst(egress_, reinterpret_cast<void**>(packets.data()),
                                   static_cast<unsigned>(packets.size()), nullptr);
}

// A function is done when it has taken all and polls again.
Nanoseconds RingInjector::DoneAt() noexcept {
  if (!taken_) {
    if (port_.Read().rx_packets < expected_) return 0;
    taken_ = true;
    polls_ = port_.Polls();  // read only now: an older one may be from before the last packets
    return 0;
  }
  return port_.Polls() == polls_ ? 0 : timer_.Now();
}

// The function behind the egress was stopped anywhere, maybe between two reads of the ring's
// positions, which it will then compare: they must be as they were. Others read them meanwhile.
void RingInjector::Rewind() noexcept {
  for (volatile std::uint32_t* position :
       {&egress_->prod.head, &egress_->cons.head, &egress_->cons.tail, &egress_->prod.tail})
    __atomic_store_n(position, position_, __ATOMIC_RELAXED);
}

MemifInjector::MemifInjector(LinkEnd& ingress, Occupancy to_function, LinkEnd& egress,
                             Occupancy from_function, const TimerSubsystem& timer)
    : ingress_(ingress),
      egress_(egress),
      to_function_(to_function),
      from_function_(from_function),
      timer_(timer) {}

std::uint32_t MemifInjector::Room() const {
  return std::min(to_function_.capacity(), from_function_.capacity());
}

std::uint32_t MemifInjector::Send(std::span<rte_mbuf*> packets) noexcept {
  taken_at_ = 0;
  moved_at_ = timer_.Now();
  return ingress_.Send(packets.data(), static_cast<std::uint16_t>(packets.size()));
}

std::uint32_t MemifInjector::Receive(std::span<rte_mbuf*> packets) noexcept {
  const std::uint16_t count =
      egress_.Receive(packets.data(), static_cast<std::uint16_t>(packets.size()));
  if (count > 0) moved_at_ = timer_.Now();
  return count;
}

// The last burst's work is not seen; in the difference of two trains it is not missing.
Nanoseconds MemifInjector::DoneAt() noexcept {
  if (to_function_.Packets() > 0) return 0;
  const Nanoseconds now = timer_.Now();
  if (taken_at_ == 0) taken_at_ = now;
  const Nanoseconds last = std::max(taken_at_, moved_at_);
  return now - last > kQuiet ? last : 0;
}

}  // namespace unis
