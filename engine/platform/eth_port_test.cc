#include "engine/platform/eth_port.h"

#include <gtest/gtest.h>
#include <rte_ethdev.h>
#include <unistd.h>

#include <array>
#include <string>

#include "engine/base/machine_for_test.h"
#include "engine/platform/limited_port_for_test.h"
#include "engine/platform/memory_for_test.h"

namespace unis {
namespace {

using EthPortTest = MemoryTest;

TEST_F(EthPortTest, SendsAndReceives) {
  // What goes out of a net_ring port comes in again.
  const auto port = EthPort::Open("net_ring_loop", memory_->pool());
  ASSERT_TRUE(port.ok()) << port.status();
  const std::array<std::uint8_t, 5> bytes = {1, 2, 3, 4, 5};
  std::array<rte_mbuf*, 3> sent, received{};
  for (rte_mbuf*& packet : sent) packet = Packet(bytes);
  ASSERT_EQ(port->Send(sent.data(), 3), 3);
  ASSERT_EQ(port->Receive(received.data(), 2), 2);
  ASSERT_EQ(port->Receive(received.data() + 2, 2), 1);
  EXPECT_EQ(received, sent);
  EXPECT_EQ(port->Receive(received.data(), 1), 0);
  rte_pktmbuf_free_bulk(received.data(), 3);
}

// An NF that looks for its ports must not find the platform's.
TEST_F(EthPortTest, IsOwned) {
  const auto port = EthPort::Open("net_null_owned", memory_->pool());
  ASSERT_TRUE(port.ok()) << port.status();
  EXPECT_EQ(rte_eth_dev_count_avail(), 0);
  EXPECT_EQ(rte_eth_dev_count_total(), 1);
  rte_eth_dev_owner owner;
  ASSERT_EQ(rte_eth_dev_owner_get(rte_eth_find_next(0), &owner), 0);
  EXPECT_STREQ(owner.name, "unis");
}

TEST_F(EthPortTest, OwnersDiffer) {
  const auto one = NewPortOwner(), two = NewPortOwner();
  ASSERT_TRUE(one.ok() && two.ok());
  EXPECT_NE(*one, *two);
}

TEST_F(EthPortTest, CanBeOpenedAgainAfterItWasClosed) {
  for (int i = 0; i < 3; ++i) {
    const auto port = EthPort::Open("net_null_again,size=100", memory_->pool());
    ASSERT_TRUE(port.ok()) << port.status();
    EXPECT_EQ(rte_eth_dev_count_total(), 1);
  }
  EXPECT_EQ(rte_eth_dev_count_total(), 0);
}

TEST_F(EthPortTest, MovesWithoutClosing) {
  auto port = EthPort::Open("net_null_moved", memory_->pool());
  ASSERT_TRUE(port.ok()) << port.status();
  const EthPort moved = *std::move(port);
  EXPECT_EQ(rte_eth_dev_count_total(), 1);
  rte_mbuf* packet = nullptr;
  EXPECT_EQ(moved.Receive(&packet, 1), 1);
  rte_pktmbuf_free(packet);
}

// What DMA can fill is what is posted, and what is posted is what was asked for.
TEST_F(EthPortTest, HoldsAsManyBuffersAsItHasDescriptorsToReceive) {
  // A tap of the kernel, whose driver posts buffers as that of a NIC does.
  UNIS_NEED_ROOT();
  UNIS_NEED(access("/dev/net/tun", R_OK | W_OK) == 0, "this test needs /dev/net/tun");
  for (const std::uint16_t descriptors : {64, 256, 512}) {
    const auto port = EthPort::Open("net_tap_held,iface=unis_held", memory_->pool(),
                                    {.rx = descriptors, .tx = PortQueues::kLeast});
    ASSERT_TRUE(port.ok()) << port.status();
    EXPECT_EQ(port->queues(), (PortQueues{.rx = descriptors, .tx = PortQueues::kLeast}));
    EXPECT_EQ(memory_->InUse(), descriptors);
  }
}

// net_null and net_ring have no limits and do not say what they took.
TEST_F(EthPortTest, HasQueuesAsAskedWhereTheDeviceDoesNotSay) {
  for (const std::string device : {"net_null_asked", "net_ring_asked"}) {
    const PortQueues asked{.rx = 64, .tx = 32768};
    const auto port = EthPort::Open(device, memory_->pool(), asked);
    ASSERT_TRUE(port.ok()) << port.status();
    EXPECT_EQ(port->queues(), asked);
  }
}

TEST_F(EthPortTest, HasQueuesWithinTheLimitsOfItsDevice) {
  unis_add_limited_driver();
  struct Case {
    PortQueues asked, has;
  };
  for (const auto& [asked, has] :
       {Case{{.rx = 256, .tx = 128}, {.rx = 256, .tx = 128}},
        Case{{.rx = 64, .tx = 64}, {.rx = LIMITED_LEAST, .tx = LIMITED_LEAST}},
        Case{{.rx = 200, .tx = 129}, {.rx = 224, .tx = 160}},
        Case{{}, {.rx = LIMITED_MOST, .tx = LIMITED_MOST_TO_SEND}}}) {
    const auto port = EthPort::Open("net_limited", memory_->pool(), asked);
    ASSERT_TRUE(port.ok()) << port.status();
    EXPECT_EQ(port->queues(), has) << "asked " << asked.rx << " and " << asked.tx;
    EXPECT_EQ(memory_->InUse(), has.rx);
  }
}

TEST_F(EthPortTest, WhatAPciDeviceMissedBeforeItWasOpenedAgainIsNotCountedTwice) {
  ASSERT_EQ(unis_add_limited_device("0000:98:00.0"), 0);
  unis_limited_missed = 0;
  std::uint64_t missed = 0;
  for (int opened = 0; opened < 3; ++opened) {
    auto port = EthPort::Open("0000:98:00.0", memory_->pool());
    ASSERT_TRUE(port.ok()) << port.status();
    const EthPort moved = *std::move(port);
    EXPECT_EQ(moved.Missed(), 0U);
    unis_limited_missed += 5;
    EXPECT_EQ(moved.Missed(), 5U);
    missed += moved.Missed();
  }
  EXPECT_EQ(missed, 15U);
  unis_limited_missed = 0;
  std::uint16_t port = 0;
  ASSERT_EQ(rte_eth_dev_get_port_by_name("0000:98:00.0", &port), 0);
  EXPECT_EQ(rte_eth_dev_close(port), 0);
}

// As EAL has probed it at its start, and as it is found again. The domain may be left out.
TEST_F(EthPortTest, TakesAPciDeviceThatIsThereAlreadyAndLeavesItThere) {
  ASSERT_EQ(unis_add_limited_device("0000:99:00.0"), 0);
  for (const std::string device : {"0000:99:00.0", "99:00.0", "0000:99:00.0"}) {
    const auto port = EthPort::Open(device, memory_->pool(), {.rx = 256});
    ASSERT_TRUE(port.ok()) << port.status();
    EXPECT_EQ(port->queues().rx, 256);
    EXPECT_EQ(rte_eth_dev_count_avail(), 0) << "functions would find the platform's port";
    const auto again = EthPort::Open(device, memory_->pool()).status();
    EXPECT_NE(again.message().find("is used twice"), std::string::npos) << again;
  }
  EXPECT_EQ(memory_->InUse(), 0U);
  std::uint16_t port = 0;
  ASSERT_EQ(rte_eth_dev_get_port_by_name("0000:99:00.0", &port), 0);
  EXPECT_EQ(rte_eth_dev_count_avail(), 1) << "it is nobody's";
  EXPECT_EQ(rte_eth_dev_close(port), 0);
}

TEST_F(EthPortTest, SaysWhetherItHasRoomWhereItsDriverDoes) {
  unis_add_limited_driver();
  const auto port = EthPort::Open("net_limited", memory_->pool());
  ASSERT_TRUE(port.ok()) << port.status();
  unis_limited_room = 64;
  EXPECT_EQ(port->HasRoom(64), true);
  EXPECT_EQ(port->HasRoom(65), false);
  unis_limited_room = LIMITED_MOST;
  const auto silent = EthPort::Open("net_null_silent", memory_->pool());
  ASSERT_TRUE(silent.ok()) << silent.status();
  EXPECT_EQ(silent->HasRoom(1), std::nullopt);
}

TEST_F(EthPortTest, SaysHowLongAQueueWasThatItCouldNotHave) {
  unis_add_limited_driver();
  const auto small = rte_pktmbuf_pool_create("small", 127, 0, 0, RTE_MBUF_DEFAULT_BUF_SIZE, 0);
  const auto status = EthPort::Open("net_limited", small, {.rx = 256}).status();
  EXPECT_NE(status.message().find("a receive queue of 256 descriptors"), std::string::npos)
      << status;
  EXPECT_EQ(rte_eth_dev_count_total(), 0);
  rte_mempool_free(small);
}

TEST_F(EthPortTest, SaysWhatIsWrongWithADevice) {
  const auto open = EthPort::Open("net_null_twice", memory_->pool());
  ASSERT_TRUE(open.ok());
  const auto twice = EthPort::Open("net_null_twice", memory_->pool()).status();
  EXPECT_EQ(twice.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(twice.message().find("net_null_twice is used twice"), std::string::npos) << twice;

  for (const std::string device :
       {"net_nonsense0", "net_pcap_missing,rx_pcap=/nonexistent.pcap", "", "net_null_x,y=z"}) {
    const auto status = EthPort::Open(device, memory_->pool()).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << device;
    EXPECT_NE(status.message().find(device), std::string::npos) << status;
  }
  EXPECT_EQ(rte_eth_dev_count_total(), 1);
}

}  // namespace
}  // namespace unis
