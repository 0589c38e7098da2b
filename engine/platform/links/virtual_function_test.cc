// No virtual function can be had in a test: the two ends are kernel devices, a pair whose other end
// takes what one sends, driven by net_af_packet. That shows what the link does with a DPDK port,
// and nothing of a NIC.
#include "engine/platform/links/virtual_function.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "engine/platform/limited_port_for_test.h"
#include "engine/platform/links/kinds.h"
#include "engine/platform/links/veth_for_test.h"

namespace unis {
namespace {

constexpr char kNextMac[] = "\x02\x00\x00\x00\x00\x2a";
constexpr std::size_t kAddresses = 12;

class VirtualFunctionTest : public VethTest {
 protected:
  v1::LinkConfig Config(bool engine_end = true) const {
    v1::LinkConfig config;
    config.set_name("link");
    config.set_kind(v1::LINK_SRIOV);
    config.set_slots(kSlots);
    config.mutable_sriov()->set_address0(StandIn(near_));
    config.mutable_sriov()->set_address1("0000:01:10.1");
    config.mutable_sriov()->set_engine_end(engine_end);
    return config;
  }
  std::string StandIn(const std::string& device) const {
    return "net_af_packet_" + device + ",iface=" + device +
           ",qpairs=1,blocksz=4096,framesz=2048,framecnt=" + std::to_string(kSlots);
  }
  std::unique_ptr<Link> Make(const v1::LinkConfig& config) const {
    auto link = kind_.Make(config, false, memory_->pool());
    EXPECT_TRUE(link.ok()) << link.status();
    return link.ok() ? *std::move(link) : nullptr;
  }
  static std::string MacOf(const std::string& device) {
    std::string text;
    std::ifstream("/sys/class/net/" + device + "/address") >> text;
    std::string mac;
    for (std::size_t i = 0; i + 1 < text.size(); i += 3)
      mac += static_cast<char>(std::stoi(text.substr(i, 2), nullptr, 16));
    return mac;
  }
  // Of one packet that the program receives: its first bytes.
  static std::string Head(const EthPort& program) {
    rte_mbuf* packet = nullptr;
    EXPECT_TRUE(Eventually([&] { return program.Receive(&packet, 1) == 1; }));
    if (packet == nullptr) return {};
    std::string head(rte_pktmbuf_mtod(packet, const char*), kAddresses);
    rte_pktmbuf_free(packet);
    return head;
  }
  const LinkKind& kind_ = *FindLinkKind(v1::LINK_SRIOV);
};

TEST_F(VirtualFunctionTest, CarriesPacketsBothWaysAndNobodySeesHowMany) {
  const EthPort program = Program(far_);
  const auto link = Make(Config());
  ASSERT_NE(link, nullptr);
  LinkEnd& end = *link->end();
  EXPECT_EQ(end.capacity(), kSlots);
  EXPECT_EQ(end.Room(), kBurst);
  EXPECT_FALSE(end.carries_mbufs());
  ASSERT_EQ(Send(end, 100), 100U);
  for (const unsigned direction : {0U, 1U}) {
    EXPECT_FALSE(link->occupancy(direction).readable());
    EXPECT_EQ(link->occupancy(direction).capacity(), kSlots);
  }
  EXPECT_EQ(Receive(program, 1000), 100U);
  ASSERT_EQ(Send(program, 40), 40U);
  EXPECT_EQ(Receive(end, 1000), 40U);
  EXPECT_EQ(link->Dropped(0) + link->Dropped(1), 0U);
}

TEST_F(VirtualFunctionTest, IsThereAtOnceForAFunctionAndReadWithNoneOfIt) {
  const auto link = Make(Config());
  ASSERT_NE(link, nullptr);
  const auto found = link->Find(getpid(), 1);
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(*found, nullptr) << "there is nothing to take";
  link->Forget(1);
  EXPECT_FALSE(link->occupancy(1).readable());
}

TEST_F(VirtualFunctionTest, FramesStayAsTheyAreWhereNoNextHopIsStated) {
  const EthPort program = Program(far_);
  const auto link = Make(Config());
  ASSERT_NE(link, nullptr);
  ASSERT_EQ(Send(*link->end(), 1), 1U);
  EXPECT_EQ(Head(program), std::string(kAddresses, '\x5a'));
}

TEST_F(VirtualFunctionTest, FramesGoToTheNextHopFromTheirOwnPort) {
  const EthPort program = Program(far_);
  v1::LinkConfig config = Config();
  config.mutable_sriov()->set_next_mac(kNextMac, 6);
  const auto link = Make(config);
  ASSERT_NE(link, nullptr);
  ASSERT_EQ(Send(*link->end(), 1), 1U);
  EXPECT_EQ(Head(program), std::string(kNextMac, 6) + MacOf(near_));
  rte_mbuf* runt = Packet(std::array<std::uint8_t, 8>{1});  // nothing behind its end is written
  std::memset(rte_pktmbuf_mtod_offset(runt, char*, 8), 0x77, 8);
  rte_mbuf* const kept = runt;
  rte_pktmbuf_refcnt_update(kept, 1);
  if (link->end()->Send(&runt, 1) == 0) rte_pktmbuf_free(runt);
  EXPECT_EQ(*rte_pktmbuf_mtod_offset(kept, const char*, 8), 0x77);
  rte_pktmbuf_free(kept);
}

// The kernel's devices too may stand at ends of a NIC.
TEST_F(VirtualFunctionTest, SoDoThoseOfAnEndOnAKernelDevice) {
  v1::LinkConfig config = VethTest::Config(true);
  config.mutable_veth()->set_next_mac(kNextMac, 6);
  const auto link = VethLink::Create(config, memory_->pool());
  ASSERT_TRUE(link.ok()) << link.status();
  const EthPort program = Program(far_);
  Find(**link, 1);
  ASSERT_EQ(Send(*(*link)->end(), 1), 1U);
  EXPECT_EQ(Head(program), std::string(kNextMac, 6) + MacOf(near_));
}

TEST_F(VirtualFunctionTest, KernelDevicesThatANicJoinsAreReadAndMayLosePacketsAllTheSame) {
  v1::LinkConfig config = VethTest::Config(true);
  const LinkKind& kind = *FindLinkKind(v1::LINK_VETH);
  for (const bool by_nic : {false, true}) {
    config.mutable_veth()->set_by_nic(by_nic);
    EXPECT_EQ(kind.tells_of_drops(config), !by_nic);
    const auto link = VethLink::Create(config, memory_->pool());
    ASSERT_TRUE(link.ok()) << link.status();
    const EthPort program = Program(far_);
    Find(**link, 1);
    EXPECT_TRUE((*link)->occupancy(1).readable());
    EXPECT_EQ((*link)->occupancy(1).late(), by_nic);
    ASSERT_EQ(Send(*(*link)->end(), 1, VethEnd::kMostBytes), 1U);
    EXPECT_EQ((*link)->Dropped(1), by_nic ? 1U : 0U) << "its MTU is the usual one";
    EXPECT_EQ(Receive(program, 10), by_nic ? 0U : 1U);
  }
  EXPECT_FALSE(kind_.tells_of_drops(Config()));
}

TEST_F(VirtualFunctionTest, KeepsWhatWaitsToBeFilledAndGivesItBack) {
  unis_add_limited_driver();
  v1::LinkConfig config = Config();
  config.mutable_sriov()->set_address0("net_limited");
  {
    const auto link = Make(config);
    ASSERT_NE(link, nullptr);
    EXPECT_EQ(link->held(), kSlots);
    EXPECT_EQ(memory_->InUse(), kSlots);
  }
  EXPECT_EQ(memory_->InUse(), 0U);
  const auto pair = Make(Config());
  ASSERT_NE(pair, nullptr);
  EXPECT_EQ(pair->held(), 0U) << "net_af_packet has none";
}

// As a link that is added while others have traffic.
TEST_F(VirtualFunctionTest, WhatItKeepsIsKnownThoughPacketsMoveMeanwhile) {
  unis_add_limited_driver();
  v1::LinkConfig config = Config();
  config.mutable_sriov()->set_address0("net_limited");
  std::atomic<std::uint32_t> rounds = 0;
  std::jthread traffic([&](const std::stop_token& stop) {
    std::array<rte_mbuf*, 100> packets;
    for (std::uint16_t count = 1; !stop.stop_requested(); count = count % 100 + 1, ++rounds) {
      if (rte_pktmbuf_alloc_bulk(memory_->pool(), packets.data(), count) != 0) continue;
      std::this_thread::sleep_for(std::chrono::microseconds(20));
      rte_pktmbuf_free_bulk(packets.data(), count);
    }
  });
  ASSERT_TRUE(Eventually([&] { return rounds > 10; }));
  for (int i = 0; i < 10; ++i) {
    const auto link = Make(config);
    ASSERT_NE(link, nullptr);
    EXPECT_EQ(link->held(), kSlots);
  }
  const auto pair = Make(Config());
  ASSERT_NE(pair, nullptr);
  EXPECT_EQ(pair->held(), 0U);
}

TEST_F(VirtualFunctionTest, HasNoRoomForAWhileOnceTheDeviceHasRefusedAPacket) {
  const EthPort program = Program(far_);
  const auto link = Make(Config());
  ASSERT_NE(link, nullptr);
  LinkEnd& end = *link->end();
  ASSERT_TRUE(Shell("ip link set " + near_ + " down"));
  EXPECT_LT(Send(end, 4 * kSlots), 4 * kSlots);
  EXPECT_EQ(end.Room(), 0U);
  EXPECT_TRUE(Eventually([&] { return end.Room() == kBurst; }));
}

TEST_F(VirtualFunctionTest, HasRoomAsLongAsTheDriverSaysSo) {
  unis_add_limited_driver();
  v1::LinkConfig config = Config();
  config.mutable_sriov()->set_address0("net_limited");
  const auto link = Make(config);
  ASSERT_NE(link, nullptr);
  EXPECT_EQ(link->end()->Room(), kBurst);
  unis_limited_room = static_cast<int>(kBurst) - 1;
  EXPECT_EQ(link->end()->Room(), 0U) << "a burst or nothing";
  unis_limited_room = LIMITED_MOST;
  EXPECT_EQ(Send(*link->end(), 10), 10U);
}

TEST_F(VirtualFunctionTest, WhatItsPortMissedItHasDropped) {
  unis_add_limited_driver();
  v1::LinkConfig config = Config();
  config.mutable_sriov()->set_address0("net_limited");
  const auto link = Make(config);
  ASSERT_NE(link, nullptr);
  unis_limited_missed = 7;
  EXPECT_EQ(link->Dropped(0), 7U);
  EXPECT_EQ(link->Dropped(1), 0U) << "nobody counts those";
  unis_limited_missed = 0;
}

TEST_F(VirtualFunctionTest, BetweenTwoFunctionsTheEngineOpensNothing) {
  v1::LinkConfig config = Config(false);
  config.mutable_sriov()->set_address0("0000:01:10.0");  // which is not there
  const auto link = Make(config);
  ASSERT_NE(link, nullptr);
  EXPECT_EQ(link->end(), nullptr);
  EXPECT_EQ(link->held(), 0U);
  EXPECT_EQ(link->Dropped(0) + link->Dropped(1), 0U);
  EXPECT_FALSE(kind_.can_be_read());
  EXPECT_EQ(kind_.packets(config), 0U);
}

TEST_F(VirtualFunctionTest, SaysWhichLinkHasNoDevice) {
  v1::LinkConfig config = Config();
  config.mutable_sriov()->set_address0("net_nonsense0");
  const auto status = kind_.Make(config, false, memory_->pool()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message().find("link link: DPDK cannot open device net_nonsense0"), 0U)
      << status;
  const auto open = Make(Config());
  ASSERT_NE(open, nullptr);
  EXPECT_NE(kind_.Make(Config(), false, memory_->pool()).status().message().find("is used twice"),
            std::string::npos);
}

TEST_F(VirtualFunctionTest, SaysWhatIsWrong) {
  const auto says = [this](const auto& change) {
    v1::LinkConfig config = Config();
    change(config);
    return std::string(kind_.Check(config, false).message());
  };
  EXPECT_EQ(says([](auto&) {}), "");
  EXPECT_EQ(says([](auto& c) { c.clear_slots(); }), "link link has no slots");
  EXPECT_EQ(says([](auto& c) { c.set_slots(65536); }),
            "link link has 65536 slots; an sriov has at most 32768");
  EXPECT_EQ(says([](auto& c) { c.mutable_sriov()->set_address1(c.sriov().address0()); }),
            "link link has the same device at both ends");
  const std::string no_mac =
      "link link has a next_mac that is no address of one port: six bytes, not all 0";
  EXPECT_EQ(says([](auto& c) { c.mutable_sriov()->set_next_mac("\x02\x01", 2); }), no_mac);
  EXPECT_EQ(says([](auto& c) { c.mutable_sriov()->set_next_mac(std::string(6, '\0')); }), no_mac);
  EXPECT_EQ(says([](auto& c) { c.mutable_sriov()->set_next_mac(std::string(6, '\xff')); }), no_mac);
  EXPECT_EQ(says([](auto& c) {
              c.mutable_sriov()->set_next_mac(kNextMac, 6);
              c.mutable_sriov()->set_engine_end(false);
            }),
            "link link says where the engine sends to, which has no end of it");
  EXPECT_EQ(kind_.Check(Config(), true).message(),
            "link link is foreign, which an sriov cannot be");
  v1::LinkConfig other = Config();
  other.set_name("other");
  other.mutable_sriov()->set_address0("0000:01:10.1");
  EXPECT_EQ(kind_.CheckBeside(other, Config()).message(),
            "link other has device 0000:01:10.1, as link link");
  other.mutable_sriov()->set_address0("0000:01:10.2");
  other.mutable_sriov()->set_address1("0000:01:10.3");
  EXPECT_TRUE(kind_.CheckBeside(other, Config()).ok());
}

}  // namespace
}  // namespace unis
