// Links of others, whose sockets are not as UNiS makes them.
#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "engine/platform/links/kinds.h"
#include "engine/platform/links/veth_for_test.h"

namespace unis {
namespace {

// Somebody else's, of whatever length.
class ForeignVethTest : public VethTest {
 protected:
  static constexpr std::uint32_t kTheirSlots = 512, kTheirBytes = 1024;

  EthPort Theirs(const std::string& device) const {
    return Open(device,
                fmt::format("blocksz=8192,framesz={},framecnt={}", kTheirBytes, kTheirSlots));
  }
  static std::unique_ptr<VethLink> Foreign() {
    v1::LinkConfig config;
    config.set_name("link");
    config.set_kind(v1::LINK_VETH);
    config.mutable_veth()->set_queues(1);
    EXPECT_TRUE(VethKind().Check(config, true).ok());
    auto link = VethLink::Create(config, nullptr);
    EXPECT_TRUE(link.ok()) << link.status();
    return *std::move(link);
  }
  v1::PortConfig Sockets(std::uint32_t slots = kTheirSlots) const {
    v1::PortConfig config;
    auto& socket = *config.add_sockets();
    const auto held = FindPacketSockets(getpid(), far_, 1);
    EXPECT_TRUE(held.ok()) << held.status();
    socket.set_inode(held->front().inode);
    socket.set_slots(slots);
    socket.set_slot_bytes(kTheirBytes);
    socket.set_ring_bytes(std::uint64_t{2} * kTheirSlots * kTheirBytes);
    return config;
  }
};

TEST_F(ForeignVethTest, ARingOfAnyLengthIsReadAndItsPeerIsUnknown) {
  const auto tables = Tables();
  const auto link = Foreign();
  const EthPort near = Program(near_), far = Theirs(far_);
  const v1::PortConfig config = Sockets();
  auto found = link->FindNamed(getpid(), 1, config);
  ASSERT_TRUE(found.ok()) << found.status();
  link->Take(*std::move(found));
  EXPECT_EQ(Tables(), tables) << "its network namespace stays its own";
  EXPECT_EQ(link->occupancy(1).capacity(), kTheirSlots);
  EXPECT_FALSE(link->occupancy(0).readable());
  EXPECT_GT(link->occupancy(0).capacity(), 0U) << "a program sends there all the same";
  for (int round = 0; round < 50; ++round) {
    ASSERT_EQ(Send(near, 100), 100U);
    ASSERT_EQ(Waiting(*link, 1), 100U);
    ASSERT_EQ(Receive(far, 64), 64U);
    ASSERT_EQ(Waiting(*link, 1), 36U);
    ASSERT_EQ(Receive(far, kTheirSlots), 36U);
    ASSERT_EQ(Waiting(*link, 1), 0U);
  }
  EXPECT_EQ(*link->FindNamed(getpid(), 1, config), nullptr) << "it is read already";
  link->Forget(1);
  EXPECT_FALSE(link->occupancy(1).readable());
}

TEST_F(ForeignVethTest, ASocketWithoutRingsIsReadToo) {
  const auto link = Foreign();
  const EthPort near = Program(near_);
  const UniqueFd socket(::socket(AF_PACKET, SOCK_RAW, 0));
  sockaddr_ll address{};
  address.sll_family = AF_PACKET;
  address.sll_protocol = htons(ETH_P_ALL);
  address.sll_ifindex = static_cast<int>(if_nametoindex(far_.c_str()));
  ASSERT_EQ(bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  v1::PortConfig config = Sockets();
  config.mutable_sockets(0)->set_slots(0);
  auto found = link->FindNamed(getpid(), 1, config);
  ASSERT_TRUE(found.ok()) << found.status();
  link->Take(*std::move(found));
  ASSERT_EQ(Send(near, 20), 20U);
  EXPECT_GE(Waiting(*link, 1), 20U) << "by the room that they take";
  EXPECT_LT(Waiting(*link, 1), 60U);
  std::array<char, 64> frame;
  while (recv(socket.get(), frame.data(), frame.size(), MSG_DONTWAIT) > 0) continue;
  EXPECT_EQ(Waiting(*link, 1), 0U);
}

TEST_F(ForeignVethTest, WhatItDroppedIsTheProgramsToAsk) {
  const auto link = Foreign();
  const EthPort near = Program(near_), far = Theirs(far_);
  const v1::PortConfig config = Sockets();
  auto found = link->FindNamed(getpid(), 1, config);
  ASSERT_TRUE(found.ok()) << found.status();
  link->Take(*std::move(found));
  while (Waiting(*link, 1) < kTheirSlots) ASSERT_EQ(Send(near, 64), 64U);
  ASSERT_EQ(Send(near, 64), 64U);  // beyond it
  EXPECT_EQ(link->Dropped(1), 0U);
  const auto socket = FindSocket(getpid(), AF_PACKET, config.sockets(0).inode());
  ASSERT_TRUE(socket.ok()) << socket.status();
  tpacket_stats counted{};
  socklen_t bytes = sizeof(counted);
  ASSERT_EQ(getsockopt(socket->descriptor.get(), SOL_PACKET, PACKET_STATISTICS, &counted, &bytes),
            0);
  EXPECT_GE(counted.tp_drops, 64U);
}

TEST_F(ForeignVethTest, SocketsThatAreNotAsWasSaidAreRefused) {
  const auto link = Foreign();
  const EthPort far = Theirs(far_);
  for (const std::uint32_t slots : {100U, 2 * kTheirSlots + 1, 1U << 20})
    EXPECT_FALSE(link->FindNamed(getpid(), 1, Sockets(slots)).ok()) << slots;
  v1::PortConfig config = Sockets();
  config.mutable_sockets(0)->set_ring_bytes(config.sockets(0).ring_bytes() + 4096);
  EXPECT_FALSE(link->FindNamed(getpid(), 1, config).ok());
  config = Sockets();
  config.mutable_sockets(0)->set_slot_bytes(kTheirBytes - 8);
  EXPECT_FALSE(link->FindNamed(getpid(), 1, config).ok()) << "words would be astride";
  config = Sockets();
  *config.add_sockets() = config.sockets(0);
  EXPECT_TRUE(link->FindNamed(getpid(), 1, config).ok());
  config.mutable_sockets(1)->set_slots(kTheirSlots / 2);
  EXPECT_FALSE(link->FindNamed(getpid(), 1, config).ok()) << "rings of one length";
  config = Sockets();
  config.mutable_sockets(0)->set_inode(1);
  EXPECT_TRUE(absl::IsNotFound(link->FindNamed(getpid(), 1, config).status()));
  EXPECT_FALSE(link->FindNamed(getpid(), 1, {}).ok());
}

TEST_F(ForeignVethTest, SlotsOfAnotherVersionAreRefused) {
  const UniqueFd socket(::socket(AF_PACKET, SOCK_RAW, 0));
  const int version = TPACKET_V1;
  const tpacket_req request{
      .tp_block_size = 4096, .tp_block_nr = 4, .tp_frame_size = 1024, .tp_frame_nr = 16};
  ASSERT_EQ(setsockopt(socket.get(), SOL_PACKET, PACKET_VERSION, &version, sizeof(version)), 0);
  ASSERT_EQ(setsockopt(socket.get(), SOL_PACKET, PACKET_RX_RING, &request, sizeof(request)), 0);
  struct stat status {};
  ASSERT_EQ(fstat(socket.get(), &status), 0);
  v1::PortConfig config;
  auto& asked = *config.add_sockets();
  asked.set_inode(status.st_ino);
  asked.set_slots(16);
  asked.set_slot_bytes(1024);
  asked.set_ring_bytes(16 * 1024);
  const auto found = Foreign()->FindNamed(getpid(), 1, config);
  EXPECT_EQ(found.status().code(), absl::StatusCode::kInvalidArgument) << found.status();
}

}  // namespace
}  // namespace unis
