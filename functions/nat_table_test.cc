#include "functions/nat_table.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "functions/common/headers.h"
#include "functions/test_eal.h"

namespace unis::functions {
namespace {

constexpr std::uint64_t kTimeout = 1'000;

Ipv4FlowKey Key(std::uint32_t host, std::uint8_t protocol = kUdp) {
  return {0x0a000000 + host, 0x08080808, 1000, 53, protocol};
}

class NatTableTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { ASSERT_TRUE(StartTestEal()); }
};

NatTable Table(const NatTable::Limits& limits) {
  auto table = NatTable::Create(limits);
  EXPECT_TRUE(table.ok());
  return std::move(*table);
}

TEST(PublicPorts, RestAsLongAsPossible) {
  PublicPorts ports(10, 12);
  EXPECT_EQ(ports.Take(), 10);
  ports.GiveBack(10);
  EXPECT_EQ(ports.Take(), 11);
  EXPECT_EQ(ports.Take(), 12);
  EXPECT_EQ(ports.Take(), 10);
  EXPECT_EQ(ports.Take(), std::nullopt);
}

TEST_F(NatTableTest, OneFlowKeepsItsPort) {
  NatTable table = Table({64, kTimeout});
  table.BeginBurst(1);
  const NatFlow* const flow = table.FindOrAdd(Key(1));
  ASSERT_NE(flow, nullptr);
  const std::uint16_t port = flow->public_port;
  EXPECT_EQ(table.FindOrAdd(Key(1))->public_port, port);
  EXPECT_EQ(table.active(), 1u);
  EXPECT_NE(table.FindOrAdd(Key(2))->public_port, port);
  NatFlow* found[2];
  const Ipv4FlowKey keys[2] = {Key(1), Key(3)};
  table.LookupBurst(keys, 2, found);
  EXPECT_EQ(found[0]->public_port, port);
  EXPECT_EQ(found[1], nullptr);
}

TEST_F(NatTableTest, RepliesComeFromTheOtherEndOnly) {
  NatTable table = Table({64, kTimeout});
  table.BeginBurst(1);
  const NatFlow flow = *table.FindOrAdd(Key(1));
  const NatFlow* const reply = table.FindReply(kUdp, flow.public_port, 0x08080808, 53);
  ASSERT_NE(reply, nullptr);
  EXPECT_EQ(reply->key, Key(1));
  EXPECT_EQ(table.FindReply(kUdp, flow.public_port, 0x08080809, 53), nullptr);
  EXPECT_EQ(table.FindReply(kUdp, flow.public_port, 0x08080808, 54), nullptr);
  EXPECT_EQ(table.FindReply(kTcp, flow.public_port, 0x08080808, 53), nullptr);
  EXPECT_EQ(table.FindReply(kUdp, 1, 0x08080808, 53), nullptr);
}

TEST_F(NatTableTest, IsFullAtExactlyItsSize) {
  NatTable table = Table({100, kTimeout});
  table.BeginBurst(1);
  for (std::uint32_t host = 0; host < 100; ++host) ASSERT_NE(table.FindOrAdd(Key(host)), nullptr);
  EXPECT_EQ(table.FindOrAdd(Key(100)), nullptr);
  EXPECT_NE(table.FindOrAdd(Key(99)), nullptr);
}

TEST_F(NatTableTest, RunsOutOfPortsPerProtocol) {
  NatTable table = Table({64, kTimeout, 2000, 2001});
  table.BeginBurst(1);
  EXPECT_NE(table.FindOrAdd(Key(1)), nullptr);
  EXPECT_NE(table.FindOrAdd(Key(2)), nullptr);
  EXPECT_EQ(table.FindOrAdd(Key(3)), nullptr);
  EXPECT_NE(table.FindOrAdd(Key(3, kTcp)), nullptr);
  EXPECT_NE(table.FindOrAdd(Key(3, kIcmp)), nullptr);
  EXPECT_EQ(table.active(), 4u);
}

TEST_F(NatTableTest, AnExpiredFlowMakesRoom) {
  NatTable table = Table({16, kTimeout});
  table.BeginBurst(0);
  for (std::uint32_t host = 0; host < 16; ++host) table.FindOrAdd(Key(host));
  table.BeginBurst(kTimeout);
  EXPECT_EQ(table.FindOrAdd(Key(16)), nullptr);  // none is older than the timeout yet
  for (std::uint32_t host = 0; host < 16; ++host) {
    if (host != 10) table.FindOrAdd(Key(host));
  }
  table.BeginBurst(kTimeout + 1);
  EXPECT_NE(table.FindOrAdd(Key(16)), nullptr);
  EXPECT_EQ(table.expired(), 1u);
  EXPECT_EQ(table.FindOrAdd(Key(10)), nullptr);
  EXPECT_EQ(table.active(), 16u);
}

TEST_F(NatTableTest, RepliesKeepAFlowAlive) {
  NatTable table = Table({8, kTimeout});
  table.BeginBurst(0);
  const std::uint16_t port = table.FindOrAdd(Key(1))->public_port;
  for (std::uint64_t now = 0; now < 10 * kTimeout; now += kTimeout / 2) {
    table.BeginBurst(now);
    ASSERT_NE(table.FindReply(kUdp, port, 0x08080808, 53), nullptr);
  }
}

TEST_F(NatTableTest, IdleFlowsGoWithoutPressure) {
  NatTable table = Table({64, kTimeout});
  table.BeginBurst(0);
  for (std::uint32_t host = 0; host < 64; ++host) table.FindOrAdd(Key(host));
  for (int burst = 0; burst < 64; ++burst) table.BeginBurst(2 * kTimeout);
  EXPECT_EQ(table.active(), 0u);
}

// Against the plainest model of the same: at every moment, live flows and ports map one to one.
TEST_F(NatTableTest, StaysABijectionUnderRandomLoad) {
  NatTable table = Table({256, kTimeout, 2000, 2199});
  std::mt19937 random(7);
  std::map<std::uint32_t, std::pair<std::uint16_t, std::uint64_t>> model;  // port and last seen
  std::uint64_t now = 0;
  for (int i = 0; i < 200'000; ++i) {
    now += random() % 20;
    table.BeginBurst(now);
    const std::uint32_t host = random() % 400;
    const NatFlow* const flow = table.FindOrAdd(Key(host));
    const auto known = model.find(host);
    const bool alive = known != model.end() && now - known->second.second <= kTimeout;
    if (flow == nullptr) {
      ASSERT_FALSE(alive) << "a live flow was refused";
      continue;
    }
    if (alive) {
      ASSERT_EQ(flow->public_port, known->second.first) << "a live flow changed its port";
    }
    model[host] = {flow->public_port, now};
    const NatFlow* const reply = table.FindReply(kUdp, flow->public_port, 0x08080808, 53);
    ASSERT_NE(reply, nullptr);
    ASSERT_EQ(reply->key, Key(host));
    if (i % 1000 == 0) {
      std::set<std::uint16_t> ports;
      std::size_t live = 0;
      for (const auto& [other, seen] : model) {
        if (now - seen.second > kTimeout) continue;
        ++live;
        ports.insert(seen.first);
      }
      ASSERT_EQ(ports.size(), live) << "two live flows share a port";
    }
  }
  EXPECT_GT(table.expired(), 0u);
}

}  // namespace
}  // namespace unis::functions
