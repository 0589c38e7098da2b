#include "engine/platform/links/memif.h"

#include <gtest/gtest.h>
#include <rte_ethdev.h>

#include "engine/monitor/link_progress.h"
#include "engine/platform/memif_for_test.h"

namespace unis {
namespace {

TEST_F(MemifTest, OccupancyIsWhatWasSentAndNotReceived) {
  const auto ends = Connect(Config("both", 2048));
  ASSERT_NE(ends, nullptr);
  const Occupancy from_engine = ends->engine.occupancy(MemifDirection::kToClient);
  const Occupancy to_engine = ends->engine.occupancy(MemifDirection::kToServer);
  MemifServer& engine = *ends->engine.port();
  const EthPort& program = ends->program;
  EXPECT_EQ(Receive(program) + Receive(engine), 0U);  // the client offers its free slots
  EXPECT_EQ(from_engine.Packets(), 0U);
  EXPECT_EQ(to_engine.Packets(), 0U);
  LinkProgress there(from_engine);
  for (std::uint32_t round = 0; round < 700; ++round) {  // more than 65,536 packets
    ASSERT_EQ(Send(engine, 100), 100U);
    ASSERT_EQ(from_engine.Packets(), 100U);
    ASSERT_EQ(Send(program, 30), 30U);
    ASSERT_EQ(to_engine.Packets(), 30U);
    ASSERT_EQ(Receive(program), 64U);
    ASSERT_EQ(from_engine.Packets(), 36U);
    ASSERT_EQ(Receive(program), 36U);
    ASSERT_EQ(Receive(engine), 30U);
    ASSERT_EQ(from_engine.Packets() + to_engine.Packets(), 0U);
    there.Sample();
  }
  EXPECT_EQ(there.sent(), 70'000U);
  EXPECT_EQ(there.received(), 70'000U);
  EXPECT_EQ(Send(engine, 1000), 256U) << "all slots can be filled";
  EXPECT_EQ(from_engine.Packets(), from_engine.capacity());
}

TEST_F(MemifTest, OfSeveralQueuesAllAreReadAndReceivedFrom) {
  MemifConfig config = Config("queues", 2048);
  config.shape.to_server = 3;
  config.shape.to_client = 2;
  const auto ends = Connect(config);
  ASSERT_NE(ends, nullptr);
  MemifServer& engine = *ends->engine.port();
  const EthPort& program = ends->program;
  EXPECT_EQ(Receive(program), 0U);  // the client offers its free slots
  const Occupancy to_engine = ends->engine.occupancy(MemifDirection::kToServer);
  EXPECT_EQ(to_engine.Packets(), 0U);
  const std::array<std::uint8_t, 60> bytes{};
  for (const std::uint16_t queue : {1, 2, 2, 2}) {
    rte_mbuf* packet = Packet(bytes);
    ASSERT_EQ(rte_eth_tx_burst(program.id(), queue, &packet, 1), 1);
  }
  EXPECT_EQ(to_engine.Packets(), 4U);
  EXPECT_EQ(Receive(engine), 4U);
  EXPECT_EQ(to_engine.Packets(), 0U);
  const Occupancy to_program = ends->engine.occupancy(MemifDirection::kToClient);
  EXPECT_EQ(Send(engine, 5), 5U);
  EXPECT_EQ(to_program.Packets(), 5U);
  EXPECT_EQ(Receive(program), 5U);
  EXPECT_EQ(to_program.Packets(), 0U);
}

TEST_F(MemifTest, TwoOfARunAreToldApart) {
  const auto one = Connect(Config("one", 2048));
  const auto two = Connect(Config("two", 2112));
  ASSERT_TRUE(one && two);
  Receive(one->program);
  Receive(two->program);
  ASSERT_EQ(Send(*two->engine.port(), 7), 7U);
  EXPECT_EQ(one->engine.occupancy(MemifDirection::kToClient).Packets(), 0U);
  EXPECT_EQ(two->engine.occupancy(MemifDirection::kToClient).Packets(), 7U);
}

TEST_F(MemifTest, WithoutAnEndOfTheEnginesItIsReadThroughTheProgram) {
  const MemifConfig config = Config("between", 2048);
  auto memif = Memif::Create(config, false, memory_->pool());
  ASSERT_TRUE(memif.ok()) << memif.status();
  EXPECT_EQ(memif->port(), nullptr);
  EXPECT_EQ(memif->Find(getpid()).status().code(), absl::StatusCode::kNotFound);
  EXPECT_FALSE(memif->occupancy(MemifDirection::kToServer).readable());
  EXPECT_EQ(memif->occupancy(MemifDirection::kToServer).capacity(), 256U);
  const auto programs = Connect(config);
  ASSERT_NE(programs, nullptr);
  ASSERT_TRUE(Locate(*memif));
  ASSERT_EQ(Send(programs->program, 5), 5U);
  EXPECT_EQ(memif->occupancy(MemifDirection::kToServer).Packets(), 5U);
}

TEST_F(MemifTest, SaysWhatItCannotMake) {
  MemifConfig config = Config("wrong", 2048);
  config.socket = folder_.file("nowhere/wrong.sock");
  const auto folder = Memif::Create(config, true, memory_->pool()).status();
  EXPECT_NE(folder.message().find("No such file"), std::string::npos) << folder;
  config.shape.slots = 32768;
  const auto slots = Memif::Create(config, false, nullptr).status();
  EXPECT_EQ(slots.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(slots.message().find("at most 16384, not 32768"), std::string::npos) << slots;
  config.shape = {.slots = 256, .buffer_bytes = 65536};
  const auto bytes = Memif::Create(config, false, nullptr).status();
  config.shape = {.slots = 256, .buffer_bytes = 2048, .to_client = 17};
  const auto queues = Memif::Create(config, false, nullptr).status();
  EXPECT_NE(queues.message().find("1 to 16 queues each way here, not 17"), std::string::npos)
      << queues;
  EXPECT_NE(bytes.message().find("at most 65535 bytes, not 65536"), std::string::npos) << bytes;
}

}  // namespace
}  // namespace unis
