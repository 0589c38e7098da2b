// Links to functions whose packet sockets have no rings: here a socket of this process.
#include "engine/platform/links/packet_socket.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/machine_for_test.h"
#include "engine/monitor/link_progress.h"
#include "engine/platform/links/device_pair_for_test.h"
#include "engine/platform/links/kinds.h"
#include "engine/platform/links/veth.h"
#include "engine/platform/memory_for_test.h"

namespace unis {
namespace {

class PacketSocketTest : public MemoryTest {
 protected:
  void SetUp() override {
    UNIS_NEED_ROOT();
    MemoryTest::SetUp();
    ASSERT_NO_FATAL_FAILURE(MakeDevicePair(near_, far_));
  }
  void TearDown() override {
    RemoveDevicePair(near_);
    MemoryTest::TearDown();
  }

  std::unique_ptr<VethLink> Make(bool engine_end) const {
    auto config = OnDevicePair(v1::LINK_VETH, 256, near_, far_, engine_end);
    config.mutable_veth()->set_without_rings(true);
    auto link = VethLink::Create(config, memory_->pool());
    EXPECT_TRUE(link.ok()) << link.status();
    return link.ok() ? *std::move(link) : nullptr;
  }
  // A program's, as net_mmsg makes them. Not by a queue: that of a new device drops for a while.
  static UniqueFd Socket(const std::string& device) {
    UniqueFd socket(::socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK, 0));
    const int on = 1;
    EXPECT_EQ(setsockopt(socket.get(), SOL_PACKET, PACKET_QDISC_BYPASS, &on, sizeof(on)), 0);
    sockaddr_ll address{};
    address.sll_family = AF_PACKET;
    address.sll_protocol = htons(ETH_P_ALL);
    address.sll_ifindex = static_cast<int>(if_nametoindex(device.c_str()));
    EXPECT_EQ(bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    return socket;
  }
  static void Find(VethLink& link, unsigned end) {
    auto found = link.Find(getpid(), end);
    ASSERT_TRUE(found.ok()) << found.status();
    ASSERT_NE(*found, nullptr);
    link.Take(*std::move(found));
  }
  // In bursts, as long as there is room.
  std::uint32_t Fill(LinkEnd& end, std::size_t bytes) {
    const std::vector<std::uint8_t> frame(bytes, 0x5a);
    std::uint32_t sent = 0;
    while (end.Room() > 0) {
      std::array<rte_mbuf*, kBurst> burst;
      for (rte_mbuf*& packet : burst) packet = Packet(frame);
      const std::uint16_t went = end.Send(burst.data(), kBurst);
      rte_pktmbuf_free_bulk(burst.data() + went, kBurst - went);
      sent += went;
    }
    return sent;
  }
  static void Send(const UniqueFd& socket, std::uint32_t count, std::size_t bytes = 60) {
    const std::vector<std::uint8_t> frame(bytes, 0x5a);
    for (std::uint32_t i = 0; i < count; ++i)
      ASSERT_EQ(write(socket.get(), frame.data(), bytes), static_cast<ssize_t>(bytes));
  }
  static std::uint32_t Receive(const UniqueFd& socket, std::uint32_t most) {
    std::array<std::uint8_t, 2048> frame;
    std::uint32_t received = 0;
    while (received < most && read(socket.get(), frame.data(), frame.size()) > 0) ++received;
    return received;
  }
  static std::uint32_t Waiting(VethLink& link, unsigned direction) {
    link.Look(direction);
    return link.occupancy(direction).Packets();
  }

  // As many wait, and no fewer to come: the kernel may deliver late.
  static bool Wait(VethLink& link, unsigned direction, std::uint32_t packets) {
    return Eventually([&] { return Waiting(link, direction) == packets; });
  }

  const std::string near_ = fmt::format("us{}a", getpid()), far_ = fmt::format("us{}b", getpid());
};

TEST_F(PacketSocketTest, CountsWhatWasPutAndWhatWasTaken) {
  const auto link = Make(false);
  ASSERT_NE(link, nullptr);
  const UniqueFd near = Socket(near_), far = Socket(far_);
  EXPECT_FALSE(link->occupancy(1).readable());
  Find(*link, 0);
  Find(*link, 1);
  LinkProgress there(link->occupancy(1)), back(link->occupancy(0));
  for (std::uint32_t round = 1; round <= 50; ++round) {
    Send(near, 100);
    ASSERT_TRUE(Wait(*link, 1, 100));
    there.Sample();
    ASSERT_EQ(there.sent(), round * 100);
    ASSERT_EQ(there.received(), (round - 1) * 100);
    ASSERT_EQ(Receive(far, 64), 64U);
    ASSERT_EQ(Waiting(*link, 1), 36U);
    there.Sample();
    ASSERT_EQ(there.received(), (round - 1) * 100 + 64);
    ASSERT_EQ(Receive(far, 1000), 36U);
    Send(far, 7);
    std::uint32_t received = 0;  // they come and go between two looks
    ASSERT_TRUE(Eventually([&] { return (received += Receive(near, 1000)) == 7; }));
    ASSERT_EQ(Waiting(*link, 0) + Waiting(*link, 1), 0U);
    there.Sample();
    back.Sample();
  }
  EXPECT_EQ(there.received(), 5000U);
  EXPECT_EQ(back.sent(), 350U);
  EXPECT_EQ(back.received(), 350U);
  EXPECT_EQ(link->Dropped(0) + link->Dropped(1), 0U);
}

// Frames of all lengths: it is full when the kernel drops, and what was taken is never overrated.
TEST_F(PacketSocketTest, AFullBufferIsFullWhateverIsInIt) {
  const auto link = Make(false);
  const UniqueFd near = Socket(near_), far = Socket(far_);
  Find(*link, 1);
  const std::uint32_t capacity = link->occupancy(1).capacity();
  LinkProgress there(link->occupancy(1));
  std::uint64_t put = 0, received = 0, dropped = 0;
  for (const std::size_t bytes : {60UL, 200UL, 700UL, 1514UL, 60UL}) {
    Send(near, 400, bytes);
    put += 400;
    EXPECT_TRUE(Eventually([&] {
      link->Look(1);
      there.Sample();
      dropped = link->Dropped(1);
      return there.sent() + dropped == put;
    })) << bytes;
    EXPECT_EQ(Waiting(*link, 1), capacity) << bytes;
    const std::uint32_t some = Receive(far, 40);
    EXPECT_LT(Waiting(*link, 1), capacity) << bytes;
    there.Sample();
    EXPECT_LE(there.received(), received + some);
    received += some + Receive(far, 1000);
    EXPECT_EQ(Waiting(*link, 1), 0U);
    there.Sample();
    EXPECT_EQ(there.received(), received);
    EXPECT_EQ(received + dropped, put) << "the account closes";
  }
}

TEST_F(PacketSocketTest, TheEngineSendsNoMoreThanThereIsRoomFor) {
  const auto link = Make(true);
  ASSERT_NE(link, nullptr);
  EXPECT_EQ(link->end()->Room(), 0U) << "nobody would receive it";
  const UniqueFd far = Socket(far_);
  Find(*link, 1);
  for (const std::size_t bytes : {60UL, 700UL, 1514UL, 60UL}) {
    const std::uint32_t sent = Fill(*link->end(), bytes);
    EXPECT_GT(sent, 50U);
    EXPECT_EQ(Waiting(*link, 1), link->occupancy(1).capacity());
    EXPECT_EQ(Receive(far, 1), 1U);
    EXPECT_EQ(Fill(*link->end(), bytes), 1U) << bytes;
    EXPECT_EQ(Receive(far, 2000), sent);
  }
  EXPECT_EQ(link->Dropped(1), 0U);
  Send(far, 5);
  EXPECT_TRUE(Wait(*link, 0, 5)) << "the engine's own end has rings";
  std::array<rte_mbuf*, kBurst> packets;
  ASSERT_EQ(link->end()->Receive(packets.data(), kBurst), 5);
  rte_pktmbuf_free_bulk(packets.data(), 5);
}

TEST_F(PacketSocketTest, DropsAreToldOnceAlsoOfASocketThatIsGone) {
  const auto link = Make(false);
  const UniqueFd near = Socket(near_);
  UniqueFd far = Socket(far_);
  Send(near, 300);  // before it is found
  Find(*link, 1);
  std::uint64_t dropped = 0;
  EXPECT_TRUE(Eventually([&] {
    dropped = link->Dropped(1);
    return dropped + Waiting(*link, 1) == 300;
  }));
  EXPECT_EQ(link->Dropped(1), dropped);
  const auto again = link->Find(getpid(), 1);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(*again, nullptr) << "it is found already";
  Send(near, 10);
  EXPECT_TRUE(Eventually([&] { return link->Dropped(1) == dropped + 10; }));
  link->Forget(1);
  link->DropReplaced();
  EXPECT_FALSE(link->occupancy(1).readable());
  EXPECT_EQ(link->Dropped(1), 310U) << "what waited there is lost too";
  far = Socket(far_);  // another one
  Find(*link, 1);
  Send(near, 20);
  EXPECT_TRUE(Wait(*link, 1, 20));
  EXPECT_EQ(link->Dropped(1), 310U);
}

TEST_F(PacketSocketTest, OfSeveralSocketsNoneIsOverrun) {
  UniqueFd first = Socket(far_), second = Socket(far_);
  auto held = FindPacketSockets(getpid(), far_, 2);
  ASSERT_TRUE(held.ok()) << held.status();
  EXPECT_EQ(FindPacketSockets(getpid(), far_, 1).status().code(), absl::StatusCode::kNotFound);
  FollowedSockets both(*std::move(held));
  const UniqueFd near = Socket(near_);
  Send(near, 100);  // each gets all: they are no group
  EXPECT_TRUE(Eventually([&] {
    both.Look();
    return both.occupancy().Packets() == 200;
  }));
  EXPECT_EQ(Receive(first, 1000), 100U);
  both.Look();
  EXPECT_EQ(both.occupancy().Packets(), 100U);
  EXPECT_EQ(both.occupancy().Sent(), 200U);
  EXPECT_EQ(both.occupancy().Received(), 100U);
  const std::uint32_t room = both.Room(1000, 0);
  EXPECT_EQ(Receive(second, 1000), 100U);
  EXPECT_LT(room, both.Room(1000, 0)) << "the fuller one counts";
}

// What goes away when one waits is NotFound, and all else stays what it is.
TEST_F(PacketSocketTest, WhySocketsCannotBeFoundIsSaid) {
  const UniqueFd socket = Socket(far_);
  const auto held = FindPacketSockets(getpid(), far_, 1);
  ASSERT_TRUE(held.ok()) << held.status();
  const ino_t inode = held->front().inode;
  const auto both = [&](pid_t pid, absl::StatusCode code) {
    return FindPacketSockets(pid, far_, 1).status().code() == code &&
           FindSocket(pid, AF_PACKET, inode).status().code() == code;
  };
  const pid_t parent = getpid();
  const auto code_in_child = [&](const std::function<bool()>& holds) {
    const pid_t pid = fork();
    if (pid == 0) _exit(holds() ? 0 : 1);
    int status = 0;
    waitpid(pid, &status, 0);
    EXPECT_TRUE(both(pid, absl::StatusCode::kNotFound)) << "it has ended";
    EXPECT_EQ(NetworkDevices::Of(pid).status().code(), absl::StatusCode::kNotFound);
    return WEXITSTATUS(status);
  };
  EXPECT_EQ(code_in_child([&] {
              return setuid(65534) == 0 && both(parent, absl::StatusCode::kPermissionDenied);
            }),
            0);
  // No descriptor is left for the process; for its list of files; for the duplicate.
  for (const int left : {0, 1, 2})
    EXPECT_EQ(code_in_child([&] {
                const rlimit few{64, 64};
                if (setrlimit(RLIMIT_NOFILE, &few) != 0) return false;
                std::vector<int> taken;
                for (int copy; (copy = dup(0)) >= 0;) taken.push_back(copy);
                for (int i = 0; i < left; ++i) close(taken[taken.size() - 1 - i]);
                return both(parent, absl::StatusCode::kResourceExhausted);
              }),
              0)
        << left;
}

}  // namespace
}  // namespace unis
