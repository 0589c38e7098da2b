// The driver as a program meets it: a shared object given to EAL by -d, and ordinary ethdev calls.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rte_dev.h>
#include <rte_eal.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <rte_memzone.h>
#include <rte_ring.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine/base/eal_for_test.h"
#include "engine/base/private_copy_for_test.h"
#include "engine/base/with_for_test.h"
#include "net_unis/port_shm.h"

namespace {

using unis::With;
using Ring = std::unique_ptr<rte_ring, With<rte_ring_free>>;
using Pool = std::unique_ptr<rte_mempool, With<rte_mempool_free>>;
using Zone = std::unique_ptr<const rte_memzone, With<rte_memzone_free>>;

class NetUnisTest : public testing::Test {
 protected:
  static constexpr const char* kArguments = "rx=in,tx=out,shm=counters";
  static constexpr unsigned kRoom = 63;  // of each ring

  void SetUp() override {
    UNIS_NEED_ROOT();
    const char* driver = std::getenv("NET_UNIS");
    ASSERT_NE(driver, nullptr) << "NET_UNIS must name librte_net_unis.so; run `meson test`";
    static const unis::PrivateCopy copy(driver);
    ASSERT_TRUE(unis::StartTestEal({"-d", copy.path()}));
    in_.reset(rte_ring_create("in", kRoom + 1, SOCKET_ID_ANY, RING_F_SP_ENQ | RING_F_SC_DEQ));
    out_.reset(rte_ring_create("out", kRoom + 1, SOCKET_ID_ANY, RING_F_SP_ENQ | RING_F_SC_DEQ));
    pool_.reset(rte_pktmbuf_pool_create("pool", 511, 0, 0, 2176, SOCKET_ID_ANY));
    zone_.reset(rte_memzone_reserve_aligned("counters", sizeof(unis_port_shm), SOCKET_ID_ANY, 0,
                                            RTE_CACHE_LINE_SIZE));
    ASSERT_TRUE(in_ && out_ && pool_ && zone_);
    *shm() = {};
  }
  void TearDown() override {
    Remove();
    if (!pool_) return;
    Drain(in_.get());
    Drain(out_.get());
    EXPECT_EQ(rte_mempool_in_use_count(pool_.get()), 0U) << "packets were lost";
    EXPECT_EQ(rte_eth_dev_count_total(), 0);
  }

  unis_port_shm* shm() const { return static_cast<unis_port_shm*>(zone_->addr); }

  static int Probe(const std::string& arguments, const std::string& name = "net_unis0") {
    return rte_dev_probe((name + "," + arguments).c_str());
  }
  static void Remove() {
    const std::uint16_t port = static_cast<std::uint16_t>(rte_eth_find_next(0));
    if (port >= RTE_MAX_ETHPORTS) return;
    rte_eth_dev_info info{};
    ASSERT_EQ(rte_eth_dev_info_get(port, &info), 0);
    rte_eth_dev_stop(port);
    EXPECT_EQ(rte_dev_remove(info.device), 0);
  }
  // As any program opens a port.
  void Open(const std::string& arguments = kArguments) {
    ASSERT_EQ(Probe(arguments), 0);
    ASSERT_EQ(rte_eth_dev_get_port_by_name("net_unis0", &port_), 0);
    const rte_eth_conf conf{};
    std::uint16_t rx = 512, tx = 512;
    ASSERT_EQ(rte_eth_dev_configure(port_, 1, 1, &conf), 0);
    ASSERT_EQ(rte_eth_dev_adjust_nb_rx_tx_desc(port_, &rx, &tx), 0);
    ASSERT_EQ(rte_eth_rx_queue_setup(port_, 0, rx, 0, nullptr, pool_.get()), 0);
    ASSERT_EQ(rte_eth_tx_queue_setup(port_, 0, tx, 0, nullptr), 0);
    ASSERT_EQ(rte_eth_dev_start(port_), 0);
  }
  rte_mbuf* Packet(std::uint16_t size) {
    rte_mbuf* packet = rte_pktmbuf_alloc(pool_.get());
    rte_pktmbuf_append(packet, size);
    return packet;
  }
  static void Drain(rte_ring* ring) {
    void* packet = nullptr;
    while (rte_ring_sc_dequeue(ring, &packet) == 0)
      rte_pktmbuf_free(static_cast<rte_mbuf*>(packet));
  }

  Ring in_, out_;
  Pool pool_;
  Zone zone_;
  std::uint16_t port_ = 0;
};

TEST_F(NetUnisTest, ReceivesFromOneRingInOrder) {
  Open();
  std::vector<rte_mbuf*> sent;
  for (std::uint16_t i = 0; i < 10; ++i) {
    sent.push_back(Packet(static_cast<std::uint16_t>(60 + i)));
    sent.back()->port = 99;
    ASSERT_EQ(rte_ring_sp_enqueue(in_.get(), sent.back()), 0);
  }
  std::array<rte_mbuf*, 32> received{};
  ASSERT_EQ(rte_eth_rx_burst(port_, 0, received.data(), 4), 4);
  ASSERT_EQ(rte_eth_rx_burst(port_, 0, received.data() + 4, 28), 6);
  ASSERT_EQ(rte_eth_rx_burst(port_, 0, received.data() + 10, 22), 0);
  for (std::size_t i = 0; i < 10; ++i) {
    EXPECT_EQ(received[i], sent[i]) << "a copy, or out of order";
    EXPECT_EQ(received[i]->port, port_);
  }
  EXPECT_EQ(shm()->polls, 3U);
  EXPECT_EQ(shm()->rx_packets, 10U);
  EXPECT_EQ(shm()->tx_packets, 0U);
  rte_pktmbuf_free_bulk(received.data(), 10);
}

TEST_F(NetUnisTest, SendsToTheOtherAndCountsWhatFindsNoRoom) {
  Open();
  std::array<rte_mbuf*, 100> packets;
  for (rte_mbuf*& packet : packets) packet = Packet(100);
  EXPECT_EQ(rte_eth_tx_burst(port_, 0, packets.data(), 40), 40);
  EXPECT_EQ(rte_eth_tx_burst(port_, 0, packets.data() + 40, 60), 23);
  EXPECT_EQ(rte_eth_tx_burst(port_, 0, packets.data() + kRoom, 5), 0);
  EXPECT_EQ(rte_ring_count(out_.get()), kRoom);
  EXPECT_EQ(shm()->tx_packets, kRoom);
  EXPECT_EQ(shm()->tx_refused, 37U + 5);
  EXPECT_EQ(shm()->polls, 0U);
  void* first = nullptr;
  ASSERT_EQ(rte_ring_sc_dequeue(out_.get(), &first), 0);
  EXPECT_EQ(first, packets[0]);
  rte_pktmbuf_free(packets[0]);
  rte_pktmbuf_free_bulk(packets.data() + kRoom, 100 - kRoom);  // stay the program's
}

TEST_F(NetUnisTest, WithoutARingToReceiveFromItOnlySends) {
  Open("tx=out,shm=counters");
  std::array<rte_mbuf*, 2> packets = {Packet(60), Packet(60)};
  ASSERT_EQ(rte_ring_sp_enqueue(in_.get(), packets[0]), 0);
  rte_mbuf* received = nullptr;
  EXPECT_EQ(rte_eth_rx_burst(port_, 0, &received, 1), 0);
  EXPECT_EQ(rte_eth_tx_burst(port_, 0, &packets[1], 1), 1);
  EXPECT_EQ(rte_ring_count(out_.get()), 1U);
  EXPECT_EQ(shm()->polls, 1U);
  EXPECT_NE(shm()->polling_tid, 0) << "the thread that polls can be told here, too";
}

TEST_F(NetUnisTest, WithoutARingToSendToItOnlyReceives) {
  Open("rx=in,shm=counters");
  rte_mbuf* packet = Packet(60);
  ASSERT_EQ(rte_ring_sp_enqueue(in_.get(), packet), 0);
  rte_mbuf* received = nullptr;
  ASSERT_EQ(rte_eth_rx_burst(port_, 0, &received, 1), 1);
  EXPECT_EQ(rte_eth_tx_burst(port_, 0, &received, 1), 0) << "it stays the program's";
  EXPECT_EQ(shm()->tx_refused, 1U);
  rte_pktmbuf_free(received);
}

TEST_F(NetUnisTest, TellsWhichThreadPolls) {
  Open();
  EXPECT_EQ(shm()->polling_tid, 0);
  std::int32_t tid = 0;
  std::thread([&] {
    tid = static_cast<std::int32_t>(syscall(SYS_gettid));
    rte_mbuf* packet = nullptr;
    rte_eth_rx_burst(port_, 0, &packet, 1);
  }).join();
  EXPECT_EQ(shm()->polling_tid, tid);
}

TEST_F(NetUnisTest, AThreadOfAProcessBeforeDoesNotPollAnyMore) {
  shm()->polling_tid = 4711;
  Open();
  EXPECT_EQ(shm()->polling_tid, 0);
  rte_mbuf* packet = nullptr;
  rte_eth_rx_burst(port_, 0, &packet, 1);
  EXPECT_EQ(shm()->polling_tid, static_cast<std::int32_t>(syscall(SYS_gettid)));
}

TEST_F(NetUnisTest, StatisticsAreTheCounters) {
  Open();
  *shm() = {.polls = 1,
            .rx_packets = 2,
            .tx_packets = 4,
            .tx_refused = 6,
            .polling_tid = 7,
            .polling_lcore = 0};
  rte_eth_stats stats;
  ASSERT_EQ(rte_eth_stats_get(port_, &stats), 0);
  EXPECT_EQ(stats.ipackets, 2U);
  EXPECT_EQ(stats.opackets, 4U);
  EXPECT_EQ(stats.oerrors, 6U);
}

// A program that asks its port as any other learns that the engine is dead, and that it is back.
TEST_F(NetUnisTest, TheLinkIsUpWhileTheEngineGoesOn) {
  const Zone heartbeat(rte_memzone_reserve_aligned(UNIS_HEARTBEAT, sizeof(unis_heartbeat),
                                                   SOCKET_ID_ANY, 0, RTE_CACHE_LINE_SIZE));
  ASSERT_TRUE(heartbeat);
  auto* const engine = static_cast<unis_heartbeat*>(heartbeat->addr);
  engine->beats = 1;
  Open();
  const auto becomes = [&](int status, bool beats) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    rte_eth_link link{};
    do {
      for (int i = 0; i < 10'000; ++i) {
        rte_mbuf* packet = nullptr;
        (void)rte_eth_rx_burst(port_, 0, &packet, 1);
      }
      if (beats) ++engine->beats;
      EXPECT_EQ(rte_eth_link_get_nowait(port_, &link), 0);
    } while (link.link_status != status && std::chrono::steady_clock::now() < end);
    return link.link_status == status;
  };
  EXPECT_TRUE(becomes(RTE_ETH_LINK_UP, true));
  EXPECT_TRUE(becomes(RTE_ETH_LINK_DOWN, false));
  EXPECT_TRUE(becomes(RTE_ETH_LINK_UP, true));
  Remove();
}

// What programs do to a port before they use it.
TEST_F(NetUnisTest, IsAnOrdinaryPort) {
  Open();
  rte_eth_link link;
  ASSERT_EQ(rte_eth_link_get_nowait(port_, &link), 0);
  EXPECT_EQ(link.link_status, RTE_ETH_LINK_UP);
  EXPECT_EQ(rte_eth_promiscuous_enable(port_), 0);
  EXPECT_EQ(rte_eth_promiscuous_get(port_), 1);
  EXPECT_EQ(rte_eth_allmulticast_enable(port_), 0);
  EXPECT_EQ(rte_eth_dev_set_mtu(port_, 1400), 0);
  rte_ether_addr mac;
  ASSERT_EQ(rte_eth_macaddr_get(port_, &mac), 0);
  EXPECT_TRUE(rte_is_local_admin_ether_addr(&mac));
  EXPECT_TRUE(rte_is_unicast_ether_addr(&mac));
  rte_ether_addr other = {{2, 0, 0, 0, 0, 9}};
  ASSERT_EQ(rte_eth_dev_default_mac_addr_set(port_, &other), 0);
  ASSERT_EQ(rte_eth_macaddr_get(port_, &mac), 0);
  EXPECT_TRUE(rte_is_same_ether_addr(&mac, &other));
  ASSERT_EQ(rte_eth_dev_stop(port_), 0);
  ASSERT_EQ(rte_eth_link_get_nowait(port_, &link), 0);
  EXPECT_EQ(link.link_status, RTE_ETH_LINK_DOWN);
  EXPECT_EQ(rte_eth_dev_start(port_), 0);
  const rte_eth_conf conf{};
  ASSERT_EQ(rte_eth_dev_stop(port_), 0);
  EXPECT_NE(rte_eth_dev_configure(port_, 2, 2, &conf), 0) << "there is one queue a direction";
}

// What DPDK logs while it lives.
class Log {
 public:
  Log() : stream_(open_memstream(&text_, &size_)) { rte_openlog_stream(stream_); }
  ~Log() {
    rte_openlog_stream(nullptr);
    std::fclose(stream_);
    std::free(text_);
  }
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;
  std::string text() const {
    std::fflush(stream_);
    return text_;
  }

 private:
  char* text_ = nullptr;
  std::size_t size_ = 0;
  std::FILE* stream_;
};

TEST_F(NetUnisTest, WrongArgumentsAreErrorsWithASentence) {
  const std::string needs = "needs shm=MEMZONE, and rx=RING or tx=RING or both";
  const std::pair<std::string, std::string> mistakes[] = {
      {"", needs},
      {"rx=in,tx=out", needs},
      {"shm=counters", needs},
      {"rx=none,tx=out,shm=counters", "no ring none in this DPDK group"},
      {"rx=in,tx=nowhere,shm=counters", "no ring nowhere in this DPDK group"},
      {"rx=,tx=out,shm=counters", "no ring  in this DPDK group"},
      {"rx=in,tx=out,shm=none", "no memzone none in this DPDK group"},
      {"rx=in,tx=out,shm=counters,more=1", "cannot read the device's arguments"}};
  for (const auto& [arguments, sentence] : mistakes) {
    const Log log;
    EXPECT_NE(Probe(arguments), 0) << arguments;
    EXPECT_EQ(rte_eth_dev_count_total(), 0) << arguments;
    EXPECT_NE(log.text().find("net_unis: "), std::string::npos) << log.text();
    EXPECT_NE(log.text().find(sentence), std::string::npos) << log.text();
  }
  EXPECT_EQ(Probe(kArguments), 0) << "a mistake is held against the next try";
}

// A group has 32 ports at most; NFs come and go.
TEST_F(NetUnisTest, RemovingFreesItsSlot) {
  for (int i = 0; i < 3 * RTE_MAX_ETHPORTS; ++i) {
    Open();
    if (HasFatalFailure()) FAIL() << "at the " << i << "th port";
    Remove();
    ASSERT_EQ(rte_eth_dev_count_total(), 0);
  }
}

TEST_F(NetUnisTest, ClosingFreesItsSlotToo) {
  for (int i = 0; i < 3; ++i) {
    Open();
    if (HasFatalFailure()) return;
    rte_eth_dev_info info{};
    ASSERT_EQ(rte_eth_dev_info_get(port_, &info), 0);
    ASSERT_EQ(rte_eth_dev_stop(port_), 0);
    ASSERT_EQ(rte_eth_dev_close(port_), 0);
    EXPECT_EQ(rte_eth_dev_count_total(), 0);
    EXPECT_EQ(rte_dev_remove(info.device), 0);
  }
}

}  // namespace
