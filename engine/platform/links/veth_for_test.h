// A link between two devices that go with the test.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <linux/if_packet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/machine_for_test.h"
#include "engine/platform/eth_port.h"
#include "engine/platform/links/device_pair_for_test.h"
#include "engine/platform/links/packet_receiver.h"
#include "engine/platform/links/veth.h"
#include "engine/platform/memory_for_test.h"

namespace unis {

// A pair of devices that goes with the test, named after the process. The program at an end is
// DPDK's own driver in this process.
class VethTest : public MemoryTest {
 protected:
  static constexpr std::uint32_t kSlots = 256;

  void SetUp() override {
    UNIS_NEED_ROOT();
    MemoryTest::SetUp();
    ASSERT_NO_FATAL_FAILURE(MakeDevicePair(near_, far_));
  }
  void TearDown() override {
    RemoveDevicePair(near_);
    MemoryTest::TearDown();
  }

  v1::LinkConfig Config(bool engine_end) const {
    return OnDevicePair(v1::LINK_VETH, kSlots, near_, far_, engine_end);
  }
  std::unique_ptr<VethLink> Make(bool engine_end) const {
    auto link = VethLink::Create(Config(engine_end), memory_->pool());
    EXPECT_TRUE(link.ok()) << link.status();
    return link.ok() ? *std::move(link) : nullptr;
  }
  EthPort Program(const std::string& device) const {
    return Open(device, fmt::format("blocksz=4096,framesz=2048,framecnt={}", kSlots));
  }
  // Until net_af_packet has bound its socket that is on all devices, and may have packets, and
  // drops, of any: those go.
  EthPort Open(const std::string& device, const std::string& ring) const {
    auto port =
        EthPort::Open(fmt::format("net_af_packet_{},iface={},qpairs=1,{}", device, device, ring),
                      memory_->pool());
    EXPECT_TRUE(port.ok()) << port.status();
    while (Receive(*port, kBurst) > 0) continue;
    tpacket_stats counted{};
    socklen_t bytes = sizeof(counted);
    if (const auto socket = FindPacketSockets(getpid(), device, 1); socket.ok())
      (void)getsockopt(socket->front().descriptor.get(), SOL_PACKET, PACKET_STATISTICS, &counted,
                       &bytes);
    return *std::move(port);
  }
  static void Find(VethLink& link, unsigned end) {
    auto found = link.Find(getpid(), end);
    ASSERT_TRUE(found.ok()) << found.status();
    ASSERT_NE(*found, nullptr);
    link.Take(*std::move(found));
  }
  static std::uint32_t Waiting(VethLink& link, unsigned direction) {
    link.Look(direction);
    link.Look(direction);  // what is taken is seen a look later
    return link.occupancy(direction).Packets();
  }
  // Lists of devices that this process has open: each holds a network namespace.
  static std::ptrdiff_t Tables() {
    return std::ranges::count_if(
        std::filesystem::directory_iterator("/proc/self/fd"), [](const auto& file) {
          std::error_code gone;
          return std::filesystem::read_symlink(file, gone).native().find("/net/dev") !=
                 std::string::npos;
        });
  }
  template <typename Port>
  std::uint32_t Send(Port& port, std::uint32_t count, std::size_t bytes = 60) {
    const std::vector<std::uint8_t> frame(bytes, 0x5a);
    std::uint32_t sent = 0;
    for (; sent < count; ++sent) {
      rte_mbuf* packet = Packet(frame);
      if (port.Send(&packet, 1) == 1) continue;
      rte_pktmbuf_free(packet);
      break;
    }
    return sent;
  }
  template <typename Port>
  static std::uint32_t Receive(Port& port, std::uint32_t most) {
    std::uint32_t received = 0;
    std::array<rte_mbuf*, kBurst> packets;
    while (received < most) {
      const auto room = static_cast<std::uint16_t>(std::min(most - received, kBurst));
      const std::uint16_t count = port.Receive(packets.data(), room);
      if (count == 0) break;
      rte_pktmbuf_free_bulk(packets.data(), count);
      received += count;
    }
    return received;
  }

  const std::string near_ = fmt::format("ut{}a", getpid()), far_ = fmt::format("ut{}b", getpid());
};

}  // namespace unis
