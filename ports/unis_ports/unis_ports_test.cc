// The plug-in as a program meets it: given to EAL by -d, between the program and the ports that it
// opens, here those of net_null.
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <linux/futex.h>
#include <rte_dev.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "engine/base/eal_for_test.h"
#include "engine/base/eventually_for_test.h"
#include "engine/base/private_copy_for_test.h"
#include "engine/controller/turns.h"

namespace unis {
namespace {

constexpr std::uint16_t kBurst = 32;

class UnisPortsTest : public testing::Test {
 protected:
  void SetUp() override {
    UNIS_NEED_ROOT();
    const char* plugin = std::getenv("UNIS_PORTS");
    ASSERT_NE(plugin, nullptr) << "UNIS_PORTS must name librte_unis_ports.so; run `meson test`";
    static const PrivateCopy copy(plugin);
    ASSERT_TRUE(StartTestEal({"-d", copy.path()}));
    auto found = Turns::Find(getpid());
    ASSERT_TRUE(found.ok()) << found.status();
    turns_ = *std::move(found);
    static rte_mempool* const pool =
        rte_pktmbuf_pool_create("pool", 511, 0, 0, 2176, SOCKET_ID_ANY);
    ASSERT_NE(pool, nullptr);
    pool_ = pool;
  }
  void TearDown() override {
    if (turns_) turns_->SetBudget(0);
    std::uint16_t port;
    RTE_ETH_FOREACH_DEV(port) {
      rte_eth_dev_info info{};
      ASSERT_EQ(rte_eth_dev_info_get(port, &info), 0);
      rte_eth_dev_stop(port);
      EXPECT_EQ(rte_dev_remove(info.device), 0);
    }
  }

  // As any program opens a port: one that always has packets, or never.
  std::uint16_t Open(const std::string& name, bool full) const {
    return Open(name, full ? ",size=64" : ",no-rx=1");
  }
  std::uint16_t Open(const std::string& name, const char* arguments) const {
    EXPECT_EQ(rte_dev_probe((name + arguments).c_str()), 0);
    std::uint16_t port = 0;
    EXPECT_EQ(rte_eth_dev_get_port_by_name(name.c_str(), &port), 0);
    const rte_eth_conf conf{};
    EXPECT_EQ(rte_eth_dev_configure(port, 1, 1, &conf), 0);
    EXPECT_EQ(rte_eth_rx_queue_setup(port, 0, 128, 0, nullptr, pool_), 0);
    EXPECT_EQ(rte_eth_tx_queue_setup(port, 0, 128, 0, nullptr), 0);
    EXPECT_EQ(rte_eth_dev_start(port), 0);
    return port;
  }
  static std::uint16_t Poll(std::uint16_t port) {
    std::array<rte_mbuf*, kBurst> packets{};
    const std::uint16_t n = rte_eth_rx_burst(port, 0, packets.data(), kBurst);
    rte_pktmbuf_free_bulk(packets.data(), n);
    return n;
  }
  // Turns that this thread has passed on.
  std::uint32_t Turns_() const { return turns_->Of(gettid())->began - first_; }
  void Begin(std::uint32_t quota) {
    turns_->SetBudget(quota);
    first_ = turns_->Of(gettid())->began;
  }

  // As the engine says it.
  static void Store(std::uint32_t& word, std::uint32_t value) {
    __atomic_store_n(&word, value, __ATOMIC_RELEASE);
  }
  static std::uint32_t Load(const std::uint32_t& word) {
    return __atomic_load_n(&word, __ATOMIC_ACQUIRE);
  }
  static bool Sleeps(const unis_turn& turn) { return Load(turn.passed) == Load(turn.began); }

  std::shared_ptr<Turns> turns_;
  rte_mempool* pool_ = nullptr;
  std::uint32_t first_ = 0;
};

TEST_F(UnisPortsTest, WithoutAQuotaNothingIsPassedOn) {
  const std::uint16_t full = Open("net_null0", true);
  const std::uint16_t empty = Open("net_null1", false);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(Poll(full) + Poll(empty), kBurst);
  Begin(0);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(Poll(full) + Poll(empty), kBurst);
  EXPECT_EQ(Turns_(), 0u);
}

TEST_F(UnisPortsTest, ATurnEndsBeforeThePollThatWouldExceedTheQuota) {
  const std::uint16_t full = Open("net_null0", true);
  Poll(full);
  Begin(4 * kBurst);
  for (int i = 0; i < 4; ++i) Poll(full);
  EXPECT_EQ(Turns_(), 0u) << "what was received last is still to be sent";
  Poll(full);
  EXPECT_EQ(Turns_(), 1u);
  for (int i = 0; i < 4 * 25; ++i) Poll(full);
  EXPECT_EQ(Turns_(), 26u);
}

TEST_F(UnisPortsTest, NoMoreIsTakenThanIsGranted) {
  const std::uint16_t full = Open("net_null0", true);
  Poll(full);
  Begin(1'000'000);
  unis_turn& turn = *turns_->Of(gettid());
  Store(turn.grant, 1 * (UNIS_GRANT_MOST + 1) + 2 * kBurst);
  EXPECT_EQ(Poll(full) + Poll(full), 2 * kBurst);
  EXPECT_EQ(Turns_(), 0u);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(Poll(full), 0) << "the program does its other work";
  EXPECT_EQ(Turns_(), 100u) << "each turn is passed on";
  Store(turn.grant, 2 * (UNIS_GRANT_MOST + 1) + kBurst);
  EXPECT_EQ(Poll(full), kBurst) << "another grant";
  EXPECT_EQ(Poll(full), 0);
  Store(turn.grant, 3 * (UNIS_GRANT_MOST + 1));
  EXPECT_EQ(Poll(full), 0) << "a grant of nothing";
  Store(turn.grant, 0);
  const std::uint32_t turns = Turns_();
  for (int i = 0; i < 100; ++i) EXPECT_EQ(Poll(full), kBurst) << "any number";
  EXPECT_EQ(Turns_(), turns);
}

TEST_F(UnisPortsTest, NobodyWaitsForEverForAGrant) {
  const std::uint16_t full = Open("net_null0", true);
  Poll(full);
  Begin(1'000'000);
  Store(turns_->Of(gettid())->grant, UNIS_GRANT_MOST + 1);
  EXPECT_EQ(Poll(full), 0);
  EXPECT_TRUE(Eventually([&] { return Poll(full) == kBurst; }));
  Store(turns_->Of(gettid())->grant, 0);
}

// In a thread that has never polled another port.
TEST_F(UnisPortsTest, ATurnEndsWhenTheOnlyPortIsFoundEmpty) {
  const std::uint16_t empty = Open("net_null0", false);
  std::thread([&] {
    Poll(empty);
    Begin(1'000'000);
    Poll(empty);
    EXPECT_EQ(Turns_(), 1u);
    for (int i = 0; i < 100; ++i) Poll(empty);
    EXPECT_EQ(Turns_(), 101u);
  }).join();
}

TEST_F(UnisPortsTest, APortWithPacketsIsAPortToo) {
  const std::uint16_t empty = Open("net_null0", false);
  const std::uint16_t full = Open("net_null1", true);
  std::thread([&] {
    Poll(full);
    Begin(1'000'000);
    for (int i = 0; i < 100; ++i) Poll(full), Poll(empty);
    EXPECT_EQ(Turns_(), 0u);
    for (int i = 0; i < 100; ++i) Poll(empty);
    EXPECT_EQ(Turns_(), 50u) << "it may still poll the other";
  }).join();
}

TEST_F(UnisPortsTest, PortsWithoutPacketsEndNoTurnWhileOneHasSome) {
  const std::uint16_t empty = Open("net_null0", false);
  const std::uint16_t full = Open("net_null1", true);
  Poll(full);
  Begin(1'000'000);
  for (int i = 0; i < 100; ++i) Poll(empty), Poll(full);
  EXPECT_EQ(Turns_(), 0u);
}

TEST_F(UnisPortsTest, AllPortsOfARoundHaveToBeEmpty) {
  const std::uint16_t one = Open("net_null0", false);
  const std::uint16_t two = Open("net_null1", false);
  Poll(one);
  Begin(1'000'000);
  const std::uint32_t before = Turns_();
  for (int i = 0; i < 300; ++i) Poll(one), Poll(two);
  // Three polls a turn: the first port, the second, and the first again.
  EXPECT_EQ(Turns_() - before, 200u);
}

TEST_F(UnisPortsTest, APortThatIsNoLongerPolledKeepsNoTurn) {
  const std::uint16_t one = Open("net_null0", false);
  const std::uint16_t two = Open("net_null1", false);
  Poll(two);
  Begin(1'000'000);
  Poll(one);
  for (int i = 0; i < 5'000; ++i) Poll(two);
  EXPECT_GE(Turns_(), 1'000U);
}

TEST_F(UnisPortsTest, ATurnThatIsAskedForEndsAtTheNextPoll) {
  const std::uint16_t full = Open("net_null0", true);
  Poll(full);
  Begin(1'000'000);
  Poll(full);
  unis_turn* const turn = turns_->Of(gettid());
  turn->leave = turn->began;
  Poll(full);
  EXPECT_EQ(Turns_(), 1u);
  Poll(full);
  EXPECT_EQ(Turns_(), 1u) << "that turn, and none after it";
}

TEST_F(UnisPortsTest, EachThreadHasItsTurns) {
  const std::uint16_t full = Open("net_null0", true);
  Poll(full);
  Begin(kBurst);
  std::uint32_t other = 0;
  std::thread([&] {
    for (int i = 0; i < 10; ++i) Poll(full);
    other = turns_->Of(gettid())->began;
  }).join();
  EXPECT_EQ(other, 1u + 9u);
  EXPECT_EQ(Turns_(), 0u);
}

TEST_F(UnisPortsTest, APortThatIsStartedAgainIsStillOurs) {
  const std::uint16_t full = Open("net_null0", true);
  ASSERT_EQ(rte_eth_dev_stop(full), 0);
  ASSERT_EQ(rte_eth_dev_start(full), 0);
  Poll(full);
  Begin(kBurst);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Poll(full), kBurst);
  EXPECT_GE(Turns_(), 2u);
}

// Run with UNIS_OFFLOADS and without: a driver that checks no checksums.
TEST_F(UnisPortsTest, OffloadsAreThereIfTheyAreAskedFor) {
  const bool asked = std::getenv("UNIS_OFFLOADS") != nullptr;
  ASSERT_EQ(rte_dev_probe("net_null0"), 0);
  std::uint16_t port = 0;
  ASSERT_EQ(rte_eth_dev_get_port_by_name("net_null0", &port), 0);
  rte_eth_dev_info info{};
  ASSERT_EQ(rte_eth_dev_info_get(port, &info), 0);
  EXPECT_EQ(info.rx_offload_capa, asked ? RTE_ETH_RX_OFFLOAD_CHECKSUM : 0);
  rte_eth_conf conf{};
  conf.rxmode.offloads = RTE_ETH_RX_OFFLOAD_CHECKSUM;
  EXPECT_EQ(rte_eth_dev_configure(port, 1, 1, &conf) == 0, asked);
}

// Likewise: a driver whose frames have 1518 bytes.
TEST_F(UnisPortsTest, LongFramesAreTakenIfTheyAreAskedFor) {
  const bool asked = std::getenv("UNIS_OFFLOADS") != nullptr;
  ASSERT_EQ(rte_dev_probe("net_memif0,role=server,socket=unis_ports_test,socket-abstract=yes"), 0);
  std::uint16_t port = 0;
  ASSERT_EQ(rte_eth_dev_get_port_by_name("net_memif0", &port), 0);
  rte_eth_conf conf{};
  EXPECT_EQ(rte_eth_dev_configure(port, 1, 1, &conf), 0);
  conf.rxmode.mtu = 9000;
  EXPECT_EQ(rte_eth_dev_configure(port, 1, 1, &conf) == 0, asked);
  EXPECT_EQ(rte_eth_dev_close(port), 0);
}

// A thread that polls an empty port until it is told to end.
class UnisPortsRestTest : public UnisPortsTest {
 protected:
  void Begin(const std::vector<std::uint16_t>& ports) {
    poller_ = std::thread([this, ports] {
      tid_ = gettid();
      while (!end_) {
        errno = ENOTTY;
        for (const std::uint16_t port : ports) Poll(port);
        if (errno != ENOTTY) errno_kept_ = false;
        ++rounds_;
      }
    });
    ASSERT_TRUE(Eventually([this] { return tid_ != 0 && turns_->Of(tid_) != nullptr; }));
    turn_ = turns_->Of(tid_);
    Store(turn_->rest, 0);
    ASSERT_TRUE(Runs());
  }
  void TearDown() override {
    end_ = true;
    if (turn_ != nullptr) Wake();
    if (poller_.joinable()) poller_.join();
    UnisPortsTest::TearDown();
  }
  void Wake() {
    Store(turn_->rest, 0);
    syscall(SYS_futex, &turn_->rest, FUTEX_WAKE, 1, nullptr, nullptr, 0);
  }
  // More rounds than one that is told to rest polls in the time.
  bool Runs() const {
    const std::uint64_t before = rounds_;
    return Eventually([&] { return rounds_ > before + 10'000; });
  }

  std::atomic<bool> end_ = false, errno_kept_ = true;
  std::atomic<pid_t> tid_ = 0;
  std::atomic<std::uint64_t> rounds_ = 0;
  unis_turn* turn_ = nullptr;
  std::thread poller_;
};

TEST_F(UnisPortsRestTest, SleepsWhenItIsToldAndWakesWhenItIsTold) {
  ASSERT_NO_FATAL_FAILURE(Begin({Open("net_null0", false)}));
  // Renewed all the time, as by an engine that lives.
  std::atomic<bool> renew = true;
  std::atomic<std::uint32_t> word = 0;
  std::thread engine([&] {
    while (renew) {
      Store(turn_->rest, ++word);
      std::this_thread::sleep_for(std::chrono::microseconds(200 * UNIS_REST_MS));
    }
  });
  EXPECT_TRUE(Eventually([&] { return Sleeps(*turn_); }));
  // No word ends its sleep twice, and it polls once each time that it wakes. More only where the
  // word comes late.
  EXPECT_TRUE(Eventually([&] {
    const std::uint64_t rounds = rounds_;
    const std::uint32_t words = word, began = Load(turn_->began);
    Eventually([&] { return Load(turn_->began) > began + 10; });
    const std::uint32_t woke = Load(turn_->began) - began;
    return woke > 10 && woke <= word - words + 1 && rounds_ - rounds <= 2 * woke;
  }));
  renew = false;
  engine.join();
  Wake();
  EXPECT_TRUE(Runs());
  EXPECT_TRUE(errno_kept_);
}

TEST_F(UnisPortsRestTest, WhenNobodyRenewsTheWordItGoesOnByItself) {
  ASSERT_NO_FATAL_FAILURE(Begin({Open("net_null0", false)}));
  Store(turn_->rest, 7);
  EXPECT_TRUE(Runs());
  EXPECT_TRUE(Runs()) << "and does not sleep again";
  Store(turn_->rest, 8);
  EXPECT_TRUE(Eventually([&] { return Sleeps(*turn_); })) << "the engine is there again";
  EXPECT_TRUE(Runs());
}

TEST_F(UnisPortsRestTest, SleepsOnlyWhenAllItsPortsAreEmpty) {
  const std::uint16_t empty = Open("net_null0", false);
  const std::uint16_t full = Open("net_null1", true);
  ASSERT_NO_FATAL_FAILURE(Begin({empty, full}));
  const std::uint32_t began = Load(turn_->began);
  Store(turn_->rest, 9);
  EXPECT_TRUE(Runs());
  EXPECT_EQ(Load(turn_->began), began);
}

// A port that gives what was sent to it.
class UnisPortsDrainTest : public UnisPortsTest {
 protected:
  // A poll finds `packets` more, and less than it asks for.
  std::uint16_t PollAfter(std::uint16_t port, std::uint16_t packets) const {
    std::array<rte_mbuf*, kBurst> sent{};
    EXPECT_EQ(rte_pktmbuf_alloc_bulk(pool_, sent.data(), packets), 0);
    EXPECT_EQ(rte_eth_tx_burst(port, 0, sent.data(), packets), packets);
    return Poll(port);
  }
  static std::uint32_t Began(const unis_turn& turn) { return Load(turn.began); }
};

// Else a program for which packets come faster than it works on a few of them never sleeps.
TEST_F(UnisPortsDrainTest, SleepsWhereItsPortsGaveLessThanWasAskedFor) {
  const std::uint16_t some = Open("net_ring0", "");
  const std::uint16_t full = Open("net_null0", true);
  std::thread([&] {
    Poll(some);
    Begin(1'000'000);
    EXPECT_EQ(PollAfter(some, 3), 3);
    unis_turn& turn = *turns_->Of(gettid());
    const std::uint32_t began = Began(turn);
    EXPECT_EQ(PollAfter(some, 3), 3) << "nobody has told it to";
    EXPECT_EQ(Began(turn), began);
    Store(turn.rest, 21);
    EXPECT_EQ(PollAfter(some, 3), 3) << "after its sleep it polls";
    EXPECT_EQ(Began(turn), began + 1);
    Store(turn.rest, 22);
    EXPECT_EQ(PollAfter(some, kBurst), kBurst);
    EXPECT_EQ(Began(turn), began + 2) << "the burst before was short";
    Store(turn.rest, 23);
    EXPECT_EQ(PollAfter(some, 3), 3);
    EXPECT_EQ(Began(turn), began + 2) << "all that was asked for: there may be more";
    Store(turn.rest, 24);
    for (int i = 0; i < 100; ++i) Poll(full);
    EXPECT_EQ(Began(turn), began + 2);
    Store(turn.rest, 0);
  }).join();
}

TEST_F(UnisPortsDrainTest, AllPortsOfARoundHaveToBeDrained) {
  const std::uint16_t some = Open("net_ring1", "");
  const std::uint16_t other = Open("net_ring2", "");
  std::thread([&] {
    Poll(some), Poll(other);
    Begin(1'000'000);
    unis_turn& turn = *turns_->Of(gettid());
    Store(turn.rest, 31);
    PollAfter(other, kBurst);
    const std::uint32_t began = Began(turn);
    PollAfter(some, 3), PollAfter(some, 2);
    EXPECT_EQ(Began(turn), began) << "it drains one port before it polls the other";
    PollAfter(other, 5);
    EXPECT_EQ(Began(turn), began);
    PollAfter(some, 1);
    EXPECT_EQ(Began(turn), began + 1);
    Store(turn.rest, 0);
  }).join();
}

TEST_F(UnisPortsRestTest, RestsAlsoWhereItPassesTheCpuOn) {
  ASSERT_NO_FATAL_FAILURE(Begin({Open("net_null0", false)}));
  turns_->SetBudget(kBurst);
  ASSERT_TRUE(Runs());
  Store(turn_->rest, 11);
  EXPECT_TRUE(Eventually([&] { return Sleeps(*turn_); }));
  Wake();
  EXPECT_TRUE(Runs());
}

// More threads than there are places: the last have none, poll as ever, and pass nothing on.
TEST_F(UnisPortsTest, AThreadWithoutAPlacePolls) {
  const std::uint16_t full = Open("net_null0", true);
  Poll(full);
  Begin(kBurst);
  constexpr int kThreads = UNIS_TURNS_THREADS + 8;
  std::atomic<int> done = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (int polls = 0; polls < 3; ++polls) EXPECT_EQ(Poll(full), kBurst);
      ++done;
      Eventually([&] { return done == kThreads; });
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(done, kThreads);
}

TEST_F(UnisPortsTest, ThePlaceOfAThreadThatIsGoneIsFree) {
  const std::uint16_t full = Open("net_null0", true);
  for (int i = 0; i < 2 * UNIS_TURNS_THREADS; ++i) {
    std::thread([&] {
      errno = ENOTTY;
      Poll(full);
      EXPECT_EQ(errno, ENOTTY);
      unis_turn* const turn = turns_->Of(gettid());
      ASSERT_NE(turn, nullptr) << i;
      EXPECT_EQ(Load(turn->rest), 0U);
      Store(turn->rest, 5);  // said to it when it had gone
    }).join();
  }
}

// DPDK sets promiscuous mode when a port starts, which takes CAP_NET_ADMIN where the port is a
// device of the kernel's.
TEST_F(UnisPortsTest, AKernelDeviceStartsWithoutTheRightToChangeIt) {
  __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  std::array<__user_cap_data_struct, 2> whole{};
  ASSERT_EQ(syscall(SYS_capget, &header, whole.data()), 0);
  auto without = whole;
  without[0].effective &= ~(1U << CAP_NET_ADMIN);
  ASSERT_EQ(syscall(SYS_capset, &header, without.data()), 0);
  const std::uint16_t port = Open("net_af_packet0", ",iface=lo");
  EXPECT_EQ(rte_eth_promiscuous_enable(port), -ENOTSUP);
  EXPECT_EQ(syscall(SYS_capset, &header, whole.data()), 0);
}

}  // namespace
}  // namespace unis
