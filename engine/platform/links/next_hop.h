// The addresses of the frames that a NIC's own switch is to carry to one port.
#pragma once

#include <rte_mbuf.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <string>

namespace unis {

using MacAddress = std::array<std::uint8_t, 6>;

class NextHop {
 public:
  NextHop() = default;  // frames stay as they are
  // `next` as IsOne() has it. `own`: a NIC that checks for spoofing takes no other source.
  NextHop(const std::string& next, const MacAddress& own) : stated_(true) {
    std::memcpy(addresses_.data(), next.data(), own.size());
    std::memcpy(addresses_.data() + own.size(), own.data(), own.size());
  }

  // Six bytes, the address of one port.
  static bool IsOne(const std::string& next) {
    constexpr unsigned kGroup = 1;  // of many ports
    return next.size() == MacAddress().size() &&
           (static_cast<unsigned char>(next.front()) & kGroup) == 0 &&
           std::ranges::any_of(next, [](char byte) { return byte != 0; });
  }

  bool stated() const noexcept { return stated_; }
  // Nobody else has the bytes of the packet.
  void Write(rte_mbuf* packet) const noexcept {
    if (stated_ && packet->data_len >= addresses_.size())
      std::memcpy(rte_pktmbuf_mtod(packet, void*), addresses_.data(), addresses_.size());
  }

 private:
  std::array<std::uint8_t, 12> addresses_ = {};  // destination and source, as a frame has them
  bool stated_ = false;
};

}  // namespace unis
