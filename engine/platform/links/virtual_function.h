// A link between two functions of NICs, virtual or not, which a NIC's own switch joins: both ways.
// The engine drives end 0 as a DPDK port, or has no end. Of a wire a function has end 0, and end 1
// is outside the run.
//
// Nobody can look into it. What a program's queue holds only its driver knows, and what the NIC
// drops nobody tells but the receiver's driver, if it counts that. So the occupancy of both
// directions is unknown, always, and a packet that is lost there is known by difference alone.
#pragma once

#include <absl/status/statusor.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "engine/base/turns.h"
#include "engine/platform/eth_port.h"
#include "engine/platform/links/link.h"
#include "engine/platform/links/next_hop.h"

namespace unis {

class VirtualFunctionEnd final : public LinkEnd {
 public:
  // After the device has refused a packet, where its driver does not tell when there is room.
  static constexpr std::uint64_t kRefusedUs = 20;

  VirtualFunctionEnd(EthPort port, const NextHop& next) : port_(std::move(port)), next_(next) {}

  const EthPort& port() const noexcept { return port_; }

  std::uint16_t Send(rte_mbuf** packets, std::uint16_t count) noexcept override;
  std::uint16_t Receive(rte_mbuf** packets, std::uint16_t count) noexcept override {
    return port_.Receive(packets, count);
  }
  // A burst or nothing.
  std::uint32_t Room() noexcept override;
  std::uint32_t capacity() const noexcept override { return port_.queues().tx; }
  bool carries_mbufs() const noexcept override { return false; }
  bool FreeSent() noexcept override { return port_.FreeSent(); }

 private:
  const EthPort port_;
  const NextHop next_;
  std::uint64_t refused_at_ = 0;  // TSC; 0: it has refused none of late
};

class VirtualFunctionLink final : public Link {
 public:
  static absl::StatusOr<std::unique_ptr<VirtualFunctionLink>> Create(const v1::LinkConfig& config,
                                                                     rte_mempool* pool);

  LinkEnd* end() noexcept override { return end_.get(); }
  Occupancy occupancy(unsigned) const override { return Occupancy::Unreadable(slots_); }
  std::uint64_t Dropped(unsigned direction) override;
  std::uint32_t held() const noexcept override { return held_; }
  // As counted by the processes that had the end, one after the other.
  Passed passed(unsigned direction) const override;
  absl::StatusOr<std::unique_ptr<Found>> FindCounts(pid_t pid, std::size_t port) const override;
  void Take(std::unique_ptr<Found> found) override;
  void Forget(unsigned end) override;

 private:
  explicit VirtualFunctionLink(std::uint32_t slots) : slots_(slots) {}

  std::unique_ptr<VirtualFunctionEnd> end_;  // null: the engine has none
  std::uint32_t slots_;
  std::uint32_t held_ = 0;
  // Of a wire: what processes before this one counted, and where this one counts.
  struct Counts final : Found {
    pid_t pid = 0;
    std::shared_ptr<const Turns> turns;
    std::size_t port = 0;
    Passed Of(unsigned direction) const noexcept;
  };
  std::array<Passed, 2> before_{};
  std::unique_ptr<Counts> now_;  // null: none yet, or it is gone
};

}  // namespace unis
