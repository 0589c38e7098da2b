#include "engine/platform/links/veth.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <linux/if_ether.h>
#include <net/if.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/monitor/link_progress.h"
#include "engine/platform/frames.h"
#include "engine/platform/links/kinds.h"
#include "engine/platform/links/veth_for_test.h"

namespace unis {
namespace {

TEST_F(VethTest, OccupancyIsWhatWasSentAndNotReceived) {
  const auto link = Make(true);
  ASSERT_NE(link, nullptr);
  EXPECT_FALSE(link->occupancy(1).readable()) << "there is no program yet";
  EXPECT_EQ(Send(*link->end(), 1), 0U) << "nobody would receive it";
  const EthPort program = Program(far_);
  Find(*link, 1);
  ASSERT_TRUE(link->occupancy(0).readable() && link->occupancy(1).readable());
  LinkProgress there(link->occupancy(1)), back(link->occupancy(0));
  for (int round = 0; round < 50; ++round) {  // the rings are filled many times over
    ASSERT_EQ(Send(*link->end(), 100), 100U);
    ASSERT_EQ(Waiting(*link, 1), 100U);
    ASSERT_EQ(Send(program, 30), 30U);
    ASSERT_EQ(Waiting(*link, 0), 30U);
    ASSERT_EQ(Receive(program, 64), 64U);
    ASSERT_EQ(Waiting(*link, 1), 36U);
    ASSERT_EQ(Receive(program, kSlots), 36U);
    ASSERT_EQ(Receive(*link->end(), kSlots), 30U);
    ASSERT_EQ(Waiting(*link, 0) + Waiting(*link, 1), 0U);
    there.Sample();
    back.Sample();
  }
  EXPECT_EQ(there.sent(), 5000U);
  EXPECT_EQ(there.received(), 5000U);
  EXPECT_EQ(back.sent(), 1500U);
  EXPECT_EQ(link->Dropped(0) + link->Dropped(1), 0U);
}

TEST_F(VethTest, PacketsThatCameAndWentBetweenTwoLooksAreCounted) {
  const auto link = Make(true);
  ASSERT_NE(link, nullptr);
  const EthPort program = Program(far_);
  Find(*link, 1);
  LinkProgress there(link->occupancy(1));
  for (int round = 0; round < 20; ++round) {
    ASSERT_EQ(Send(*link->end(), 200), 200U);
    ASSERT_EQ(Receive(program, kSlots), 200U);
    ASSERT_EQ(Waiting(*link, 1), 0U);
    there.Sample();
  }
  EXPECT_EQ(there.sent(), 4000U);
  EXPECT_EQ(there.received(), 4000U);
}

TEST_F(VethTest, ItIsFoundAlsoWherePacketsWait) {
  const EthPort program = Program(far_);
  {
    const EthPort before = Program(near_);
    ASSERT_EQ(Send(before, 200), 200U);
    ASSERT_EQ(Receive(program, 150), 150U);
    ASSERT_EQ(Send(before, 100), 100U);  // beyond the end of the ring
  }
  const auto link = Make(true);
  ASSERT_NE(link, nullptr);
  Find(*link, 1);
  EXPECT_EQ(Waiting(*link, 1), 150U);
  EXPECT_EQ(Send(*link->end(), 1000), kSlots - 150);
  EXPECT_EQ(Receive(program, 1000), kSlots);
  EXPECT_EQ(link->Dropped(1), 0U);
}

TEST_F(VethTest, TheEngineSendsNoMoreThanThereIsRoomFor) {
  const auto link = Make(true);
  ASSERT_NE(link, nullptr);
  const EthPort program = Program(far_);
  Find(*link, 1);
  EXPECT_EQ(link->end()->Room(), kBurst);
  EXPECT_EQ(Send(*link->end(), 1000), kSlots);
  EXPECT_EQ(link->end()->Room(), 0U);
  EXPECT_EQ(Waiting(*link, 1), kSlots);
  ASSERT_EQ(Receive(program, 10), 10U);
  EXPECT_EQ(link->end()->Room(), 10U);
  EXPECT_EQ(Send(*link->end(), 1000), 10U);
  EXPECT_EQ(link->Dropped(1), 0U);
  EXPECT_EQ(Receive(program, 1000), kSlots);
}

// The kernel chooses a socket by the flow: what fits into the fuller one fits.
TEST_F(VethTest, OfSeveralSocketsNoneIsOverrun) {
  v1::LinkConfig config = Config(true);
  config.mutable_veth()->set_queues(2);
  const auto made = VethLink::Create(config, memory_->pool());
  ASSERT_TRUE(made.ok()) << made.status();
  VethLink& link = **made;
  std::vector<PacketRings> program;
  const int group = PACKET_FANOUT_HASH << 16 | (getpid() & 0xffff);
  for (int i = 0; i < 2; ++i) {
    auto rings = PacketRings::Open(far_, kSlots, true);
    ASSERT_TRUE(rings.ok()) << rings.status();
    program.push_back(*std::move(rings));
    ASSERT_EQ(setsockopt(program[i].socket(), SOL_PACKET, PACKET_FANOUT, &group, sizeof(group)), 0);
  }
  Find(link, 1);
  const auto send = [&](std::uint32_t flows) {  // till there is no room
    const Frames frames = MakeFrames({.flows = flows}, {});
    std::uint32_t sent = 0;
    for (std::size_t i = 0; link.end()->Room() > 0 && sent < 4 * kSlots;
         i = (i + 1) % frames.size()) {
      const auto bytes = frames.Bytes(frames[i]);
      rte_mbuf* packet =
          Packet({reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()});
      if (link.end()->Send(&packet, 1) == 1) ++sent;
      link.Look(1);
    }
    return sent;
  };
  EXPECT_EQ(send(1), kSlots) << "all go to one socket";
  for (std::uint32_t slot = 0; slot < kSlots; ++slot)
    for (const PacketRings& rings : program)
      __atomic_store_n(&rings.received(slot)->tp_status, TP_STATUS_KERNEL, __ATOMIC_RELEASE);
  EXPECT_EQ(Waiting(link, 1), 0U);
  EXPECT_GT(send(64), kSlots) << "both get some";
  EXPECT_EQ(link.Dropped(1), 0U);
}

// A device that is down takes nothing. Nobody offers it packets again and again.
TEST_F(VethTest, WhatTheKernelDoesNotTakeStaysTheCallersAndLeavesNoRoom) {
  const auto link = Make(true);
  const EthPort program = Program(far_);
  Find(*link, 1);
  LinkEnd& end = *link->end();
  ASSERT_GT(end.Room(), 0U);
  const auto set = [this](const char* state) {
    return Shell(fmt::format("ip link set {} {}", near_, state));
  };
  ASSERT_TRUE(set("down"));
  EXPECT_EQ(Send(end, 3), 0U);
  EXPECT_TRUE(Eventually([&] { return Send(end, 1) == 0 && end.Room() == 0; }));
  ASSERT_TRUE(set("up"));
  EXPECT_TRUE(Eventually([&] { return end.Room() > 0 && Send(end, 1) == 1; }));
  EXPECT_EQ(Receive(program, 10), 1U);
}

// It counts as a drop of the device's what stays the caller's.
TEST_F(VethTest, WhatADeviceWithoutItsPeerRefusesIsNoDrop) {
  const auto link = Make(true);
  const EthPort program = Program(far_);
  Find(*link, 1);
  LinkEnd& end = *link->end();
  ASSERT_TRUE(Shell(fmt::format("ip link set {} down", far_)));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Send(end, 1), 0U);
  EXPECT_EQ(link->Dropped(1), 0U);
}

TEST_F(VethTest, WhatIsTooShortToBeSentStopsNothing) {
  const auto link = Make(true);
  const EthPort program = Program(far_);
  Find(*link, 1);
  const std::vector<std::uint8_t> shorter(VethEnd::kLeastBytes - 1), least(VethEnd::kLeastBytes);
  rte_mbuf* burst[] = {Packet(shorter), Packet(least), Packet(shorter)};
  EXPECT_EQ(link->end()->Send(burst, 3), 3);
  EXPECT_EQ(link->Dropped(1), 2U);
  EXPECT_EQ(Receive(program, 10), 1U);
}

TEST_F(VethTest, PacketsWithDatesOutOfOrderAreCounted) {
  std::vector<PacketRings> of_one, of_other;
  for (auto* rings : {&of_one, &of_other}) {
    auto opened = PacketRings::Open(far_, kSlots);
    ASSERT_TRUE(opened.ok()) << opened.status();
    rings->push_back(*std::move(opened));
  }
  // Both are taken out at once, and the last two have each other's date.
  const auto take_three = [](const PacketRings& rings) {
    for (std::uint32_t slot = 0; slot < 3; ++slot)
      __atomic_store_n(&rings.received(slot)->tp_status, TP_STATUS_KERNEL, __ATOMIC_RELEASE);
    std::swap(rings.received(1)->tp_sec, rings.received(2)->tp_sec);
    std::swap(rings.received(1)->tp_nsec, rings.received(2)->tp_nsec);
  };
  FollowedRings before(std::move(of_one));
  const EthPort near = Program(near_);
  ASSERT_EQ(Send(near, 3), 3U);
  take_three(before.rings().front());
  take_three(of_other.front());
  FollowedRings after(std::move(of_other));
  before.Look();
  EXPECT_EQ(before.occupancy().Sent(), 3U);
  ASSERT_EQ(Send(near, 2), 2U);
  for (FollowedRings* rings : {&before, &after}) {
    rings->Look();
    EXPECT_EQ(rings->occupancy().Packets(), 2U);
  }
  EXPECT_EQ(before.occupancy().Sent(), 5U);
  EXPECT_EQ(after.occupancy().Sent(), 2U);
}

// The engine's end sends one stretch of memory each.
TEST_F(VethTest, APacketInSeveralSegmentsArrivesWhole) {
  const auto link = Make(true);
  const EthPort program = Program(far_);
  Find(*link, 1);
  rte_mbuf* const packet = rte_pktmbuf_alloc(memory_->pool());
  rte_mbuf* const tail = rte_pktmbuf_alloc(memory_->pool());
  ASSERT_TRUE(packet != nullptr && tail != nullptr);
  std::memset(rte_pktmbuf_append(packet, 40), 1, 40);
  std::memset(rte_pktmbuf_append(tail, 60), 2, 60);
  ASSERT_EQ(rte_pktmbuf_chain(packet, tail), 0);
  rte_mbuf* burst[] = {packet};
  ASSERT_EQ(link->end()->Send(burst, 1), 1);
  rte_mbuf* got = nullptr;
  ASSERT_TRUE(Eventually([&] { return program.Receive(&got, 1) == 1; }));
  ASSERT_EQ(got->pkt_len, 100U);
  EXPECT_EQ(*rte_pktmbuf_mtod_offset(got, const char*, 39), 1);
  EXPECT_EQ(*rte_pktmbuf_mtod_offset(got, const char*, 40), 2);
  EXPECT_EQ(*rte_pktmbuf_mtod_offset(got, const char*, 99), 2);
  rte_pktmbuf_free(got);
}

TEST_F(VethTest, WhatTheKernelDropsIsCounted) {
  const auto link = Make(true);
  ASSERT_NE(link, nullptr);
  const EthPort program = Program(far_);
  Find(*link, 1);
  ASSERT_EQ(Send(program, 300), 300U) << "net_af_packet is told of no drop";
  EXPECT_EQ(Waiting(*link, 0), kSlots);
  EXPECT_EQ(link->Dropped(0), 300 - kSlots);
  EXPECT_EQ(link->Dropped(0), 300 - kSlots) << "it only grows";
  EXPECT_EQ(Receive(*link->end(), 1000), kSlots);
  ASSERT_EQ(Send(*link->end(), 2, 1600), 2U) << "too long for the devices";
  EXPECT_EQ(link->Dropped(1), 2U);
  EXPECT_EQ(Receive(program, 10), 0U);
}

// As a port of a bridge does that sends to `far_`: here it is the device of the other end.
TEST_F(VethTest, WhatAPortOfABridgeDropsIsCounted) {
  v1::LinkConfig config = Config(true);
  config.set_kind(v1::LINK_BRIDGE);
  config.mutable_veth()->set_device0(far_);
  config.mutable_veth()->set_port1(near_);
  const auto link = VethLink::Create(config, memory_->pool());
  ASSERT_TRUE(link.ok()) << link.status();
  const EthPort program = Program(near_);
  ASSERT_TRUE(Shell(fmt::format("ip link set {} mtu 500", far_)));
  EXPECT_EQ((*link)->Dropped(1), 0U);
  (void)Send(program, 3, 1000);
  EXPECT_EQ((*link)->Dropped(1), 3U);
  EXPECT_EQ((*link)->Dropped(0), 0U);
}

// A process in a network namespace, a file, with a packet socket on a device there.
class Elsewhere {
 public:
  Elsewhere(const std::string& space, const std::string& device) {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
    here_ = UniqueFd(ends[0]);
    const UniqueFd there(ends[1]);
    pid_ = fork();
    if (pid_ == 0) Play(space, device, there.get());
    EXPECT_TRUE(Wait()) << "it could not open its socket";
  }
  ~Elsewhere() { End(); }
  pid_t pid() const { return pid_; }
  void Send(std::uint32_t bytes) {
    EXPECT_EQ(::send(here_.get(), &bytes, sizeof(bytes), 0), ssize_t{sizeof(bytes)});
    EXPECT_TRUE(Wait());
  }
  void End() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }

 private:
  bool Wait() const {
    char done = 0;
    return recv(here_.get(), &done, 1, 0) == 1 && done == 1;
  }
  [[noreturn]] static void Play(const std::string& space, const std::string& device, int there) {
    const UniqueFd entered(open(space.c_str(), O_RDONLY | O_CLOEXEC));
    char done = setns(entered.get(), CLONE_NEWNET) == 0;
    const UniqueFd socket(::socket(AF_PACKET, SOCK_RAW, 0));
    sockaddr_ll at{};
    at.sll_family = AF_PACKET;
    at.sll_protocol = htons(ETH_P_ALL);
    at.sll_ifindex = static_cast<int>(if_nametoindex(device.c_str()));
    done = done != 0 && at.sll_ifindex != 0 &&
           bind(socket.get(), reinterpret_cast<const sockaddr*>(&at), sizeof(at)) == 0;
    const std::vector<std::uint8_t> frame(2000, 0x5a);
    for (std::uint32_t bytes = 0; ::send(there, &done, 1, MSG_NOSIGNAL) == 1;) {
      if (recv(there, &bytes, sizeof(bytes), 0) != ssize_t{sizeof(bytes)}) break;
      (void)::send(socket.get(), frame.data(), bytes, 0);
    }
    _exit(0);
  }

  UniqueFd here_;
  pid_t pid_ = 0;
};

TEST_F(VethTest, AnEndMayBeInAnotherNetworkNamespace) {
  const std::string space = near_ + "-space";
  ASSERT_TRUE(Shell("ip netns add " + space));
  const std::unique_ptr<void, std::function<void(void*)>> gone(
      this, [&](void*) { (void)Shell("ip netns delete " + space); });
  ASSERT_TRUE(Shell(fmt::format("ip link set {} netns {}", far_, space)));
  // Settings do not move along, and the kernel would send frames of its own.
  (void)Shell(
      fmt::format("ip netns exec {} sh -c 'echo 1 >/proc/sys/net/ipv6/conf/{}/disable_ipv6' "
                  "2>/dev/null",
                  space, far_));
  ASSERT_TRUE(Shell(fmt::format("ip -n {} link set {} up", space, far_)));
  v1::LinkConfig config = Config(true);
  config.mutable_veth()->set_without_rings(true);
  const auto made = VethLink::Create(config, memory_->pool());
  ASSERT_TRUE(made.ok()) << made.status();
  VethLink& link = **made;
  Elsewhere program("/run/netns/" + space, far_);
  auto found = link.Find(program.pid(), 1);
  ASSERT_TRUE(found.ok()) << found.status();
  link.Take(*std::move(found));
  program.Send(60);
  EXPECT_EQ(Receive(*link.end(), 10), 1U);
  EXPECT_EQ(link.Dropped(0), 0U);
  ASSERT_TRUE(Shell(fmt::format("ip link set {} mtu 500", near_)));
  for (int i = 0; i < 3; ++i) program.Send(1000);
  program.End();
  EXPECT_EQ(link.Dropped(0), 3U) << "also once the program has ended";
}

TEST_F(VethTest, WhereAProgramEndedItsNetworkNamespaceIsLetGoAndItsDropsStay) {
  const auto link = Make(true);
  ASSERT_NE(link, nullptr);
  const auto tables = Tables();
  const EthPort program = Program(far_);
  Find(*link, 1);
  EXPECT_EQ(Tables(), tables + 1);
  ASSERT_TRUE(Shell(fmt::format("ip link set {} mtu 500", near_)));
  (void)Send(program, 3, 1000);
  link->Forget(1);  // nobody asked before
  EXPECT_EQ(Tables(), tables);
  EXPECT_EQ(link->Dropped(0), 3U);
}

TEST_F(VethTest, ASwitchThatWasStartedAgainIsFollowed) {
  const std::string pid_file = ::testing::TempDir() + near_;
  const auto name = [&](pid_t pid) { std::ofstream(pid_file) << pid << '\n'; };
  const std::string here = fmt::format("/proc/{}/ns/net", getpid());
  auto first = std::make_unique<Elsewhere>(here, far_);
  name(first->pid());
  v1::LinkConfig config = Config(true);
  config.mutable_veth()->set_device0("lo");
  config.mutable_veth()->set_device1(near_);
  config.mutable_veth()->set_port0(far_);
  config.mutable_veth()->set_port1(far_);
  config.mutable_veth()->set_switch_pid_file(pid_file);
  const auto link = VethLink::Create(config, memory_->pool());
  ASSERT_TRUE(link.ok()) << link.status();
  const EthPort program = Program(near_);
  Find(**link, 1);
  EXPECT_EQ((*link)->end()->Room(), kBurst);
  first.reset();
  (*link)->Follow();
  EXPECT_EQ((*link)->end()->Room(), 0U) << "it is gone";
  const Elsewhere second(here, far_);
  name(second.pid());
  (*link)->Follow();
  EXPECT_EQ((*link)->end()->Room(), kBurst);
  std::filesystem::remove(pid_file);
}

TEST_F(VethTest, BetweenTwoProgramsEachEndIsFoundAndForgottenByItself) {
  const auto link = Make(false);
  ASSERT_NE(link, nullptr);
  EXPECT_EQ(link->end(), nullptr);
  const auto missing = link->Find(getpid(), 0).status();
  EXPECT_EQ(missing.code(), absl::StatusCode::kNotFound) << missing;
  const EthPort first = Program(near_), second = Program(far_);
  Find(*link, 0);
  Find(*link, 1);
  const auto again = link->Find(getpid(), 1);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(*again, nullptr) << "it is found already";
  ASSERT_EQ(Send(first, 300), 300U);
  ASSERT_EQ(Send(second, 5), 5U);
  EXPECT_EQ(Waiting(*link, 1), kSlots);
  link->Forget(1);
  EXPECT_FALSE(link->occupancy(1).readable());
  EXPECT_EQ(Waiting(*link, 0), 5U) << "the other direction is read on";
  EXPECT_EQ(link->Dropped(1), 300U) << "what waited there is lost too";
}

TEST_F(VethTest, AVlanTagComesThrough) {
  const auto link = Make(true);
  ASSERT_NE(link, nullptr);
  const EthPort program = Program(far_);
  Find(*link, 1);
  std::vector<std::uint8_t> frame(100);
  for (std::size_t i = 0; i < frame.size(); ++i) frame[i] = static_cast<std::uint8_t>(i);
  const std::array<std::uint8_t, 4> tag{0x81, 0x00, 0x20, 0x07};
  std::ranges::copy(tag, frame.begin() + 12);
  rte_mbuf* packet = Packet(frame);
  ASSERT_EQ(program.Send(&packet, 1), 1);
  ASSERT_EQ(link->end()->Receive(&packet, 1), 1);
  ASSERT_EQ(packet->pkt_len, frame.size());
  EXPECT_EQ(std::memcmp(rte_pktmbuf_mtod(packet, const void*), frame.data(), frame.size()), 0);
  rte_pktmbuf_free(packet);
}

TEST_F(VethTest, SaysWhatItCannotMake) {
  v1::LinkConfig config = Config(true);
  config.mutable_veth()->set_device0("nowhere");
  const auto device = VethLink::Create(config, memory_->pool()).status();
  EXPECT_NE(device.message().find("link link: there is no device nowhere"), std::string::npos)
      << device;
  const LinkKind& kind = *FindLinkKind(v1::LINK_VETH);
  EXPECT_TRUE(kind.Check(Config(true), false).ok());
  config = Config(true);
  config.set_slots(32768);
  EXPECT_NE(kind.Check(config, false).message().find("at most 16384"), std::string::npos);
  EXPECT_NE(kind.Check(Config(true), true).message().find("foreign"), std::string::npos);
}

TEST_F(VethTest, WhatJoinsTheDevicesIsOfTheKind) {
  const LinkKind &veth = VethKind(), &bridge = BridgeKind(), &ovs = OvsKind();
  v1::LinkConfig config = Config(true);
  EXPECT_FALSE(bridge.Check(config, false).ok()) << "no ports";
  config.mutable_veth()->set_port0("c");
  EXPECT_FALSE(bridge.Check(config, false).ok()) << "one port";
  EXPECT_FALSE(veth.Check(config, false).ok()) << "a port";
  config.mutable_veth()->set_port1("c");
  EXPECT_FALSE(bridge.Check(config, false).ok()) << "the same port";
  config.mutable_veth()->set_port1("d");
  EXPECT_TRUE(bridge.Check(config, false).ok());
  EXPECT_FALSE(ovs.Check(config, false).ok()) << "no switch";
  v1::LinkConfig other = Config(true);
  other.mutable_veth()->set_device0("e");
  other.mutable_veth()->set_device1("f");
  EXPECT_TRUE(bridge.CheckBeside(config, other).ok());
  other.mutable_veth()->set_port1("c");
  EXPECT_NE(bridge.CheckBeside(config, other).message().find("has device c"), std::string::npos);
  config.mutable_veth()->set_switch_pid_file("pid");
  EXPECT_TRUE(ovs.Check(config, false).ok());
  EXPECT_FALSE(bridge.Check(config, false).ok()) << "a switch";
  config.mutable_veth()->clear_port0();
  EXPECT_FALSE(ovs.Check(config, false).ok()) << "one port";
}

}  // namespace
}  // namespace unis
