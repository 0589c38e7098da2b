#include "engine/platform/eth_port.h"

#include <gtest/gtest.h>
#include <rte_ethdev.h>

#include <array>
#include <string>

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
