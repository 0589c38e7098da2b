// The driver and its device: starting and stopping, link, waiting, queues, settings, arguments.
#include <atomic>
#include <fstream>
#include <set>

#include "net_mmsg/port_for_test.h"

namespace unis {
namespace {

TEST_F(NetMmsgTest, WhatAStoppedPortIsSentIsNotThereWhenItStarts) {
  const UniqueFd far = Raw("far");
  const std::size_t files = OpenFiles();
  {
    const Port port("iface=near", pool_.get());
    for (int i = 0; i < 5; ++i) {
      Put(far, Frame(60), 3);
      EXPECT_EQ(port.Receive().size(), 3U);
      EXPECT_TRUE(port.LinkUp());
      Put(far, Frame(60), 3);
      ASSERT_EQ(rte_eth_dev_stop(port.id()), 0);
      EXPECT_FALSE(port.LinkUp());
      Put(far, Frame(60), 3);
      ASSERT_EQ(rte_eth_dev_start(port.id()), 0);
      EXPECT_EQ(port.Receive().size(), 0U);
    }
    EXPECT_EQ(port.Stats().ipackets, 15U);
    // Afresh, with other queues: counters go on.
    ASSERT_EQ(rte_eth_dev_stop(port.id()), 0);
    const rte_eth_conf conf{};
    ASSERT_EQ(rte_eth_dev_configure(port.id(), 1, 1, &conf), 0);
    ASSERT_EQ(rte_eth_rx_queue_setup(port.id(), 0, 64, 0, nullptr, pool_.get()), 0);
    ASSERT_EQ(rte_eth_tx_queue_setup(port.id(), 0, 64, 0, nullptr), 0);
    ASSERT_EQ(rte_eth_dev_start(port.id()), 0);
    Put(far, Frame(60));
    EXPECT_EQ(port.Receive().size(), 1U);
    EXPECT_EQ(port.Stats().ipackets, 16U);
  }
  EXPECT_EQ(OpenFiles(), files);
}

TEST_F(NetMmsgTest, TheLinkIsTheDevices) {
  const Port port("iface=near", pool_.get());
  EXPECT_TRUE(port.LinkUp());
  ASSERT_TRUE(Shell("ip link set far down"));
  EXPECT_TRUE(Eventually([&] { return !port.LinkUp(); })) << "there is no carrier";
  ASSERT_TRUE(Shell("ip link set far up"));
  EXPECT_TRUE(Eventually([&] { return port.LinkUp(); }));
  ASSERT_TRUE(Shell("ip link set near down"));
  EXPECT_FALSE(port.LinkUp());
  std::vector<rte_mbuf*> burst = Packets(2);
  EXPECT_EQ(rte_eth_tx_burst(port.id(), 0, burst.data(), 2), 0) << "they stay the program's";
  EXPECT_EQ(port.Receive().size(), 0U);
  ASSERT_TRUE(Shell("ip link set near up"));
  EXPECT_TRUE(Eventually([&] { return port.LinkUp(); }));
  EXPECT_EQ(rte_eth_tx_burst(port.id(), 0, burst.data(), 2), 2);
  const UniqueFd far = Raw("far");
  Put(far, Frame(60, 9));
  EXPECT_EQ(port.Receive(), std::vector<Bytes>{Frame(60, 9)});
}

TEST_F(NetMmsgTest, ADeviceThatGoesAwayWhileItIsPolledTakesTheLinkDown) {
  for (const char* more : {"", ",wait=1", ",calls=single"}) {
    const Port port(fmt::format("iface=near{}", more), pool_.get());
    ASSERT_TRUE(port.opened() && port.LinkUp());
    std::atomic<bool> stop = false;
    std::atomic<std::uint64_t> polls = 0;
    std::thread poller([&] {
      while (!stop) {
        (void)port.Receive();
        (void)port.Send(Packets(4));
        ++polls;
      }
    });
    const auto polled = [&] {
      const std::uint64_t before = polls;
      return Eventually([&] { return polls > before + 5; });
    };
    EXPECT_TRUE(polled());
    EXPECT_TRUE(Shell("ip link delete near"));
    EXPECT_TRUE(polled());
    EXPECT_FALSE(port.LinkUp());
    // A namesake is another one.
    EXPECT_TRUE(
        Shell("ip link add dev near type veth peer name far; ip link set near up;"
              "ip link set far up"));
    EXPECT_FALSE(port.LinkUp());
    EXPECT_TRUE(polled());
    stop = true;
    poller.join();
  }
}

TEST_F(NetMmsgTest, APortThatWaitsIsWokenByWhatComes) {
  const UniqueFd far = Raw("far");
  for (const char* kind : {"vector", "single"}) {
    const Port port(fmt::format("iface=near,wait=1,calls={}", kind), pool_.get());
    ASSERT_TRUE(port.opened());
    calls = {};
    EXPECT_EQ(port.Receive().size(), 0U) << "it has waited long enough";
    EXPECT_EQ(calls.blocking, 1U);
    EXPECT_EQ(calls.all(), 1U);
    Put(far, Frame(60), 3);
    EXPECT_EQ(port.Receive().size(), 3U) << "it waits for no more than one";
    std::uint64_t woken = 0;
    for (int i = 0; i < 20 && woken == 0; ++i) {  // the burst may end before anything comes
      is_blocking = false;
      std::thread sender([&] {
        while (!is_blocking) std::this_thread::yield();
        Put(far, Frame(60, 7));
      });
      woken = port.Receive().size();
      sender.join();
      (void)port.ReceiveAll();
    }
    EXPECT_EQ(woken, 1U);
  }
}

// Else those of the second would wait while the thread waits at the first.
TEST_F(NetMmsgTest, AThreadOfSeveralPortsWaitsAtAllOfThem) {
  const Port near("iface=near,wait=1", pool_.get()), far("iface=far,wait=1", pool_.get());
  ASSERT_TRUE(near.opened() && far.opened());
  std::thread([&] {
    (void)near.Receive();  // the first one waits: there is no other yet
    (void)far.Receive();
    (void)near.ReceiveAll();
    calls = {};
    for (int i = 0; i < 10; ++i) {
      EXPECT_EQ(near.Receive().size(), 0U);
      EXPECT_EQ(near.Send(Packets(4)), 4);
      EXPECT_EQ(far.Receive().size(), 4U);
    }
    EXPECT_EQ(calls.blocking, 0U) << "there was always something";
    calls = {};
    for (int i = 0; i < 4; ++i) EXPECT_EQ(near.Receive().size() + far.Receive().size(), 0U);
    EXPECT_EQ(calls.polls, 4U);
    EXPECT_EQ(calls.blocking, calls.polls);
  }).join();
}

TEST_F(NetMmsgTest, QueuesShareWhatComesAndEachFrameComesOnce) {
  const Port port("iface=near,qpairs=2", pool_.get(), 2);
  ASSERT_TRUE(port.opened());
  const UniqueFd far = Raw("far");
  std::set<Bytes> sent;
  for (std::uint16_t flow = 0; flow < 64; ++flow) {
    Bytes frame = Frame(60, flow);
    frame[12] = 0x08;  // IPv4
    frame[13] = 0x00;
    const std::array<std::uint8_t, 20> header{0x45, 0, 0,  46, 0, 0, 0,  0, 64, 17,
                                              0,    0, 10, 0,  0, 1, 10, 0, 0,  2};
    std::copy(header.begin(), header.end(), frame.begin() + 14);
    frame[34] = static_cast<std::uint8_t>(flow);
    Put(far, frame);
    sent.insert(frame);
  }
  const auto first = port.Receive(), second = port.Receive(512, 1);
  const auto more = port.Receive(), last = port.Receive(512, 1);
  EXPECT_GT(first.size(), 0U);
  EXPECT_GT(second.size(), 0U);
  std::set<Bytes> received;
  for (const auto* burst : {&first, &second, &more, &last})
    received.insert(burst->begin(), burst->end());
  EXPECT_EQ(first.size() + second.size() + more.size() + last.size(), 64U);
  EXPECT_EQ(received, sent);
}

TEST_F(NetMmsgTest, SettingsAreTheDevicesAndModesGoWithThePort) {
  const auto shown = [](const std::string& words) {
    return OutputOf("ip -d link show near").find(words) != std::string::npos;
  };
  {
    const Port port("iface=near", pool_.get());
    std::uint16_t mtu = 0;
    EXPECT_EQ(rte_eth_dev_get_mtu(port.id(), &mtu), 0);
    EXPECT_EQ(mtu, 1500);
    EXPECT_EQ(rte_eth_dev_set_mtu(port.id(), 1400), 0);
    EXPECT_TRUE(shown("mtu 1400"));
    EXPECT_EQ(port.Send({Packet(Frame(1415)), Packet(Frame(1414))}), 2);
    EXPECT_EQ(port.Stats().oerrors, 1U);
    rte_ether_addr mac{{2, 0, 0, 0, 0, 9}};
    EXPECT_EQ(rte_eth_dev_default_mac_addr_set(port.id(), &mac), 0);
    EXPECT_TRUE(shown("02:00:00:00:00:09"));
    for (int i = 0; i < 2; ++i) {
      EXPECT_EQ(rte_eth_promiscuous_enable(port.id()), 0);
      EXPECT_TRUE(shown("promiscuity 1"));
      EXPECT_EQ(rte_eth_allmulticast_enable(port.id()), 0);
      EXPECT_TRUE(shown("allmulti 1"));
      ASSERT_EQ(rte_eth_dev_stop(port.id()), 0);
      ASSERT_EQ(rte_eth_dev_start(port.id()), 0);  // sets the modes again
      if (i == 1) break;
      EXPECT_EQ(rte_eth_promiscuous_disable(port.id()), 0);
      EXPECT_TRUE(shown("promiscuity 0"));
      EXPECT_EQ(rte_eth_allmulticast_disable(port.id()), 0);
      EXPECT_TRUE(shown("allmulti 0"));
    }
    EXPECT_EQ(rte_eth_promiscuous_enable(port.id()), 0);
  }
  EXPECT_TRUE(shown("promiscuity 0"));
}

// Protocol ETH_P_ALL without a device would be every device.
TEST_F(NetMmsgTest, ItHasNoSocketThatReceivesFromAllDevices) {
  const Port port("iface=near", pool_.get());
  std::ifstream table("/proc/thread-self/net/packet");
  std::string line;
  std::getline(table, line);
  unsigned bound = 0, others = 0;
  while (std::getline(table, line)) {
    unsigned type = 0, protocol = 0, device = 0;
    ASSERT_EQ(std::sscanf(line.c_str(), "%*s %*d %u %x %u", &type, &protocol, &device), 3) << line;
    if (device == if_nametoindex("near")) ++bound;
    if (device == 0 && protocol != 0) ++others;
  }
  EXPECT_EQ(bound, 1U);
  EXPECT_EQ(others, 0U);
}

TEST_F(NetMmsgTest, SaysWhatIsWrongWithItsArguments) {
  const std::size_t files = OpenFiles();
  ASSERT_TRUE(
      Shell("ip link add dev tun0 type ipip local 127.0.0.1 remote 127.0.0.2 2>/dev/null ||"
            "ip tuntap add dev tun0 mode tun"));
  const std::vector<std::pair<std::string, std::string>> cases{
      {"iface=nowhere", "there is no network device nowhere in this network namespace"},
      {"iface=near,batch=0", "batch=0 must be a number from 1 to 256"},
      {"iface=near,batch=257", "batch=257 must be a number from 1 to 256"},
      {"iface=near,batch=-1", "batch=-1 must be a number from 1 to 256"},
      {"iface=near,batch=8x", "batch=8x must be a number"},
      {"iface=near,batch=99999999999999999999", "must be a number from 1 to 256"},
      {"iface=near,batch=", "batch= must be a number"},
      {"iface=near,qpairs=17", "qpairs=17 must be a number from 1 to 16"},
      {"iface=near,wait=2", "wait=2 must be a number from 0 to 1"},
      {"iface=near,rcvbuf=0", "rcvbuf=0 must be a number"},
      {"iface=near,calls=many", "calls=many must be vector or single"},
      {"iface=near,colour=red", "there are iface=, batch="},
      {"batch=8", "the device needs iface=NAME"},
      {"iface=", "must be the name of a network device"},
      {"iface=a-name-of-more-than-15-bytes", "must be the name of a network device"},
      {"iface=tun0", "tun0 is no Ethernet device"},
  };
  for (const auto& [arguments, sentence] : cases) {
    const std::string said = Refused(arguments);
    EXPECT_NE(said.find(sentence), std::string::npos) << arguments << ": " << said;
  }
  EXPECT_EQ(OpenFiles(), files);
  (void)Shell("ip link delete tun0");
}

}  // namespace
}  // namespace unis
