#include "engine/platform/port_shm.h"

#include <gtest/gtest.h>

#include <string>

#include "engine/platform/memory_for_test.h"

namespace unis {
namespace {

using PortShmTest = MemoryTest;

unis_port_shm& Shared(const std::string& name) {
  return *static_cast<unis_port_shm*>(rte_memzone_lookup(name.c_str())->addr);
}

TEST_F(PortShmTest, ReadsWhatThePortTells) {
  const auto one = PortShm::Create("one"), two = PortShm::Create("two");
  ASSERT_TRUE(one.ok() && two.ok());
  EXPECT_GE(rte_memzone_lookup("one")->len, sizeof(unis_port_shm));
  Shared("one") = {.polls = 1,
                   .rx_packets = 2,
                   .tx_packets = 4,
                   .tx_refused = 6,
                   .polling_tid = 7,
                   .polling_lcore = 9};
  const PortCounters counters = one->Read();
  EXPECT_EQ(one->Polls(), 1U);
  EXPECT_EQ(counters.polls, 1U);
  EXPECT_EQ(counters.rx_packets, 2U);
  EXPECT_EQ(counters.tx_packets, 4U);
  EXPECT_EQ(counters.tx_refused, 6U);
  EXPECT_EQ(counters.polling_tid, 7);
  EXPECT_EQ(counters.polling_lcore, 8U);
  EXPECT_EQ(two->Polls(), 0U) << "each port has its own";
}

TEST_F(PortShmTest, ADeadProcessHasItsLastBurstCountedAndPollsNoMore) {
  auto port = PortShm::Create("one");
  ASSERT_TRUE(port.ok());
  Shared("one").rx_packets = 100;
  Shared("one").tx_packets = 90;
  Shared("one").polling_tid = 7;
  port->Vacate(64, -3);
  EXPECT_EQ(port->Read().rx_packets, 164U);
  EXPECT_EQ(port->Read().tx_packets, 87U);
  EXPECT_EQ(port->Read().polling_tid, 0);
}

// Memory that an earlier port used must not tell of it.
TEST_F(PortShmTest, StartsFromZero) {
  for (int i = 0; i < 3; ++i) {
    const auto port = PortShm::Create("again");
    ASSERT_TRUE(port.ok()) << port.status();
    EXPECT_EQ(port->Read().polling_tid, 0);
    EXPECT_EQ(port->Polls(), 0U);
    Shared("again").polls = 17;
    Shared("again").polling_tid = 4711;
  }
}

TEST_F(PortShmTest, ANameIsTakenOnce) {
  const auto first = PortShm::Create("name");
  ASSERT_TRUE(first.ok());
  const auto second = PortShm::Create("name").status();
  EXPECT_EQ(second.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(second.message().find("memzone name"), std::string::npos) << second;
}

}  // namespace
}  // namespace unis
