// The plug-in as a program meets it: given to EAL by -d, between the program and the ports that it
// opens, here those of net_null.
#include <ethdev_driver.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <linux/futex.h>
#include <rte_dev.h>
#include <rte_ethdev.h>
#include <rte_ether.h>
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

#include "engine/base/eventually_for_test.h"
#include "engine/base/turns.h"
#include "ports/unis_ports/unis_ports_for_test.h"

namespace unis {
namespace {

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

// The pool of a program: from what it gives first one sees whether it is a LIFO.
bool GivesTheLast(const char* name) {
  rte_mempool* const pool = rte_pktmbuf_pool_create(name, 511, 0, 0, 2176, SOCKET_ID_ANY);
  if (pool == nullptr) return false;
  std::array<rte_mbuf*, 2> packets{};
  EXPECT_EQ(rte_pktmbuf_alloc_bulk(pool, packets.data(), 2), 0);
  rte_pktmbuf_free(packets[0]);
  rte_mbuf* const next = rte_pktmbuf_alloc(pool);
  const bool last = next == packets[0];
  rte_pktmbuf_free(next);
  rte_pktmbuf_free(packets[1]);
  rte_mempool_free(pool);
  return last;
}

TEST_F(UnisPortsTest, APoolIsALifoWherePortsKeepItsBuffers) {
  const auto add = [](const char* name) {
    rte_eth_dev* const port = rte_eth_dev_allocate(name);
    ASSERT_NE(port, nullptr) << name;
    rte_eth_dev_probing_finish(port);
    EXPECT_EQ(rte_eth_dev_release_port(port), 0);
  };
  add("net_memif7");
  EXPECT_FALSE(GivesTheLast("before"));
  add("net_virtio_user7");
  EXPECT_TRUE(GivesTheLast("after"));
}

// Which is known once a process starts: a port whose packets are counted, and one beside it.
TEST_F(UnisPortsTest, PacketsOfAPortAreCountedIfTheyAreAskedFor) {
  const bool asked = std::getenv("UNIS_COUNTED") != nullptr;
  const std::uint16_t first = Open("net_null0", true);
  const std::uint16_t second = Open("net_null1", true);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(Poll(first) + Poll(second), 2 * kBurst);
  std::array<rte_mbuf*, 3> packets{};
  ASSERT_EQ(rte_pktmbuf_alloc_bulk(pool_, packets.data(), packets.size()), 0);
  for (std::uint16_t i = 0; i < packets.size(); ++i) rte_pktmbuf_append(packets[i], 60 + i);
  EXPECT_EQ(rte_eth_tx_burst(first, 0, packets.data(), packets.size()), packets.size());
  const unis_port_count& counted = turns_->port(first);
  EXPECT_EQ(counted.received, asked ? 10 * kBurst : 0U);
  EXPECT_EQ(counted.sent, asked ? 3U : 0U);
  EXPECT_EQ(counted.sent_bytes, asked ? 60U + 61U + 62U : 0U);
  EXPECT_EQ(turns_->port(second).received, 0U);
  EXPECT_EQ(turns_->port(second).sent, 0U);
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

// By that the engine knows of packets of links that it cannot look into.
TEST_F(UnisPortsDrainTest, WhatATurnTookIsCountedOnceItIsOver) {
  const std::uint16_t some = Open("net_ring3", "");
  std::thread([&] {
    Poll(some);
    Begin(1'000'000);
    unis_turn& turn = *turns_->Of(gettid());
    const std::uint32_t before = Load(turn.taken);
    EXPECT_EQ(PollAfter(some, 3), 3);
    EXPECT_EQ(PollAfter(some, kBurst), kBurst);
    EXPECT_EQ(Load(turn.taken), before) << "they are not sent yet";
    EXPECT_EQ(Poll(some), 0);
    EXPECT_EQ(Load(turn.taken), before + 3 + kBurst);
    for (int i = 0; i < 10; ++i) EXPECT_EQ(Poll(some), 0);
    EXPECT_EQ(Load(turn.taken), before + 3 + kBurst);
    Store(turn.rest, 41);
    EXPECT_EQ(PollAfter(some, 2), 2);
    EXPECT_EQ(Poll(some), 0);
    EXPECT_EQ(Load(turn.taken), before + 5 + kBurst) << "also where it goes to sleep";
    Store(turn.rest, 0);
  }).join();
}

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
