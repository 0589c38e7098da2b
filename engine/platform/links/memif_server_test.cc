// The engine's end of a memif, whatever its client does. With DPDK's driver in its place the first
// test ends in a panic, and that of the lies in an access violation.
#include "engine/platform/links/memif_server.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include "engine/base/dice_for_test.h"
#include "engine/platform/links/memif_client_for_test.h"
#include "engine/platform/memif_for_test.h"

namespace unis {
namespace {

using Type = MemifMessageType;

class MemifServerTest : public MemifTest {
 protected:
  void SetUp() override {
    MemifTest::SetUp();
    auto server = MemifServer::Listen(socket(), 0, kShape, memory_->pool());
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  void TearDown() override {
    server_.reset();
    MemifTest::TearDown();
  }
  std::string socket() const { return folder_.file("s.sock"); }
  // Whether a program that does right is served, and packets go both ways.
  void ServesTheNext() {
    auto program =
        OpenProgram({.name = "next", .socket = socket(), .id = 0, .shape = kShape, .inode = 0});
    ASSERT_TRUE(program.ok()) << program.status();
    ASSERT_TRUE(Eventually([&] { return server_->LinkUp() && program->LinkUp(); }));
    const auto passes = [this](auto& from, auto& to) {
      return Eventually([&] {
        Send(from, 1);
        return Receive(to) > 0;
      });
    };
    EXPECT_TRUE(passes(*server_, *program));
    EXPECT_TRUE(passes(*program, *server_));
  }

  static constexpr MemifShape kShape{.slots = 64, .buffer_bytes = 2048};
  std::unique_ptr<MemifServer> server_;
};

TEST_F(MemifServerTest, ClientsThatComeAndLeaveAtOnceDoNoHarm) {
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(MemifClientForTest(socket(), kShape).connected());
  ServesTheNext();
}

TEST_F(MemifServerTest, OnlyItsOwnerMayConnect) {
  struct stat status {};
  ASSERT_EQ(stat(socket().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600U);
  server_.reset();
  EXPECT_NE(stat(socket().c_str(), &status), 0) << "the socket is left behind";
}

TEST_F(MemifServerTest, AfterAClientThatDiedTheNextIsServed) {
  for (int i = 0; i < 3; ++i) {
    ServesTheNext();
    EXPECT_TRUE(Eventually([&] { return !server_->LinkUp(); }));
    EXPECT_EQ(Receive(*server_) + Send(*server_, 1), 0U);
  }
}

TEST_F(MemifServerTest, AMessageOfAnotherSizeOrOutOfTurnEndsTheTalk) {
  const MemifMessage connect = MemifClientForTest::Of(Type::kConnect);
  for (const std::size_t size : {std::size_t{1}, std::size_t{127}, std::size_t{128}}) {
    const MemifClientForTest client(socket(), kShape);
    ASSERT_EQ(client.Hear().type, Type::kHello);
    client.Say(&connect, size);
    EXPECT_EQ(client.Hear().type, Type::kDisconnect);
  }
  EXPECT_FALSE(server_->LinkUp());
  ServesTheNext();
}

TEST_F(MemifServerTest, MemoryThatIsNotAsAgreedIsRefused) {
  const auto refused = [&](const auto& change, int seals, off_t bytes) {
    const MemifClientForTest client(socket(), kShape);
    EXPECT_EQ(client.Hear().type, Type::kHello);
    EXPECT_EQ(client.Ask(client.Init()).type, Type::kAck);
    const UniqueFd file(memfd_create("other", MFD_ALLOW_SEALING | MFD_CLOEXEC));
    (void)ftruncate(file.get(), bytes);
    (void)fcntl(file.get(), F_ADD_SEALS, seals);
    MemifMessage region = client.Region();
    change(region.region);
    const MemifMessage answer = client.Ask(region, file.get());
    EXPECT_EQ(answer.type, Type::kDisconnect);
    return std::string(answer.disconnect.reason);
  };
  const auto right = [](auto&) {};
  const auto bytes = static_cast<off_t>(kShape.RegionBytes());
  EXPECT_NE(refused(right, 0, bytes).find("may shrink"), std::string::npos);
  EXPECT_NE(refused(right, F_SEAL_SHRINK, bytes - 4096).find("bytes of memory"), std::string::npos);
  EXPECT_NE(refused([](auto& it) { it.bytes = 1; }, F_SEAL_SHRINK, bytes).find("1 bytes"),
            std::string::npos);
  EXPECT_NE(refused([](auto& it) { it.index = 7; }, F_SEAL_SHRINK, bytes), "");
  ServesTheNext();
}

TEST_F(MemifServerTest, ARingElsewhereIsRefused) {
  const auto refused = [&](const auto& change) {
    const MemifClientForTest client(socket(), kShape);
    EXPECT_EQ(client.Hear().type, Type::kHello);
    EXPECT_EQ(client.Ask(client.Init()).type, Type::kAck);
    EXPECT_EQ(client.Ask(client.Region(), client.file()).type, Type::kAck);
    MemifMessage ring = client.Ring(true);
    change(ring.ring);
    return client.Ask(ring, client.file()).type == Type::kDisconnect;
  };
  EXPECT_TRUE(refused([](auto& it) { it.offset = 0xffff'ff00; }));
  EXPECT_TRUE(refused([](auto& it) { it.log2_slots = 14; }));
  EXPECT_TRUE(refused([](auto& it) { it.region = 1; }));
  EXPECT_TRUE(refused([](auto& it) { it.flags = 0; }));
  EXPECT_FALSE(refused([](auto&) {}));
}

// A client in full possession of its memory, which writes what it likes while packets go both ways.
TEST_F(MemifServerTest, WhateverStandsInTheMemoryPacketsStayWithinTheirBounds) {
  MemifClientForTest client(socket(), kShape);
  ASSERT_TRUE(client.ShakeHands());
  const char* wanted = std::getenv("UNIS_FUZZ_SECONDS");
  const auto end = std::chrono::steady_clock::now() +
                   std::chrono::duration<double>(wanted != nullptr ? std::atof(wanted) : 1);
  std::jthread liar([&](const std::stop_token& stop) {
    Dice dice(7);
    auto* const words = reinterpret_cast<volatile std::uint16_t*>(client.memory());
    while (!stop.stop_requested()) {
      // Mostly positions and descriptors, which are what there is to lie about.
      const std::size_t ring = dice.OneIn(2) ? 0 : kShape.RingBytes() / 2;
      const std::size_t at = dice.OneIn(4) ? (dice.OneIn(2) ? 3 : 32) : dice.Between(64, 575);
      words[ring + at] =
          static_cast<std::uint16_t>(dice.OneIn(3) ? dice.Between(0, 2) : dice.Between(0, 0xffff));
    }
  });
  std::uint64_t received = 0;
  std::array<rte_mbuf*, kBurst> packets;
  do {
    const std::uint16_t count = server_->Receive(packets.data(), kBurst);
    received += count;
    ASSERT_LE(count, kBurst);
    for (std::uint16_t i = 0; i < count; ++i) {
      ASSERT_GT(packets[i]->data_len, 0);
      ASSERT_LE(packets[i]->data_len + packets[i]->data_off, packets[i]->buf_len);
      ASSERT_EQ(packets[i]->pkt_len, packets[i]->data_len);
    }
    rte_pktmbuf_free_bulk(packets.data(), count);
    Send(*server_, 8);
    // Of a busy machine the liar may have had little.
  } while (std::chrono::steady_clock::now() <
           (received > 0 ? end : end + std::chrono::seconds(20)));
  EXPECT_GT(received, 0U) << "no lie was ever taken for a packet";
}

}  // namespace
}  // namespace unis
