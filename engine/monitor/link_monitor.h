// Interface Monitor (section 4.5.2): reads links of all kinds.
#pragma once

#include <utility>
#include <vector>

#include "engine/monitor/occupancy.h"
#include "engine/scheduler/components.h"

namespace unis {

class LinkMonitor final : public InterfaceMonitor {
 public:
  // A LinkIndex is a position in `links`; the memory that they read must outlive the monitor.
  explicit LinkMonitor(std::vector<Occupancy> links) : links_(std::move(links)) {}

  std::uint32_t NumPkts(LinkIndex link) const noexcept override { return links_[link].Packets(); }
  bool HasOccupancy(LinkIndex link) const noexcept override { return links_[link].readable(); }
  std::uint32_t PktCap(LinkIndex link) const noexcept override { return links_[link].capacity(); }
  std::uint16_t Sent(LinkIndex link) const noexcept override {
    return static_cast<std::uint16_t>(links_[link].Sent());
  }
  bool FillsSlowly(LinkIndex link) const noexcept override { return links_[link].slow(); }
  bool CountsLate(LinkIndex link) const noexcept override { return links_[link].late(); }
  std::uint16_t Received(LinkIndex link) const noexcept override {
    return static_cast<std::uint16_t>(links_[link].Received());
  }

 private:
  std::vector<Occupancy> links_;
};

}  // namespace unis
