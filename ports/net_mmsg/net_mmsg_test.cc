// The driver as a program meets it: a shared object given to EAL by -d, and ordinary ethdev calls.
// Here what bursts do.
#include <fcntl.h>
#include <linux/if_tun.h>
#include <sys/ioctl.h>

#include <cerrno>
#include <cstring>

#include "net_mmsg/port_for_test.h"

namespace unis {
namespace {

TEST_F(NetMmsgTest, BurstsCarryTheSameBytesBothWays) {
  const Port near("iface=near", pool_.get()), far("iface=far,batch=256", pool_.get());
  ASSERT_TRUE(near.opened() && far.opened());
  std::uint64_t packets = 0, bytes = 0;
  for (const auto& [from, to] : {std::pair{&near, &far}, std::pair{&far, &near}}) {
    for (int round = 0; round < 50; ++round) {
      std::vector<Bytes> frames;
      std::vector<rte_mbuf*> burst;
      for (std::uint16_t i = 0; i < 1 + round % 32; ++i) {
        frames.push_back(Frame(20 + (round * 131 + i * 97) % 1495, i));
        burst.push_back(Packet(frames.back()));
        if (from == &near) packets += 1, bytes += frames.back().size();
      }
      ASSERT_EQ(from->Send(burst), burst.size());
      ASSERT_EQ(to->Receive(), frames);
      ASSERT_EQ(from->Receive().size(), 0U) << "it receives what it has sent";
    }
  }
  EXPECT_EQ(near.Stats().opackets, packets);
  EXPECT_EQ(near.Stats().obytes, bytes);
  EXPECT_EQ(far.Stats().ipackets, packets);
  EXPECT_EQ(far.Stats().ibytes, bytes);
  EXPECT_EQ(far.Stats().q_ipackets[0], packets);
  EXPECT_EQ(far.Stats().imissed + far.Stats().ierrors + near.Stats().oerrors, 0U);
}

// Many programs drop what a send burst left.
TEST_F(NetMmsgTest, ASystemCallIsOfNoMoreThanTheBatch) {
  for (const std::uint16_t batch : {1, 8, 256}) {
    const Port near(fmt::format("iface=near,batch={}", batch), pool_.get());
    const Port far(fmt::format("iface=far,batch={},rcvbuf=2000000", batch), pool_.get());
    ASSERT_TRUE(near.opened() && far.opened());
    const unsigned needed = (300 + batch - 1) / batch;
    calls = {};
    ASSERT_EQ(near.Send(Packets(300)), 300);
    EXPECT_EQ(calls.vector, needed);
    ASSERT_EQ(far.Receive(300).size(), batch);
    EXPECT_EQ(calls.vector, needed + 1) << "a receive burst is one";
    EXPECT_EQ(far.ReceiveAll().size(), 300U - batch);
    EXPECT_EQ(near.Stats().opackets, 300U);
    EXPECT_EQ(near.Stats().oerrors, 0U);
  }
}

TEST_F(NetMmsgTest, ABurstIsOneSystemCall) {
  const Port near("iface=near,batch=64", pool_.get()), far("iface=far,batch=64", pool_.get());
  ASSERT_TRUE(near.opened() && far.opened());
  std::vector<rte_mbuf*> burst = Packets(63);
  burst.insert(burst.begin() + 20, Packet(Frame(1600)));
  calls = {};
  ASSERT_EQ(near.Send(burst), 64);
  EXPECT_EQ(calls.vector, 1U);
  EXPECT_EQ(calls.all(), 1U);
  calls = {};
  EXPECT_EQ(far.Receive().size(), 63U);
  EXPECT_EQ(calls.vector, 1U);
  EXPECT_EQ(far.Receive().size(), 0U);
  EXPECT_EQ(calls.all(), 2U);
  EXPECT_EQ(calls.blocking, 0U);
  EXPECT_EQ(near.Send({}), 0);
  EXPECT_EQ(near.Send({Packet(Frame(1600))}), 1);
  EXPECT_EQ(calls.all(), 2U) << "there is nothing to send";
}

TEST_F(NetMmsgTest, SingleCallsAreOneAFrame) {
  const Port near("iface=near,calls=single", pool_.get());
  const Port far("iface=far,calls=single", pool_.get());
  ASSERT_TRUE(near.opened() && far.opened());
  std::vector<rte_mbuf*> burst = Packets(10, 100);
  burst.insert(burst.begin() + 3, Packet(Frame(1600)));
  calls = {};
  ASSERT_EQ(near.Send(burst), 11);
  EXPECT_EQ(calls.single, 10U);
  const std::vector<Bytes> received = far.Receive();
  EXPECT_EQ(calls.single, 10U + 11) << "the last one finds nothing";
  EXPECT_EQ(calls.vector + calls.polls + calls.blocking, 0U);
  ASSERT_EQ(received.size(), 10U);
  for (std::uint16_t i = 0; i < 10; ++i) EXPECT_EQ(received[i], Frame(100, i));
  EXPECT_EQ(near.Stats().oerrors, 1U);
}

TEST_F(NetMmsgTest, WhatTheSocketHasNoRoomForIsMissed) {
  const Port near("iface=near", pool_.get());
  const Port far("iface=far,rcvbuf=50000", pool_.get());
  ASSERT_TRUE(near.opened() && far.opened());
  for (std::uint64_t round = 1; round <= 3; ++round) {
    for (int i = 0; i < 20; ++i) ASSERT_EQ(near.Send(Packets(32)), 32);
    const std::uint64_t missed = far.Stats().imissed;
    EXPECT_EQ(far.Stats().imissed, missed) << "reading counts from 0";
    EXPECT_GT(missed, 0U);
    (void)far.ReceiveAll();
    EXPECT_EQ(far.Stats().ipackets + far.Stats().imissed, round * 640);
  }
  std::uint64_t missed = far.Stats().imissed;
  for (int i = 0; i < 20; ++i) ASSERT_EQ(near.Send(Packets(32)), 32);
  ASSERT_EQ(rte_eth_dev_stop(far.id()), 0);
  EXPECT_GT(far.Stats().imissed, missed) << "of the socket that was closed";
  missed = far.Stats().imissed;
  ASSERT_EQ(rte_eth_dev_start(far.id()), 0);
  EXPECT_EQ(far.Stats().imissed, missed);
  ASSERT_EQ(rte_eth_stats_reset(far.id()), 0);
  EXPECT_EQ(far.Stats().imissed + far.Stats().ipackets + far.Stats().ibytes, 0U);
  for (int i = 0; i < 20; ++i) ASSERT_EQ(near.Send(Packets(32)), 32);
  (void)far.ReceiveAll();
  EXPECT_EQ(far.Stats().ipackets + far.Stats().imissed, 640U);
  EXPECT_EQ(near.Stats().opackets, 5 * 640U);
}

TEST_F(NetMmsgTest, WhatOthersSendByTheDeviceIsNotReceived) {
  const Port near("iface=near", pool_.get()), far("iface=far", pool_.get());
  const UniqueFd other = Raw("near", true);
  EXPECT_TRUE(Eventually([&] {
    Put(other, Frame(60));
    return !far.Receive().empty();
  }));
  EXPECT_EQ(near.Receive().size(), 0U);
}

// Whoever reads PACKET_STATISTICS by a descriptor of its own takes nothing from the program.
TEST_F(NetMmsgTest, DropsAreCountedAlsoWhereSomebodyElseTakesTheKernelsCount) {
  const Port near("iface=near", pool_.get()), far("iface=far,rcvbuf=50000", pool_.get());
  ASSERT_TRUE(near.opened() && far.opened());
  for (int i = 0; i < 20; ++i) ASSERT_EQ(near.Send(Packets(32)), 32);
  unsigned taken = 0;
  for (int descriptor = 3; descriptor < 256; ++descriptor) {
    tpacket_stats counted{};
    socklen_t bytes = sizeof(counted);
    if (getsockopt(descriptor, SOL_PACKET, PACKET_STATISTICS, &counted, &bytes) == 0)
      taken += counted.tp_drops;
  }
  EXPECT_GT(taken, 0U);
  EXPECT_EQ(far.Stats().imissed, taken);
}

// The queue is a tap's, which nobody empties.
TEST_F(NetMmsgTest, WhatADeviceHasNoRoomForStaysTheProgramsAndGoesLater) {
  const UniqueFd tap(open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC));
  ifreq request{};
  std::strcpy(request.ifr_name, "tap");
  request.ifr_flags = IFF_TAP | IFF_NO_PI;
  ASSERT_EQ(ioctl(tap.get(), TUNSETIFF, &request), 0) << strerror(errno);
  ASSERT_TRUE(
      Shell("echo 1 2>/dev/null >/proc/sys/net/ipv6/conf/tap/disable_ipv6;"
            "ip link set tap txqueuelen 100 arp off multicast off up"));
  for (const char* kind : {"vector", "single"}) {
    const Port port(fmt::format("iface=tap,calls={}", kind), pool_.get());
    ASSERT_TRUE(port.opened());
    std::array<std::uint8_t, 2048> frame;
    while (read(tap.get(), frame.data(), frame.size()) > 0) {
    }
    std::uint16_t number = 0;
    std::vector<rte_mbuf*> burst;
    for (std::uint16_t went = 1; went > 0; number += went) {
      burst.clear();
      for (std::uint16_t i = 0; i < 32; ++i) burst.push_back(Packet(Frame(60, number + i)));
      went = rte_eth_tx_burst(port.id(), 0, burst.data(), 32);
      for (std::size_t i = went; i < 32; ++i) rte_pktmbuf_free(burst[i]);
    }
    EXPECT_EQ(port.Stats().opackets, number);
    EXPECT_EQ(port.Stats().oerrors, 0U);
    std::uint16_t read_number = 0;
    for (; read(tap.get(), frame.data(), frame.size()) > 0; ++read_number)
      ASSERT_EQ(frame[14] | frame[15] << 8, read_number) << "one is missing, or out of order";
    EXPECT_EQ(read_number, number);
    EXPECT_EQ(port.Send(Packets(32)), 32);
  }
}

TEST_F(NetMmsgTest, AVlanTagIsInThePacketOrBesideIt) {
  const UniqueFd far = Raw("far");
  for (const std::uint16_t type : {0x8100, 0x88a8}) {
    const Port port("iface=near", pool_.get());
    Put(far, Tagged(100, type));
    Put(far, Frame(100));
    std::array<rte_mbuf*, 2> packets;
    ASSERT_EQ(rte_eth_rx_burst(port.id(), 0, packets.data(), 2), 2);
    EXPECT_NE(packets[0]->ol_flags & RTE_MBUF_F_RX_VLAN, 0U);
    EXPECT_EQ(packets[0]->ol_flags & RTE_MBUF_F_RX_VLAN_STRIPPED, 0U);
    EXPECT_EQ(packets[0]->vlan_tci, 0x2007);
    EXPECT_EQ(packets[1]->ol_flags, 0U);
    const auto* data = rte_pktmbuf_mtod(packets[0], const std::uint8_t*);
    EXPECT_EQ(Bytes(data, data + packets[0]->pkt_len), Tagged(100, type));
    EXPECT_EQ(port.Stats().ibytes, 200U);
    rte_pktmbuf_free_bulk(packets.data(), 2);
  }
  const Port port("iface=near", pool_.get(), 1, RTE_ETH_RX_OFFLOAD_VLAN_STRIP);
  rte_mbuf* packet = nullptr;
  for (const bool strips : {true, false}) {
    ASSERT_EQ(rte_eth_dev_set_vlan_offload(port.id(), strips ? RTE_ETH_VLAN_STRIP_OFFLOAD : 0), 0);
    Put(far, Tagged(100));
    ASSERT_EQ(rte_eth_rx_burst(port.id(), 0, &packet, 1), 1);
    EXPECT_EQ((packet->ol_flags & RTE_MBUF_F_RX_VLAN_STRIPPED) != 0, strips);
    EXPECT_EQ(packet->vlan_tci, 0x2007);
    EXPECT_EQ(packet->pkt_len, strips ? 96U : 100U);
    rte_pktmbuf_free(packet);
  }
}

TEST_F(NetMmsgTest, WhereTheTagCannotBeToldAFrameThatHadOneIsAnError) {
  const UniqueFd far = Raw("far");
  const Port port("iface=near,calls=single", pool_.get());
  Put(far, Frame(100, 1));
  Put(far, Tagged(100));
  Put(far, Frame(100, 2));
  EXPECT_EQ(port.Receive(), (std::vector<Bytes>{Frame(100, 1), Frame(100, 2)}));
  EXPECT_EQ(port.Stats().ierrors, 1U);
}

TEST_F(NetMmsgTest, AFrameThatCannotBeSentIsAnErrorAndTheOthersGo) {
  const Port near("iface=near", pool_.get()), far("iface=far", pool_.get());
  ASSERT_TRUE(near.opened() && far.opened());
  const std::vector<Bytes> frames{Frame(1515),  Frame(1514, 1), Bytes(13),   Frame(60, 2),
                                  Frame(60, 3), Tagged(1518),   Tagged(1519)};
  std::vector<rte_mbuf*> burst;
  for (const Bytes& frame : frames) burst.push_back(Packet(frame));
  EXPECT_EQ(near.Send(burst), frames.size());
  EXPECT_EQ(far.Receive(),
            (std::vector<Bytes>{Frame(1514, 1), Frame(60, 2), Frame(60, 3), Tagged(1518)}));
  EXPECT_EQ(near.Stats().opackets, 4U);
  EXPECT_EQ(near.Stats().oerrors, 3U);
}

// Somebody made the device's MTU smaller: then it is the kernel that refuses a frame.
TEST_F(NetMmsgTest, AFrameThatTheKernelRefusesKeepsNoOtherWaiting) {
  const Port near("iface=near", pool_.get()), far("iface=far", pool_.get());
  ASSERT_TRUE(near.opened() && far.opened());
  ASSERT_TRUE(Shell("ip link set near mtu 1000"));
  std::vector<rte_mbuf*> burst{Packet(Frame(60, 1)), Packet(Frame(1200)), Packet(Frame(60, 2))};
  ASSERT_EQ(rte_eth_tx_burst(near.id(), 0, burst.data(), 3), 1);
  ASSERT_EQ(rte_eth_tx_burst(near.id(), 0, burst.data() + 1, 2), 1);
  ASSERT_EQ(rte_eth_tx_burst(near.id(), 0, burst.data() + 2, 1), 1);
  EXPECT_EQ(far.Receive(), (std::vector<Bytes>{Frame(60, 1), Frame(60, 2)}));
  EXPECT_EQ(near.Stats().oerrors, 1U);
  EXPECT_EQ(near.Stats().opackets, 2U);
}

TEST_F(NetMmsgTest, SegmentsOfAPacketAreOneFrame) {
  for (const char* kind : {"vector", "single"}) {
    const Port near(fmt::format("iface=near,calls={}", kind), pool_.get());
    const Port far("iface=far", pool_.get());
    ASSERT_TRUE(near.opened() && far.opened());
    const Bytes whole = Frame(900, 5);
    std::vector<rte_mbuf*> burst;
    for (int i = 0; i < 32; ++i) {  // each of 9 segments: more than the vector has room for
      rte_mbuf* packet = Packet({whole.begin(), whole.begin() + 100});
      for (int at = 100; at < 900; at += 100)
        ASSERT_EQ(rte_pktmbuf_chain(packet, Packet({whole.begin() + at, whole.begin() + at + 100})),
                  0);
      burst.push_back(packet);
    }
    EXPECT_EQ(near.Send(burst), 32);
    EXPECT_EQ(far.ReceiveAll(), std::vector<Bytes>(32, whole));
    rte_mbuf* packet = Packet(Frame(100));
    for (int i = 0; i < 70; ++i) ASSERT_EQ(rte_pktmbuf_chain(packet, Packet(Bytes(10))), 0);
    EXPECT_EQ(near.Send({packet}), 1);
    EXPECT_EQ(near.Stats().oerrors, 1U) << "of too many segments";
  }
}

TEST_F(NetMmsgTest, AFrameLongerThanThePacketBuffersIsAnError) {
  ASSERT_TRUE(Shell("ip link set far mtu 5000"));
  const UniqueFd far = Raw("far");
  for (const char* kind : {"vector", "single"}) {
    ASSERT_TRUE(Shell("ip link set near mtu 1500"));
    const Port port(fmt::format("iface=near,calls={}", kind), pool_.get());
    ASSERT_TRUE(port.opened());
    ASSERT_TRUE(Shell("ip link set near mtu 5000"));
    Put(far, Frame(4000));
    Put(far, Frame(2048, 2));
    EXPECT_EQ(port.Receive(), std::vector<Bytes>{Frame(2048, 2)});
    EXPECT_EQ(port.Stats().ierrors, 1U);
    EXPECT_EQ(rte_eth_dev_set_mtu(port.id(), 4000), -EINVAL);
  }
  EXPECT_FALSE(Port("iface=near", pool_.get()).opened()) << "its MTU is 5000";
}

TEST_F(NetMmsgTest, WithoutPacketBuffersFramesWait) {
  const Pool small(rte_pktmbuf_pool_create("small", 15, 0, 0, 2176, SOCKET_ID_ANY));
  const UniqueFd far = Raw("far");
  const Port port("iface=near", small.get());
  ASSERT_TRUE(port.opened());
  for (std::uint16_t i = 0; i < 20; ++i) Put(far, Frame(60, i));
  std::array<rte_mbuf*, 32> packets;
  ASSERT_EQ(rte_eth_rx_burst(port.id(), 0, packets.data(), 32), 15);
  EXPECT_EQ(rte_eth_rx_burst(port.id(), 0, packets.data() + 15, 32), 0);
  EXPECT_EQ(port.Stats().rx_nombuf, 2U);
  rte_pktmbuf_free_bulk(packets.data(), 15);
  const std::vector<Bytes> rest = port.Receive();
  ASSERT_EQ(rest.size(), 5U);
  for (std::uint16_t i = 0; i < 5; ++i) EXPECT_EQ(rest[i], Frame(60, 15 + i));
}

}  // namespace
}  // namespace unis
