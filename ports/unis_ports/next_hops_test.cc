// Next hops that the plug-in writes into what is sent by ports of net_ring.
#include <gtest/gtest.h>
#include <rte_ethdev.h>
#include <rte_ether.h>
#include <rte_log.h>
#include <rte_mbuf.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "ports/unis_ports/unis_ports_for_test.h"

namespace unis {
namespace {

// net_ring gives what is sent back to who sent it.
class UnisPortsNextHopTest : public UnisPortsTest {
 protected:
  static constexpr rte_ether_addr kNext{{0x02, 0, 0, 0, 0, 0x05}};
  static constexpr rte_ether_addr kSomebody{{0x02, 0, 0, 0, 0, 0x99}};

  static bool IsAskedFor() { return std::getenv("UNIS_NEXT_HOPS") != nullptr; }
  rte_mbuf* Packet() const {
    rte_mbuf* const packet = rte_pktmbuf_alloc(pool_);
    auto* const header =
        reinterpret_cast<rte_ether_hdr*>(rte_pktmbuf_append(packet, RTE_ETHER_MIN_LEN));
    *header = {.dst_addr = kSomebody, .src_addr = kSomebody, .ether_type = 0};
    return packet;
  }
  static bool Same(const rte_ether_addr& a, const rte_ether_addr& b) {
    return rte_is_same_ether_addr(&a, &b) != 0;
  }
  // What has come back has the next hop's address and the port's own, or both as they were.
  static void ExpectReceived(std::uint16_t port, bool written) {
    rte_mbuf* packet = nullptr;
    ASSERT_EQ(rte_eth_rx_burst(port, 0, &packet, 1), 1);
    ASSERT_GE(packet->data_len, sizeof(rte_ether_hdr));
    const auto& header = *rte_pktmbuf_mtod(packet, rte_ether_hdr*);
    rte_ether_addr own{};
    ASSERT_EQ(rte_eth_macaddr_get(port, &own), 0);
    EXPECT_TRUE(Same(header.dst_addr, written ? kNext : kSomebody));
    EXPECT_TRUE(Same(header.src_addr, written ? own : kSomebody));
    EXPECT_EQ(packet->pkt_len, RTE_ETHER_MIN_LEN);
    rte_pktmbuf_free(packet);
  }
};

// When the first port starts, hence in the first of these tests.
TEST_F(UnisPortsNextHopTest, ADeviceThatTheProgramLacksIsToldOnce) {
  if (!IsAskedFor()) return;
  char* text = nullptr;
  std::size_t bytes = 0;
  std::FILE* const log = open_memstream(&text, &bytes);
  ASSERT_EQ(rte_openlog_stream(log), 0);
  const auto level = rte_log_get_global_level();
  rte_log_set_global_level(RTE_LOG_WARNING);
  Open("net_ring1", "");
  Open("net_ring2", "");
  rte_openlog_stream(nullptr);
  rte_log_set_global_level(level);
  std::fclose(log);
  const std::string told(text, bytes);
  std::free(text);
  const std::string words = "names device net_ring9, of which the program has no port";
  const std::size_t at = told.find(words);
  ASSERT_NE(at, std::string::npos) << told;
  EXPECT_EQ(told.find(words, at + 1), std::string::npos) << told;
  EXPECT_EQ(told.find("device net_ring1,"), std::string::npos) << told;
}

TEST_F(UnisPortsNextHopTest, ANextHopIsWrittenIntoWhatItsPortSends) {
  const std::uint16_t with = Open("net_ring1", "");
  const std::uint16_t without = Open("net_ring2", "");
  rte_mbuf* packet = Packet();
  ASSERT_EQ(rte_eth_tx_burst(with, 0, &packet, 1), 1);
  ExpectReceived(with, IsAskedFor());
  packet = Packet();
  ASSERT_EQ(rte_eth_tx_burst(without, 0, &packet, 1), 1);
  ExpectReceived(without, false);
}

TEST_F(UnisPortsNextHopTest, WhatOthersSeeTooIsCopiedBeforeANextHopIsWritten) {
  const std::uint16_t port = Open("net_ring1", "");
  rte_mbuf* const kept = Packet();
  rte_mbuf_refcnt_update(kept, 1);
  rte_mbuf* sent = kept;
  ASSERT_EQ(rte_eth_tx_burst(port, 0, &sent, 1), 1);
  ExpectReceived(port, IsAskedFor());
  EXPECT_EQ(rte_mbuf_refcnt_read(kept), 1) << "ours";
  EXPECT_TRUE(Same(rte_pktmbuf_mtod(kept, rte_ether_hdr*)->dst_addr, kSomebody));
  rte_pktmbuf_free(kept);
}

TEST_F(UnisPortsNextHopTest, AHeaderInSeveralSegmentsIsBroughtTogether) {
  if (!IsAskedFor()) return;  // it stays as it is
  const std::uint16_t port = Open("net_ring1", "");
  constexpr std::uint16_t kFirst = 6;
  rte_mbuf* rest = Packet();
  rte_pktmbuf_adj(rest, kFirst);
  rte_mbuf* packet = rte_pktmbuf_alloc(pool_);
  rte_pktmbuf_append(packet, kFirst);
  ASSERT_EQ(rte_pktmbuf_chain(packet, rest), 0);
  ASSERT_EQ(rte_eth_tx_burst(port, 0, &packet, 1), 1);
  ExpectReceived(port, true);
}

TEST_F(UnisPortsNextHopTest, ACloneIsCopiedWhereThereIsRoomForItsData) {
  if (!IsAskedFor()) return;
  const std::uint16_t port = Open("net_ring1", "");
  rte_mempool* const clones = rte_pktmbuf_pool_create("clones", 63, 0, 0, 0, SOCKET_ID_ANY);
  ASSERT_NE(clones, nullptr);
  rte_mbuf* const kept = Packet();
  rte_mbuf* clone = rte_pktmbuf_clone(kept, clones);
  ASSERT_NE(clone, nullptr);
  ASSERT_EQ(rte_eth_tx_burst(port, 0, &clone, 1), 1);
  ExpectReceived(port, true);
  EXPECT_TRUE(Same(rte_pktmbuf_mtod(kept, rte_ether_hdr*)->dst_addr, kSomebody));
  EXPECT_EQ(rte_mempool_avail_count(clones), 63U);
  rte_pktmbuf_free(kept);
  rte_mempool_free(clones);
}

TEST_F(UnisPortsNextHopTest, WhatCannotBeCopiedForANextHopIsNotSent) {
  if (!IsAskedFor()) return;  // nothing is copied
  const std::uint16_t port = Open("net_ring1", "");
  std::array<rte_mbuf*, 3> packets{Packet(), Packet(), Packet()};
  rte_mbuf_refcnt_update(packets[1], 1);
  std::vector<rte_mbuf*> rest(rte_mempool_avail_count(pool_));
  ASSERT_EQ(rte_pktmbuf_alloc_bulk(pool_, rest.data(), static_cast<unsigned>(rest.size())), 0);
  EXPECT_EQ(rte_eth_tx_burst(port, 0, packets.data(), packets.size()), 1);
  ExpectReceived(port, true);
  rte_pktmbuf_free_bulk(rest.data(), static_cast<unsigned>(rest.size()));
  EXPECT_EQ(rte_eth_tx_burst(port, 0, packets.data() + 1, 2), 2) << "tried again";
  ExpectReceived(port, true);
  ExpectReceived(port, true);
}

}  // namespace
}  // namespace unis
