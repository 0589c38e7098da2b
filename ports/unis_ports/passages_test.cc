// What the plug-in notes of sampled packets, as whoever profiles the program reads it. Ports of
// net_ring give back what was sent to them.
#include <gtest/gtest.h>
#include <rte_cycles.h>
#include <rte_dev.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "engine/base/eal_for_test.h"
#include "engine/base/eventually_for_test.h"
#include "engine/base/private_copy_for_test.h"
#include "engine/base/turns.h"
#include "ports/unis_ports/open_port_for_test.h"
#include "ports/unis_ports/passages_for_test.h"
#include "ports/unis_ports/sampling.h"

namespace unis {
namespace {

using Stamps = std::vector<std::uint64_t>;  // 0: a packet that has none

class PassagesTest : public testing::Test {
 protected:
  static constexpr std::uint64_t kPeriod = 1'000;

  void SetUp() override {
    UNIS_NEED_ROOT();
    const char* plugin = std::getenv("UNIS_PORTS");
    ASSERT_NE(plugin, nullptr) << "UNIS_PORTS must name librte_unis_ports.so; run `meson test`";
    static const PrivateCopy copy(plugin);
    ASSERT_TRUE(StartTestEal({"-d", copy.path()}));
    static unis_passages* const shm = PassagesForTest::Find();
    ASSERT_NE(shm, nullptr);
    ASSERT_EQ(shm->version, std::uint32_t{UNIS_PASSAGES_VERSION});
    shm_ = shm;
    reader_.emplace(shm);
    static rte_mempool* const pool =
        rte_pktmbuf_pool_create("passages", 4095, 0, 0, 2176, SOCKET_ID_ANY);
    ASSERT_NE(pool, nullptr);
    pool_ = pool;
    // Another one in each test: what was sampled in one before says nothing.
    static std::uint64_t tests = 0;
    origin_ = ++tests * 1'000'000'000;
  }
  void TearDown() override {
    if (reader_) reader_->End();
    std::uint16_t port;
    RTE_ETH_FOREACH_DEV(port) {
      rte_eth_dev_info info{};
      ASSERT_EQ(rte_eth_dev_info_get(port, &info), 0);
      while (Receive(port, 64) > 0) continue;
      rte_eth_dev_stop(port);
      EXPECT_EQ(rte_dev_remove(info.device), 0);
    }
    EXPECT_EQ(pool_ == nullptr ? 0 : rte_mempool_in_use_count(pool_), 0U);
  }

  std::uint16_t Open() const {
    static int ports = 0;
    return OpenPort("net_ring" + std::to_string(ports++), "", pool_);
  }
  rte_mbuf* Packet(std::uint64_t stamp) const {
    rte_mbuf* const packet = rte_pktmbuf_alloc(pool_);
    std::memset(rte_pktmbuf_append(packet, 60), 0, 60);
    if (stamp != 0) PassagesForTest::Stamp(packet, stamp);
    return packet;
  }
  // In one burst; frees what the driver does not take.
  static std::uint16_t SendPackets(std::uint16_t port, std::vector<rte_mbuf*> packets) {
    const auto count = static_cast<std::uint16_t>(packets.size());
    const std::uint16_t sent = rte_eth_tx_burst(port, 0, packets.data(), count);
    rte_pktmbuf_free_bulk(packets.data() + sent, count - sent);
    return sent;
  }
  std::uint16_t Send(std::uint16_t port, const Stamps& stamps) const {
    std::vector<rte_mbuf*> packets;
    for (const std::uint64_t stamp : stamps) packets.push_back(Packet(stamp));
    return SendPackets(port, std::move(packets));
  }
  static std::uint16_t Receive(std::uint16_t port, std::uint16_t most) {
    std::vector<rte_mbuf*> packets(most);
    const std::uint16_t n = rte_eth_rx_burst(port, 0, packets.data(), most);
    rte_pktmbuf_free_bulk(packets.data(), n);
    return n;
  }
  // What this thread has noted since the last call.
  std::vector<unis_passage> Noted() {
    auto noted = reader_->Since(read_);
    read_ += noted.size();
    return noted;
  }
  Stamps NotedStamps(std::uint32_t kind) {
    Stamps stamps;
    for (const unis_passage& passage : Noted())
      if (passage.kind == kind) stamps.push_back(passage.stamp - origin_);
    return stamps;
  }
  Stamps From(Stamps stamps) const {
    for (std::uint64_t& stamp : stamps) stamp += origin_;
    return stamps;
  }
  void Begin(std::uint32_t looks = 1) {
    reader_->Begin(origin_, kPeriod, looks);
    read_ = reader_->Written();
  }

  unis_passages* shm_ = nullptr;
  std::optional<PassagesForTest> reader_;
  rte_mempool* pool_ = nullptr;
  std::uint64_t origin_ = 0, read_ = 0;
};

TEST_F(PassagesTest, OnePacketOfAPeriodIsSampled) {
  const std::uint16_t port = Open();
  Begin();
  Send(port, From({10, 20, 30}));
  Send(port, From({40, 999}));
  Send(port, From({1'700, 1'800}));
  Send(port, From({1'900, 2'100, 2'200}));
  EXPECT_EQ(NotedStamps(UNIS_SENT), (Stamps{10, 1'700, 2'100}));
  EXPECT_EQ(Receive(port, 4) + Receive(port, 64), 10);
  EXPECT_EQ(NotedStamps(UNIS_RECEIVED), (Stamps{10, 1'700, 2'100}));
}

TEST_F(PassagesTest, LooksNoMoreBehindTheReaderThatIsGone) {
  const std::uint16_t port = Open();
  reader_->Begin(origin_, kPeriod, 1, rte_rdtsc() + rte_get_tsc_hz() * 3600);
  Send(port, From({10}));
  EXPECT_EQ(Receive(port, 4), 1);
  EXPECT_EQ(shm_->looks, 1U);
  reader_->Begin(origin_, kPeriod, 1, rte_rdtsc());
  Send(port, From({1'010}));
  EXPECT_EQ(Receive(port, 4), 1);
  EXPECT_EQ(shm_->looks, 0U);
}

TEST_F(PassagesTest, SaysWhereAndWhenTheBurstWas) {
  const std::uint16_t other = Open(), port = Open();
  Begin();
  const std::uint64_t begin = rte_rdtsc();
  Send(port, From({10, 20, 30}));
  const std::uint64_t middle = rte_rdtsc();
  EXPECT_EQ(Receive(port, 2), 2);
  const std::uint64_t end = rte_rdtsc();
  const auto noted = Noted();
  ASSERT_EQ(noted.size(), 2U);
  EXPECT_NE(port, other);
  EXPECT_EQ(noted[0].kind, UNIS_SENT);
  EXPECT_EQ(noted[0].port, port);
  EXPECT_EQ(noted[0].packets, 3);
  EXPECT_LT(begin, noted[0].begin);
  EXPECT_LT(noted[0].begin, noted[0].end);
  EXPECT_LT(noted[0].end, middle);
  EXPECT_EQ(noted[1].kind, UNIS_RECEIVED);
  EXPECT_EQ(noted[1].port, port);
  EXPECT_EQ(noted[1].packets, 2);
  EXPECT_LT(middle, noted[1].begin);
  EXPECT_LT(noted[1].begin, noted[1].end);
  EXPECT_LT(noted[1].end, end);
  // A sent packet is held up before the burst, a received one after it.
  EXPECT_GT(noted[0].own, 0);
  EXPECT_LT(begin, noted[0].begin - noted[0].own);
  EXPECT_GT(noted[1].own, 0);
  EXPECT_LE(noted[1].end + noted[1].own, end);
}

TEST_F(PassagesTest, ALongHoldUpIsToldAsTheLongest) {
  EXPECT_EQ(unis_own(7, 7 + 65'534), 65'534);
  EXPECT_EQ(unis_own(7, 7 + 65'535), UINT16_MAX);
  EXPECT_EQ(unis_own(7, 7 + (std::uint64_t{1} << 40)), UINT16_MAX);
}

// Whoever has to wait for its turn has not called the driver yet.
TEST_F(PassagesTest, ARestIsNoPartOfTheReceiveCall) {
  const std::uint16_t port = Open();
  const auto turns = Turns::Find(getpid());
  ASSERT_TRUE(turns.ok()) << turns.status();
  std::thread([&] {
    Receive(port, 32);
    (*turns)->SetBudget(1'000'000);
    Begin();
    Send(port, From({10, 20}));
    EXPECT_EQ(Receive(port, 32), 2);
    Send(port, From({1'010, 1'020}));
    __atomic_store_n(&(*turns)->Of(gettid())->rest, 77, __ATOMIC_RELEASE);
    const std::uint64_t before = rte_rdtsc();
    EXPECT_EQ(Receive(port, 32), 2);
    const auto noted = Noted();
    ASSERT_EQ(noted.size(), 4U);
    EXPECT_EQ(noted[3].stamp, origin_ + 1'010);
    EXPECT_GT(noted[3].begin - before, rte_get_tsc_hz() / 1'000 * UNIS_REST_MS * 9 / 10);
  }).join();
  (*turns)->SetBudget(0);
}

TEST_F(PassagesTest, NothingIsTouchedWhileNobodyLooks) {
  const std::uint16_t port = Open();
  Begin();
  reader_->End();
  const std::uint64_t before = reader_->Written();
  Send(port, From({10, 20}));
  EXPECT_EQ(Receive(port, 64), 2);
  EXPECT_EQ(reader_->Written(), before);
  std::thread([&] {
    Send(port, From({1'010, 1'020}));
    EXPECT_EQ(Receive(port, 64), 2);
    EXPECT_EQ(reader_->Log(), nullptr) << "it takes no place";
  }).join();
}

TEST_F(PassagesTest, APacketThatTheDriverRefusesWasNotSent) {
  const std::uint16_t port = Open();
  Begin();
  std::vector<rte_mbuf*> full;
  for (int i = 0; i < 1'022; ++i) full.push_back(Packet(0));
  ASSERT_EQ(SendPackets(port, full), 1'022) << "a ring of net_ring has room for one more";
  EXPECT_EQ(Send(port, From({999, 1'001, 2'001})), 1);
  EXPECT_EQ(NotedStamps(UNIS_SENT), Stamps{999});
  EXPECT_EQ(Send(port, From({1'001, 2'001})), 0);
  EXPECT_EQ(NotedStamps(UNIS_SENT), Stamps{});
  EXPECT_EQ(Receive(port, 8), 8);
  EXPECT_EQ(Send(port, From({1'001, 2'001})), 2) << "it tries again";
  EXPECT_EQ(NotedStamps(UNIS_SENT), (Stamps{1'001, 2'001}));
}

TEST_F(PassagesTest, ABurstMayHavePacketsOfSeveralPeriods) {
  const std::uint16_t port = Open();
  Begin();
  Send(port, From({500, 999, 1'000, 1'001, 5'500, 5'600, 6'000}));
  EXPECT_EQ(NotedStamps(UNIS_SENT), (Stamps{500, 1'000, 5'500, 6'000}));
  EXPECT_EQ(Receive(port, 64), 7);
  const auto noted = Noted();
  ASSERT_EQ(noted.size(), 4U);
  for (const unis_passage& passage : noted) EXPECT_EQ(passage.begin, noted[0].begin);
}

TEST_F(PassagesTest, PacketsWithoutAMarkAreNotLookedAt) {
  const std::uint16_t port = Open();
  Begin();
  rte_mbuf* const cut = Packet(origin_ + 9'000);
  rte_pktmbuf_trim(cut, 1);
  rte_mbuf* const others = Packet(0);
  PassagesForTest::Stamp(others, origin_ + 9'000, PassagesForTest::kMark + 1);
  SendPackets(port,
              {cut, Packet(origin_ + 10), others, Packet(0), Packet(origin_ + 1'010), Packet(0)});
  EXPECT_EQ(NotedStamps(UNIS_SENT), (Stamps{10, 1'010}));
  EXPECT_EQ(Receive(port, 64), 6);
  EXPECT_EQ(NotedStamps(UNIS_RECEIVED), (Stamps{10, 1'010}));
  SendPackets(port, {Packet(0), Packet(0)});
  EXPECT_EQ(Receive(port, 64), 2);
  EXPECT_EQ(Noted().size(), 0U);
}

TEST_F(PassagesTest, PacketsFromBeforeTheOriginAreNotSampled) {
  const std::uint16_t port = Open();
  Begin();
  Send(port, Stamps{origin_ - 2'500, origin_ - 1});
  Send(port, {origin_ - 1, origin_, origin_ + 1});
  EXPECT_EQ(NotedStamps(UNIS_SENT), Stamps{0});
}

TEST_F(PassagesTest, AnotherOriginBeginsAnew) {
  const std::uint16_t port = Open();
  Begin();
  Send(port, From({10, 5'010}));
  EXPECT_EQ(NotedStamps(UNIS_SENT), (Stamps{10, 5'010}));
  reader_->Begin(origin_ + 5'020, 100);
  Send(port, From({5'015, 5'030, 5'040, 5'119, 5'121}));
  EXPECT_EQ(NotedStamps(UNIS_SENT), (Stamps{5'030, 5'121}));
  reader_->Begin(origin_, kPeriod);
  Send(port, From({700, 1'100}));
  EXPECT_EQ(NotedStamps(UNIS_SENT), (Stamps{700, 1'100})) << "also an earlier one";
}

TEST_F(PassagesTest, TheOldestAreOverwritten) {
  const std::uint16_t port = Open();
  Begin();
  const std::uint64_t before = reader_->Written();
  for (std::uint64_t i = 0; i < UNIS_PASSAGES_KEPT + 5; ++i) {
    Send(port, From({i * kPeriod}));
    if (i % 512 == 511)
      while (Receive(port, 64) > 0) continue;
  }
  std::vector<std::uint64_t> sent, kept;
  for (const unis_passage& passage : reader_->Log()->passages)
    if (passage.kind == UNIS_SENT) sent.push_back((passage.stamp - origin_) / kPeriod);
  std::ranges::sort(sent);
  // What was received is noted too: fewer of those that were sent are there.
  const std::uint64_t written = reader_->Written() - before;
  EXPECT_GT(written, std::uint64_t{UNIS_PASSAGES_KEPT});
  for (std::uint64_t i = UNIS_PASSAGES_KEPT + 5 - sent.size(); i < UNIS_PASSAGES_KEPT + 5; ++i)
    kept.push_back(i);
  EXPECT_EQ(sent, kept);
}

TEST_F(PassagesTest, EachThreadHasItsLog) {
  const std::uint16_t one = Open(), two = Open();
  Begin();
  pid_t other = 0;
  Send(one, From({10}));
  std::thread([&] {
    other = gettid();
    Send(two, From({20, 1'020}));
    EXPECT_EQ(NotedStamps(UNIS_SENT).size(), 0U) << "of a thread that has noted less";
    const unis_passage_log& log = *reader_->Log();
    const std::uint64_t written = reader_->Written();
    EXPECT_EQ(log.passages[(written - 2) % UNIS_PASSAGES_KEPT].stamp, origin_ + 20);
    EXPECT_EQ(log.passages[(written - 1) % UNIS_PASSAGES_KEPT].stamp, origin_ + 1'020);
    EXPECT_EQ(log.passages[(written - 1) % UNIS_PASSAGES_KEPT].port, two);
  }).join();
  EXPECT_NE(other, gettid());
  EXPECT_EQ(NotedStamps(UNIS_SENT), Stamps{10});
}

// As in a program that passes packets on in both directions.
TEST_F(PassagesTest, PortsAndDirectionsDoNotDisturbEachOther) {
  const std::uint16_t one = Open(), two = Open();
  Begin();
  Send(one, From({7'010}));
  Send(two, From({10}));
  Send(two, From({20, 1'010}));
  EXPECT_EQ(NotedStamps(UNIS_SENT), (Stamps{7'010, 10, 1'010}));
  EXPECT_EQ(Receive(one, 8), 1);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Receive(two, 1), 1);
  EXPECT_EQ(NotedStamps(UNIS_RECEIVED), (Stamps{7'010, 10, 1'010}));
}

TEST_F(PassagesTest, TwiceForItsCostNotesOnce) {
  const std::uint16_t port = Open();
  Begin(2);
  Send(port, From({10, 20, 1'030}));
  EXPECT_EQ(NotedStamps(UNIS_SENT), (Stamps{10, 1'030}));
  EXPECT_EQ(Receive(port, 64), 3);
  EXPECT_EQ(NotedStamps(UNIS_RECEIVED), (Stamps{10, 1'030}));
}

TEST_F(PassagesTest, WhateverStandsInTheFileNoBurstIsLost) {
  const std::uint16_t port = Open();
  Begin();
  Send(port, From({10}));
  reader_->Begin(origin_ + 1, 0, 77);
  __atomic_store_n(&reader_->Log()->written, UINT64_MAX - 1, __ATOMIC_RELEASE);
  EXPECT_EQ(Send(port, From({11, 12, 13, 14, UINT64_MAX - origin_})), 5);
  reader_->Begin(UINT64_MAX, UINT64_MAX, 1);
  EXPECT_EQ(Send(port, Stamps{UINT64_MAX, UINT64_MAX, 1}), 3);
  reader_->Begin(5, UINT64_MAX - 1, 1);
  EXPECT_EQ(Send(port, Stamps{7, UINT64_MAX}), 2);
  EXPECT_EQ(Receive(port, 64), 11);
  __atomic_store_n(&reader_->Log()->written, 0, __ATOMIC_RELEASE);
}

TEST_F(PassagesTest, ThePlaceOfAThreadThatIsGoneIsFree) {
  const std::uint16_t port = Open();
  for (int i = 0; i < 2 * UNIS_PASSAGES_THREADS; ++i) {
    std::thread([&] {
      reader_->Begin(origin_ + static_cast<std::uint64_t>(i), kPeriod);
      errno = ENOTTY;
      Send(port, From({500}));
      EXPECT_EQ(errno, ENOTTY);
      EXPECT_NE(reader_->Log(), nullptr) << i;
    }).join();
  }
}

TEST_F(PassagesTest, AThreadWithoutAPlaceSendsAndReceives) {
  const std::uint16_t port = Open();
  Begin();
  constexpr int kThreads = UNIS_PASSAGES_THREADS + 8;
  std::atomic<int> done = 0, places = 0;
  std::mutex port_used;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (std::uint64_t round = 0; round < 3; ++round) {
        const std::lock_guard lock(port_used);
        EXPECT_EQ(Send(port, From({round * kPeriod})), 1);
        EXPECT_EQ(Receive(port, 64), 1);
      }
      if (reader_->Log() != nullptr) ++places;
      ++done;
      Eventually([&] { return done == kThreads; });
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(places, UNIS_PASSAGES_THREADS);
  EXPECT_GE(places, UNIS_PASSAGES_THREADS - 2);
}

// A place of packets, in the plainest words: of each period the first that comes, in order.
class Model {
 public:
  Model(std::uint64_t origin, std::uint64_t period) : origin_(origin), period_(period) {}
  void Burst(const Stamps& stamps) {
    std::size_t noted = 0;
    for (const std::uint64_t stamp : stamps) {
      if (stamp < origin_ || noted == 16) continue;
      const std::uint64_t period = (stamp - origin_) / period_;
      if (!periods_.insert(period).second) continue;
      ++noted;
      stamps_.push_back(stamp - origin_);
    }
  }
  const Stamps& stamps() const { return stamps_; }

 private:
  std::uint64_t origin_, period_;
  std::set<std::uint64_t> periods_;
  Stamps stamps_;
};

class RandomPassagesTest : public PassagesTest, public testing::WithParamInterface<unsigned> {};

TEST_P(RandomPassagesTest, SamplesAsTheModelDoes) {
  const std::uint16_t port = Open();
  std::mt19937 random(GetParam());
  const auto below = [&](std::uint64_t n) { return random() % n; };
  const std::uint64_t period = 1 + below(3'000), gap = 1 + below(below(2) == 0 ? 40 : 4'000);
  reader_->Begin(origin_, period, 1 + static_cast<std::uint32_t>(below(2)));
  read_ = reader_->Written();
  Model sent(origin_, period), received(origin_, period);
  Stamps waiting, noted_sent, noted_received;
  std::uint64_t now = origin_ - below(5'000);
  for (int round = 0; round < 300; ++round) {
    Stamps burst(1 + below(64));
    for (std::uint64_t& stamp : burst) stamp = below(5) == 0 ? 0 : now += below(gap);
    const std::uint16_t taken = Send(port, burst);
    burst.resize(taken);
    sent.Burst(burst);
    waiting.insert(waiting.end(), burst.begin(), burst.end());
    if (below(3) > 0) {
      const auto most = static_cast<std::uint16_t>(1 + below(below(8) == 0 ? 500 : 32));
      const std::uint16_t n = Receive(port, most);
      received.Burst({waiting.begin(), waiting.begin() + n});
      waiting.erase(waiting.begin(), waiting.begin() + n);
    }
    for (const unis_passage& passage : Noted()) {
      (passage.kind == UNIS_SENT ? noted_sent : noted_received).push_back(passage.stamp - origin_);
    }
  }
  EXPECT_EQ(noted_sent, sent.stamps());
  EXPECT_EQ(noted_received, received.stamps());
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomPassagesTest, testing::Range(0U, 50U));

}  // namespace
}  // namespace unis
