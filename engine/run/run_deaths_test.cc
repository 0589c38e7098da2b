// Functions that die while the run counts packets.
#include <atomic>
#include <thread>

#include "engine/base/proc.h"
#include "engine/run/run_for_test.h"

namespace unis {
namespace {

class RunDeathsTest : public RunTest {
 protected:
  absl::StatusOr<v1::Account> Settle() {
    v1::SettleRequest request;
    request.set_timeout_ns(20'000'000'000);
    return run_->Settle(request);
  }
  // What is under way has come so far as to put function b there.
  void WaitForClassOfB(int policy) {
    ASSERT_TRUE(Eventually([&] {
      return (sched_getscheduler(functions_[1].pid()) & ~SCHED_RESET_ON_FORK) == policy;
    }));
  }
  // What is under way may end before the engine hears of it.
  bool IsSeenToBeDown(const std::string& name) {
    return Eventually([&] {
      run_->Look();
      return Stats().chains(0).down() == name;
    });
  }
  // Another process plays the function, and packets come through.
  void ComesAgain(const std::string& name, std::size_t i) {
    ASSERT_TRUE(Detach(name).ok());
    ASSERT_TRUE(Attach(name, Spawn(name, i)).ok());
    const auto window = MeasureTraffic(200);
    ASSERT_TRUE(window.ok()) << window.status();
    EXPECT_GT(window->delivered(), 0U);
  }
};

TEST_F(RunDeathsTest, WhileEveryPacketIsCounted) {
  BringUp();
  StopSecond();
  absl::StatusOr<v1::Account> account = absl::UnknownError("");
  std::thread settling = UnderWay([&] {
    account = Settle();
    return account.status();
  });
  WaitForClassOfB(SCHED_OTHER);
  functions_[1].Kill();
  settling.join();
  ASSERT_TRUE(account.ok()) << account.status();
  EXPECT_TRUE(account->exact()) << account->doubt();
  EXPECT_EQ(account->unaccounted(), 0);
  EXPECT_TRUE(IsSeenToBeDown("b"));
  ComesAgain("b", 1);
}

// Nobody dies: a function is kept from its CPU between passing packets on and counting them.
TEST_F(RunDeathsTest, PacketsThatWerePassedOnAndNotCountedYetAreWaitedFor) {
  BringUp(std::chrono::milliseconds(10));
  ASSERT_TRUE(Eventually([&] { return Stats().account().delivered() > 0; }));
  const auto account = Settle();
  ASSERT_TRUE(account.ok()) << account.status();
  EXPECT_TRUE(account->exact()) << account->doubt();
  EXPECT_EQ(account->unaccounted(), 0) << account->ShortDebugString();
  EXPECT_EQ(account->dropped_by_function(), 0U);
}

// It passes them on after all: they were never the dead one's.
TEST_F(RunDeathsTest, WhatALivingFunctionHoldsIsNotWrittenOffWithTheDead) {
  constexpr unsigned kHeld = 40;
  ASSERT_TRUE(run_->Deploy(Chain({"a", "b"})).ok());
  ASSERT_TRUE(Attach("a", Spawn("a", 0)).ok());
  int words[2];
  ASSERT_EQ(pipe2(words, O_NONBLOCK), 0);
  functions_.emplace_back([from = rte_ring_lookup("chain.1"), to = rte_ring_lookup("chain.2"),
                           shm = PortOf("b"), word = words[0]] {
    alarm(60);
    __atomic_store_n(&shm->polling_tid, getpid(), __ATOMIC_RELEASE);
    void* held[kHeld];
    unsigned count = 0;
    for (char said = 0; said == 0;) {
      const unsigned taken = rte_ring_sc_dequeue_burst(from, held + count, kHeld - count, nullptr);
      count += taken;
      __atomic_fetch_add(&shm->rx_packets, taken, __ATOMIC_RELEASE);
      __atomic_fetch_add(&shm->polls, 1, __ATOMIC_RELEASE);
      (void)!read(word, &said, 1);
    }
    rte_ring_sp_enqueue_bulk(to, held, count, nullptr);
    __atomic_fetch_add(&shm->tx_packets, count, __ATOMIC_RELEASE);
    Forward(from, to, shm);
  });
  ASSERT_TRUE(Attach("b", functions_[1].pid()).ok());
  ASSERT_TRUE(Start().ok());
  ASSERT_TRUE(Measure(50).ok());
  functions_[0].Kill();
  ASSERT_TRUE(Eventually([&] {
    run_->Look();
    return Stats().chains(0).down() == "a";
  }));
  const auto before = Settle();
  ASSERT_TRUE(before.ok()) << before.status();
  ASSERT_EQ(write(words[1], "x", 1), 1);
  ComesAgain("a", 0);
  const auto after = Settle();
  ASSERT_TRUE(after.ok()) << after.status();
  EXPECT_TRUE(after->exact()) << after->doubt();
  EXPECT_EQ(after->unaccounted(), 0);
  EXPECT_GE(after->delivered(), before->delivered() + kHeld);
  for (const int end : words) close(end);
}

}  // namespace
}  // namespace unis
