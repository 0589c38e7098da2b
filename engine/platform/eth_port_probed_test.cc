// A port that EAL probed at its start, as it does each PCI device. No PCI device can be had in a
// test: a virtual device on EAL's command line is probed at the same moment.
#include <rte_ethdev.h>

#include "engine/platform/eth_port.h"
#include "engine/platform/memory_for_test.h"

namespace unis {
namespace {

class ProbedPortTest : public MemoryTest {
 protected:
  void SetUp() override {
    ASSERT_TRUE(StartTestEal({"--vdev=net_ring_probed"}));
    MemoryTest::SetUp();
  }
};

TEST_F(ProbedPortTest, CarriesPacketsAndIsUsedTwiceOnlyOnceItIsOpen) {
  ASSERT_EQ(rte_eth_dev_count_total(), 1);
  const auto port = EthPort::Open("net_ring_probed", memory_->pool());
  ASSERT_TRUE(port.ok()) << port.status();
  EXPECT_EQ(rte_eth_dev_count_avail(), 0) << "functions would find the platform's port";
  const std::array<std::uint8_t, 3> bytes = {1, 2, 3};
  rte_mbuf* sent = Packet(bytes);
  rte_mbuf* received = nullptr;
  ASSERT_EQ(port->Send(&sent, 1), 1);
  ASSERT_EQ(port->Receive(&received, 1), 1);
  EXPECT_EQ(received, sent);
  rte_pktmbuf_free(received);
  const auto again = EthPort::Open("net_ring_probed", memory_->pool()).status();
  EXPECT_NE(again.message().find("net_ring_probed is used twice"), std::string::npos) << again;
}

}  // namespace
}  // namespace unis
