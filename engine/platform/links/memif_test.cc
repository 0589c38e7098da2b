#include "engine/platform/links/memif.h"

#include <gtest/gtest.h>
#include <rte_ethdev.h>

#include "engine/platform/memif_for_test.h"

namespace unis {
namespace {

TEST_F(MemifTest, OccupancyIsWhatWasSentAndNotReceivedWhoeverHasWhichEnd) {
  for (const MemifRole role : {MemifRole::kServer, MemifRole::kClient}) {
    const auto ends = Connect(Config("both", 2048), role);
    ASSERT_NE(ends, nullptr);
    const bool server = role == MemifRole::kServer;
    const Link from_engine =
        ends->engine.link(server ? MemifDirection::kToClient : MemifDirection::kToServer);
    const Link to_engine =
        ends->engine.link(server ? MemifDirection::kToServer : MemifDirection::kToClient);
    const EthPort &engine = *ends->engine.port(), &program = ends->program;
    EXPECT_EQ(Receive(program) + Receive(engine), 0U);  // the client offers its free slots
    EXPECT_EQ(from_engine.Packets(), 0U);
    EXPECT_EQ(to_engine.Packets(), 0U);
    MemifProgress there(ends->engine.region(),
                        server ? MemifDirection::kToClient : MemifDirection::kToServer);
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
}

TEST_F(MemifTest, OfSeveralQueuesAllAreReadAndReceivedFrom) {
  for (const MemifRole role : {MemifRole::kServer, MemifRole::kClient}) {
    MemifConfig config = Config("queues", 2048);
    config.shape.queues = 3;
    const auto ends = Connect(config, role);
    ASSERT_NE(ends, nullptr);
    const EthPort &engine = *ends->engine.port(), &program = ends->program;
    EXPECT_EQ(Receive(program) + Receive(engine), 0U);  // the client offers its free slots
    const Link to_engine = ends->engine.link(
        role == MemifRole::kServer ? MemifDirection::kToServer : MemifDirection::kToClient);
    EXPECT_EQ(to_engine.Packets(), 0U);
    const std::array<std::uint8_t, 60> bytes{};
    for (const std::uint16_t queue : {1, 2, 2, 2}) {
      rte_mbuf *packet = Packet(bytes);
      ASSERT_EQ(rte_eth_tx_burst(program.id(), queue, &packet, 1), 1);
    }
    EXPECT_EQ(to_engine.Packets(), 4U);
    EXPECT_EQ(Receive(engine), 4U);
    EXPECT_EQ(to_engine.Packets(), 0U);
    EXPECT_EQ(Send(engine, 5), 5U);
    EXPECT_EQ(Receive(program), 5U);
  }
}

TEST_F(MemifTest, TwoOfARunAreToldApart) {
  const auto one = Connect(Config("one", 2048), MemifRole::kServer);
  const auto two = Connect(Config("two", 2112), MemifRole::kServer);
  ASSERT_TRUE(one && two);
  Receive(one->program);
  Receive(two->program);
  ASSERT_EQ(Send(*two->engine.port(), 7), 7U);
  EXPECT_EQ(one->engine.link(MemifDirection::kToClient).Packets(), 0U);
  EXPECT_EQ(two->engine.link(MemifDirection::kToClient).Packets(), 7U);
}

TEST_F(MemifTest, WithoutAnEndOfTheEnginesItIsReadThroughTheProgram) {
  const MemifConfig config = Config("between", 2048);
  auto memif = Memif::Create(config, std::nullopt, memory_->pool());
  ASSERT_TRUE(memif.ok()) << memif.status();
  EXPECT_EQ(memif->port(), nullptr);
  EXPECT_EQ(memif->Find(getpid()).status().code(), absl::StatusCode::kNotFound);
  EXPECT_FALSE(memif->link(MemifDirection::kToServer).readable());
  EXPECT_EQ(memif->link(MemifDirection::kToServer).capacity(), 256U);
  const auto programs = Connect(config, MemifRole::kServer);
  ASSERT_NE(programs, nullptr);
  ASSERT_TRUE(Locate(*memif));
  ASSERT_EQ(Send(programs->program, 5), 5U);
  EXPECT_EQ(memif->link(MemifDirection::kToServer).Packets(), 5U);
}

TEST_F(MemifTest, SaysWhatItCannotMake) {
  MemifConfig config = Config("wrong", 2048);
  const auto client = Memif::Create(config, MemifRole::kClient, memory_->pool()).status();
  EXPECT_NE(client.message().find("link wrong: "), std::string::npos) << client;
  EXPECT_NE(client.message().find("does its server run?"), std::string::npos) << client;
  EXPECT_EQ(rte_eth_dev_count_total(), 0) << "a port that could not start is left behind";
  config.shape.slots = 32768;
  const auto slots = Memif::Create(config, std::nullopt, nullptr).status();
  EXPECT_EQ(slots.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(slots.message().find("at most 16384, not 32768"), std::string::npos) << slots;
  config.shape = {.slots = 256, .buffer_bytes = 65536};
  const auto bytes = Memif::Create(config, std::nullopt, nullptr).status();
  config.shape = {.slots = 256, .buffer_bytes = 2048, .queues = 17};
  const auto queues = Memif::Create(config, std::nullopt, nullptr).status();
  EXPECT_NE(queues.message().find("1 to 16 queues each way here, not 17"), std::string::npos)
      << queues;
  EXPECT_NE(bytes.message().find("at most 65535 bytes, not 65536"), std::string::npos) << bytes;
}

}  // namespace
}  // namespace unis
