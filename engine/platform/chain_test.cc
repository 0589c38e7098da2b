#include "engine/platform/chain.h"

#include <gtest/gtest.h>
#include <rte_memzone.h>

#include <string>

#include "engine/platform/memory_for_test.h"

namespace unis {
namespace {

using ChainTest = MemoryTest;

TEST_F(ChainTest, HasARingBeforeBetweenAndBehindItsNfs) {
  const auto chain = Chain::Create("web", 0, 0, 3, 2048);
  ASSERT_TRUE(chain.ok()) << chain.status();
  EXPECT_EQ((*chain)->name(), "web");
  EXPECT_EQ((*chain)->nfs(), 3U);
  EXPECT_EQ((*chain)->link(0), (*chain)->first());
  EXPECT_EQ((*chain)->link(3), (*chain)->last());
  for (std::size_t i = 0; i <= 3; ++i) {
    EXPECT_EQ(rte_ring_get_capacity((*chain)->link(i)), 2047U);
    EXPECT_EQ(rte_ring_lookup((*chain)->link(i)->name), (*chain)->link(i));
    EXPECT_TRUE(rte_ring_is_prod_single((*chain)->link(i)));
    EXPECT_TRUE(rte_ring_is_cons_single((*chain)->link(i)));
  }
}

TEST_F(ChainTest, TheDeviceOfAnNfNamesItsRingsAndItsMemory) {
  const auto chain = Chain::Create("web", 2, 5, 2, 1024);
  ASSERT_TRUE(chain.ok()) << chain.status();
  for (std::size_t i = 0; i < 2; ++i) {
    const std::string nf = std::to_string(5 + i);
    EXPECT_EQ((*chain)->VdevOf(i), "net_unis" + nf + ",rx=" + (*chain)->link(i)->name + ",tx=" +
                                       (*chain)->link(i + 1)->name + ",shm=unis_port_" + nf);
    const rte_memzone* zone = rte_memzone_lookup(("unis_port_" + nf).c_str());
    ASSERT_NE(zone, nullptr);
    EXPECT_GE(zone->len, sizeof(unis_port_shm));
  }
}

TEST_F(ChainTest, ReadsWhatThePortTells) {
  const auto chain = Chain::Create("web", 0, 0, 2, 64);
  ASSERT_TRUE(chain.ok()) << chain.status();
  const PortCounters before = (*chain)->port(1).Read();
  EXPECT_EQ(before.polls + before.rx_packets + before.tx_packets + before.tx_refused, 0U);
  EXPECT_EQ(before.polling_tid, 0);
  *static_cast<unis_port_shm*>(rte_memzone_lookup("unis_port_1")->addr) = {.polls = 1,
                                                                           .rx_packets = 2,
                                                                           .rx_bytes = 3,
                                                                           .tx_packets = 4,
                                                                           .tx_bytes = 5,
                                                                           .tx_refused = 6,
                                                                           .polling_tid = 7,
                                                                           .reserved = 0};
  const PortCounters counters = (*chain)->port(1).Read();
  EXPECT_EQ((*chain)->port(1).Polls(), 1U);
  EXPECT_EQ(counters.polls, 1U);
  EXPECT_EQ(counters.rx_packets, 2U);
  EXPECT_EQ(counters.tx_packets, 4U);
  EXPECT_EQ(counters.tx_refused, 6U);
  EXPECT_EQ(counters.polling_tid, 7);
  EXPECT_EQ((*chain)->port(0).Polls(), 0U) << "each NF has its own";
}

// Memory that an earlier port used must not tell of it.
TEST_F(ChainTest, ANewChainStartsFromZero) {
  for (int i = 0; i < 3; ++i) {
    const auto chain = Chain::Create("web", 0, 0, 1, 64);
    ASSERT_TRUE(chain.ok()) << chain.status();
    EXPECT_EQ((*chain)->port(0).Read().polling_tid, 0);
    EXPECT_EQ((*chain)->port(0).Polls(), 0U);
    EXPECT_EQ((*chain)->InRings(), 0U);
    auto* shm = static_cast<unis_port_shm*>(rte_memzone_lookup("unis_port_0")->addr);
    shm->polls = 17;
    shm->polling_tid = 4711;
  }
}

TEST_F(ChainTest, CountsPacketsInItsRings) {
  const auto chain = Chain::Create("web", 0, 0, 2, 64);
  ASSERT_TRUE(chain.ok()) << chain.status();
  const std::uint8_t byte = 0;
  for (const std::size_t link : {0U, 1U, 1U, 2U, 2U, 2U})
    ASSERT_EQ(rte_ring_sp_enqueue((*chain)->link(link), Packet(std::span(&byte, 1))), 0);
  EXPECT_EQ((*chain)->InRings(), 6U);
  EXPECT_EQ(Discard((*chain)->link(1)), 2U);
  EXPECT_EQ((*chain)->InRings(), 4U);
  Discard((*chain)->first());
  Discard((*chain)->last());
}

TEST_F(ChainTest, CountersAddUp) {
  Counter counter;
  counter.Add(3);
  counter.Add(0);
  counter.Add(4);
  EXPECT_EQ(counter.value(), 7U);
}

TEST_F(ChainTest, SaysWhatItCannotMake) {
  const auto odd = Chain::Create("web", 0, 0, 1, 1000);
  EXPECT_EQ(odd.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(odd.status().message().find("chain web"), std::string::npos);
  EXPECT_NE(odd.status().message().find("1000 slots"), std::string::npos);

  const auto first = Chain::Create("web", 0, 0, 2, 64);
  ASSERT_TRUE(first.ok());
  EXPECT_FALSE(Chain::Create("dns", 0, 2, 2, 64).ok()) << "rings of the same names";
  EXPECT_FALSE(Chain::Create("dns", 1, 1, 2, 64).ok()) << "memory of the same names";
  EXPECT_TRUE(Chain::Create("dns", 1, 2, 2, 64).ok());
}

}  // namespace
}  // namespace unis
