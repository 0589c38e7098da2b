// Links to functions that have tap devices open: as this process has, as DPDK's net_tap does.
#include "engine/platform/links/tap_queue.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine/base/eventually_for_test.h"
#include "engine/base/machine_for_test.h"
#include "engine/platform/links/device_pair_for_test.h"
#include "engine/platform/links/kinds.h"
#include "engine/platform/links/veth.h"
#include "engine/platform/memory_for_test.h"

namespace unis {
namespace {

UniqueFd OpenDevice(const std::string& device) {
  UniqueFd file(open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC));
  ifreq asked{};
  device.copy(asked.ifr_name, IFNAMSIZ - 1);
  asked.ifr_flags = IFF_TAP | IFF_NO_PI | IFF_MULTI_QUEUE;
  EXPECT_EQ(ioctl(file.get(), TUNSETIFF, &asked), 0);
  return file;
}

// Its files: the one that keeps the device is detached, reading and writing share one queue.
struct TapProgram {
  explicit TapProgram(const std::string& device) : name(device), keeps(OpenDevice(device)) {
    ifreq detached{};
    detached.ifr_flags = IFF_DETACH_QUEUE;
    EXPECT_EQ(ioctl(keeps.get(), TUNSETQUEUE, &detached), 0);
    reads = OpenDevice(device);
  }
  // Packets come only once the kernel has seen that the device is up. It does so by itself, under a
  // lock that the request waits for.
  void BeReady() {
    writes = UniqueFd(dup(reads.get()));
    EXPECT_TRUE(Eventually([&] {
      std::string state;
      std::ifstream(fmt::format("/sys/class/net/{}/operstate", name)) >> state;
      return state == "up";
    }));
    ifreq asked{};
    EXPECT_EQ(ioctl(reads.get(), TUNGETIFF, &asked), 0);
  }
  std::uint32_t Read(std::uint32_t most) const {
    std::array<std::byte, 2048> frame;
    std::uint32_t count = 0;
    while (count < most && read(reads.get(), frame.data(), frame.size()) > 0) ++count;
    return count;
  }
  std::uint32_t Write(std::uint32_t count) const {
    const std::array<std::byte, 60> frame{std::byte{2}};
    std::uint32_t written = 0;
    while (written < count && write(writes.get(), frame.data(), frame.size()) > 0) ++written;
    return written;
  }

  std::string name;
  UniqueFd keeps, reads, writes;
};

class TapQueueTest : public MemoryTest {
 protected:
  static constexpr std::uint32_t kSlots = 64, kRoom = kSlots - TapQueue::kUnfreed;

  void SetUp() override {
    UNIS_NEED_ROOT();
    MemoryTest::SetUp();
    for (const std::string& device : {near_, far_}) {
      ASSERT_TRUE(Shell(fmt::format("ip tuntap add {} mode tap multi_queue", device)));
      (void)Shell(
          fmt::format("echo 1 2>/dev/null >/proc/sys/net/ipv6/conf/{}/disable_ipv6", device));
      ASSERT_TRUE(Shell(fmt::format("tc qdisc add dev {} root noqueue", device)));
      ASSERT_TRUE(Shell(
          fmt::format("ip link set {} arp off multicast off txqueuelen {} up", device, kSlots)));
    }
    for (const auto& [one, other] : {std::pair(near_, far_), std::pair(far_, near_)})
      ASSERT_TRUE(Shell(fmt::format(
          "tc qdisc add dev {0} clsact; tc filter add dev {0} ingress protocol all u32 match u32 0 "
          "0 action mirred egress redirect dev {1}",
          one, other)));
  }
  void TearDown() override {
    for (const std::string& device : {near_, far_})
      (void)Shell(fmt::format("ip link delete {} 2>/dev/null", device));
    MemoryTest::TearDown();
  }

  v1::LinkConfig Config(bool engine_end) const {
    return OnDevicePair(v1::LINK_TAP, kSlots, engine_end ? far_ : near_, far_, engine_end);
  }
  std::unique_ptr<VethLink> Make(bool engine_end) const {
    auto link = VethLink::Create(Config(engine_end), memory_->pool());
    EXPECT_TRUE(link.ok()) << link.status();
    return link.ok() ? *std::move(link) : nullptr;
  }
  // The device passes to the engine what comes, and not to the other device.
  void LeaveToTheEngine() const {
    ASSERT_TRUE(Shell(fmt::format("tc qdisc delete dev {} clsact", far_)));
  }
  static void Find(VethLink& link, unsigned end) {
    auto found = link.Find(getpid(), end);
    ASSERT_TRUE(found.ok()) << found.status();
    ASSERT_NE(*found, nullptr);
    link.Take(*std::move(found));
  }
  static std::uint32_t Waiting(VethLink& link, unsigned direction, unsigned looks = 3) {
    for (unsigned i = 0; i < looks; ++i) {
      std::this_thread::sleep_for(std::chrono::microseconds(20));  // a look is a look each time
      link.Look(direction);
    }
    return link.occupancy(direction).Packets();
  }
  std::uint32_t Send(LinkEnd& end, std::uint32_t most, std::size_t bytes = 60) {
    const std::vector<std::uint8_t> frame(bytes, 0x5a);
    std::uint32_t sent = 0;
    for (; sent < most && end.Room() > 0; ++sent) {
      rte_mbuf* packet = Packet(frame);
      if (end.Send(&packet, 1) == 1) continue;
      rte_pktmbuf_free(packet);
      break;
    }
    return sent;
  }

  const std::string near_ = fmt::format("ut{}ta", getpid()), far_ = fmt::format("ut{}tb", getpid());
};

TEST_F(TapQueueTest, AProgramThatDoesNotReadLeavesWhatWasSent) {
  TapProgram program(far_);
  LeaveToTheEngine();
  auto link = Make(true);
  EXPECT_EQ(link->Find(getpid(), 1).status().code(), absl::StatusCode::kNotFound)
      << "it does not hear of packets yet";
  EXPECT_EQ(Send(*link->end(), 1), 0u) << "there is nobody";
  program.BeReady();
  Find(*link, 1);
  EXPECT_EQ(link->end()->Room(), std::min(kBurst, link->end()->capacity()))
      << "a source waits for that";
  for (const std::uint32_t fill : {1u, 7u, 30u, kRoom}) {
    const std::uint32_t before = link->occupancy(1).Packets();
    EXPECT_EQ(Send(*link->end(), fill - before), fill - before);
    EXPECT_EQ(Waiting(*link, 1), fill);
  }
  EXPECT_EQ(Send(*link->end(), 10), 0u) << "its queue is full";
  EXPECT_EQ(program.Read(5), 5u);
  EXPECT_EQ(Waiting(*link, 1), kRoom - 5);
  EXPECT_EQ(Send(*link->end(), 10), 5u);
  EXPECT_EQ(program.Read(kSlots), kRoom);
  EXPECT_EQ(Waiting(*link, 1), 0u);
  EXPECT_EQ(link->occupancy(1).Received(), kRoom + 5);
  EXPECT_EQ(link->Dropped(1), 0u);
}

TEST_F(TapQueueTest, WhatItWritesComesToTheEngine) {
  TapProgram program(far_);
  LeaveToTheEngine();
  program.BeReady();
  auto link = Make(true);
  Find(*link, 1);
  EXPECT_EQ(program.Write(20), 20u);
  EXPECT_EQ(Waiting(*link, 0), 20u);
  std::array<rte_mbuf*, kBurst> packets;
  EXPECT_EQ(link->end()->Receive(packets.data(), kBurst), 20u);
  rte_pktmbuf_free_bulk(packets.data(), 20);
  EXPECT_EQ(link->Dropped(0), 0u);
}

TEST_F(TapQueueTest, WhatIsTooLongForNetTapIsDropped) {
  TapProgram program(far_);
  LeaveToTheEngine();
  program.BeReady();
  auto link = Make(true);
  Find(*link, 1);
  EXPECT_EQ(Send(*link->end(), 1, VethEnd::kMostUsualBytes), 1u);
  EXPECT_EQ(Send(*link->end(), 1, VethEnd::kMostUsualBytes + 1), 1u);
  EXPECT_EQ(program.Read(kSlots), 1u);
  EXPECT_EQ(link->Dropped(1), 1u);
}

TEST_F(TapQueueTest, BetweenFunctionsWhatTheOneWroteWaitsForTheOther) {
  TapProgram one(near_), other(far_);
  one.BeReady();
  other.BeReady();
  auto link = Make(false);
  EXPECT_EQ(link->end(), nullptr);
  Find(*link, 0);
  Find(*link, 1);
  EXPECT_FALSE(link->counts_by_looks());
  EXPECT_EQ(one.Write(30), 30u);
  EXPECT_EQ(other.Write(7), 7u);
  EXPECT_EQ(Waiting(*link, 1), 30u);
  EXPECT_EQ(Waiting(*link, 0), 7u);
  EXPECT_EQ(one.Write(100), 100u);
  EXPECT_EQ(Waiting(*link, 1), kRoom) << "no more than it may hold";
  EXPECT_EQ(link->Dropped(1), 130 - kSlots) << "for which there was no room";
  EXPECT_EQ(other.Read(200), kSlots);
  EXPECT_EQ(Waiting(*link, 1), 0u);
  EXPECT_EQ(link->Dropped(1), 130 - kSlots);
  EXPECT_EQ(link->Dropped(0), 0u);
}

TEST_F(TapQueueTest, WhatWaitedForAProgramThatEndedIsDropped) {
  TapProgram one(near_);
  one.BeReady();
  auto link = Make(false);
  Find(*link, 0);
  {
    TapProgram other(far_);
    other.BeReady();
    Find(*link, 1);
    EXPECT_EQ(one.Write(20), 20u);
    EXPECT_EQ(Waiting(*link, 1), 20u);
    EXPECT_EQ(other.Read(5), 5u);
  }
  link->Forget(1);
  EXPECT_EQ(link->Dropped(1), 15u);
  EXPECT_FALSE(link->occupancy(1).readable());
  EXPECT_EQ(one.Write(3), 3u);
  EXPECT_EQ(link->Dropped(1), 18u) << "nobody has the device open";
  TapProgram next(far_);
  next.BeReady();
  Find(*link, 1);
  EXPECT_EQ(one.Write(4), 4u);
  EXPECT_EQ(Waiting(*link, 1), 4u);
  EXPECT_EQ(link->Dropped(1), 18u);
}

TEST_F(TapQueueTest, WhatWaitsForAProgramThatFollowedAnotherIsNotDropped) {
  TapProgram one(near_);
  std::optional<TapProgram> other(far_);
  one.BeReady();
  other->BeReady();
  auto link = Make(false);
  Find(*link, 1);
  std::optional<TapProgram> next(far_);  // meanwhile, so that its descriptors are others
  other.reset();
  next->BeReady();
  Find(*link, 1);
  EXPECT_EQ(one.Write(4), 4u);
  EXPECT_EQ(Waiting(*link, 1), 4u);
  EXPECT_EQ(link->Dropped(1), 0u);
  EXPECT_EQ(link->occupancy(1).Packets(), 4u);
  EXPECT_EQ(next->Read(10), 4u);
}

TEST_F(TapQueueTest, WhatNoCounterHasIsDroppedOnceTheQueueIsSeenEmpty) {
  TapProgram one(near_), other(far_);
  one.BeReady();
  other.BeReady();
  auto link = Make(false);
  Find(*link, 0);
  Find(*link, 1);
  ASSERT_TRUE(Shell(fmt::format("ip link set {} down", far_)));
  (void)one.Write(9);
  ASSERT_TRUE(Shell(fmt::format("ip link set {} up", far_)));
  EXPECT_EQ(Waiting(*link, 1), 0u);
  EXPECT_EQ(link->Dropped(1), 9u);
  // Once more, after the first doubt: the queue is asked when nothing is taken for long.
  ASSERT_TRUE(Shell(fmt::format("ip link set {} down", far_)));
  (void)one.Write(2);
  ASSERT_TRUE(Shell(fmt::format("ip link set {} up", far_)));
  EXPECT_EQ(one.Write(1), 1u);
  EXPECT_EQ(Waiting(*link, 1), 3u);
  EXPECT_EQ(other.Read(1), 1u);
  EXPECT_EQ(Waiting(*link, 1, 1100), 0u);
  EXPECT_EQ(link->Dropped(1), 11u);
}

std::atomic<int> woken;

TEST_F(TapQueueTest, AProgramThatWasNotToldOfItsPacketsIsWokenOnce) {
  woken = 0;
  const int signal = SIGRTMIN + 1;
  TapProgram program(far_);
  LeaveToTheEngine();
  program.BeReady();
  auto link = Make(true);
  Find(*link, 1);
  EXPECT_EQ(Send(*link->end(), 3), 3u);
  struct sigaction action {};
  action.sa_handler = [](int) { ++woken; };
  sigaction(signal, &action, nullptr);
  ASSERT_EQ(fcntl(program.reads.get(), F_SETSIG, signal), 0);
  EXPECT_EQ(Waiting(*link, 1, 3000), 3u);
  EXPECT_EQ(woken, 1);
}

TEST_F(TapQueueTest, BadSettingsAreRefusedInASentence) {
  const LinkKind& kind = *FindLinkKind(v1::LINK_TAP);
  EXPECT_TRUE(kind.Check(Config(true), false).ok());
  EXPECT_TRUE(kind.Check(Config(false), false).ok());
  auto config = Config(true);
  config.mutable_veth()->set_device0(near_);
  EXPECT_EQ(kind.Check(config, false).message(), "link link has two devices, one of the engine");
  config = Config(false);
  config.mutable_veth()->set_device0(far_);
  EXPECT_EQ(kind.Check(config, false).message(), "link link has the same device at both ends");
  config = Config(false);
  config.mutable_veth()->set_queues(2);
  EXPECT_FALSE(kind.Check(config, false).ok());
  EXPECT_FALSE(kind.Check(Config(false), true).ok());
}

}  // namespace
}  // namespace unis
