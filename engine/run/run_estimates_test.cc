// Estimates of a run: who may take one when, and that it leaves nothing behind.
#include <sys/resource.h>

#include <atomic>
#include <thread>

#include "engine/run/run_for_test.h"

namespace unis {
namespace {

TEST_F(RunTest, AnEstimateWeighsSizesAsTheyCome) {
  ASSERT_TRUE(run_->Deploy(Chain({"a"})).ok());
  ASSERT_TRUE(Attach("a", Spawn("a", 0)).ok());
  v1::EstimateRequest request;
  request.add_functions("a");
  request.add_sizes(64);
  request.add_sizes(1500);
  request.add_shares(999);
  EXPECT_EQ(run_->Estimate(request).status().code(), absl::StatusCode::kInvalidArgument);
  request.add_shares(1);
  const auto costs = run_->Estimate(request);
  ASSERT_TRUE(costs.ok()) << costs.status();
  const v1::FunctionEstimate& function = costs->functions(0);
  ASSERT_NE(function.sizes(0).ns(), function.sizes(1).ns());
  EXPECT_NEAR(function.ns(), (999 * function.sizes(0).ns() + function.sizes(1).ns()) / 1000, 1e-6);
}

// Before the start and while the chains run. Functions share links, so one that leaves a link other
// than it found it would be seen in the turn of the next.
TEST_F(RunTest, EstimatesInTurnsAsOftenAsAsked) {
  ASSERT_TRUE(run_->Deploy(Chain({"a", "b"})).ok());
  ASSERT_TRUE(Attach("a", Spawn("a", 0)).ok());
  ASSERT_TRUE(Attach("b", Spawn("b", 1)).ok());
  v1::EstimateRequest request;
  request.add_functions("a");
  request.add_functions("b");
  request.add_sizes(64);
  request.add_sizes(1500);
  for (int i = 0; i < 2; ++i) {
    const auto costs = run_->Estimate(request);
    ASSERT_TRUE(costs.ok()) << costs.status();
    ASSERT_EQ(costs->functions_size(), 2);
    EXPECT_EQ(costs->functions(1).sizes_size(), 2);
    EXPECT_GT(costs->functions(0).ns(), 0);
  }
  ASSERT_TRUE(Start().ok());
  ASSERT_TRUE(run_->Estimate(request).ok());
  const auto window = Measure(100);
  ASSERT_TRUE(window.ok());
  EXPECT_GT(window->delivered(), 0U);
  v1::SettleRequest settle;
  settle.set_timeout_ns(5'000'000'000);
  EXPECT_EQ(run_->Settle(settle)->unaccounted(), 0);
}

// Before the start they wait in the class that goes last.
TEST_F(RunTest, AnEstimateStopsFunctionsThatGetNothingOfTheirCpu) {
  ASSERT_TRUE(run_->Deploy(Chain({"a", "b"})).ok());
  ASSERT_TRUE(Attach("a", Spawn("a", 0)).ok());
  ASSERT_TRUE(Attach("b", Spawn("b", 1)).ok());
  const ChildProcess starver([] {
    cpu_set_t last;
    CPU_ZERO(&last);
    CPU_SET(LastCpu(), &last);
    sched_setaffinity(0, sizeof(last), &last);
    setpriority(PRIO_PROCESS, 0, -20);
    for (std::atomic<unsigned> turns = 0;; ++turns) {
    }
  });
  const auto pid = static_cast<id_t>(starver.pid());
  ASSERT_TRUE(Eventually([&] { return getpriority(PRIO_PROCESS, pid) == -20; }));
  v1::EstimateRequest request;
  request.add_functions("a");
  request.add_functions("b");
  for (int i = 0; i < 3; ++i) {
    const auto costs = run_->Estimate(request);
    ASSERT_TRUE(costs.ok()) << costs.status();
  }
  for (const ChildProcess& function : functions_)
    EXPECT_EQ(sched_getscheduler(function.pid()), SCHED_IDLE);
}

// Of two functions one is estimated while the kernel decides: both go on in its class.
TEST_F(RunTest, AnEstimateLeavesTheClassesAsTheyWere) {
  BringUp();
  ASSERT_TRUE(SetPolicy(v1::POLICY_OTHER).ok());
  v1::EstimateRequest request;
  request.add_functions("a");
  ASSERT_TRUE(run_->Estimate(request).ok());
  const auto stats = Stats();
  for (const auto& function : stats.functions()) EXPECT_EQ(function.scheduling(), "other");
}

TEST_F(RunTest, AnEstimateWhoseCallerHasGoneIsBrokenOffAndLeavesNothing) {
  BringUp();
  v1::EstimateRequest request;
  request.add_functions("a");
  request.set_rounds(4'000'000'000);
  int asked = 0;
  const auto costs = run_->Estimate(request, [&asked] { return ++asked < 20; });
  EXPECT_EQ(costs.status().code(), absl::StatusCode::kCancelled) << costs.status();
  v1::SettleRequest settle;
  settle.set_timeout_ns(5'000'000'000);
  const auto account = run_->Settle(settle);
  ASSERT_TRUE(account.ok()) << account.status();
  EXPECT_TRUE(account->exact()) << account->doubt();
  EXPECT_EQ(account->unaccounted(), 0);
}

// The sink does the measuring; the histograms are its own.
TEST_F(RunTest, WhoLooksDoesNotWaitForAnEstimate) {
  BringUp();
  v1::EstimateRequest request;
  request.add_functions("a");
  request.set_rounds(4'000'000'000);
  std::atomic<bool> wanted{true};
  absl::StatusOr<v1::EstimateReply> costs = absl::UnknownError("");
  std::thread estimating = UnderWay([&] {
    costs = run_->Estimate(request, [&] { return wanted.load(); });
    return costs.status();
  });
  v1::StatsRequest look;
  look.set_latency(true);
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(run_->GetStats(look).ok());
  wanted = false;
  estimating.join();
  EXPECT_EQ(costs.status().code(), absl::StatusCode::kCancelled);
}

// What it holds back may come any time, and nobody offered it.
TEST_F(RunTest, AnEstimateOfAFunctionThatKeepsPacketsKeepsFromTheStart) {
  ASSERT_TRUE(run_->Deploy(Chain({"a"})).ok());
  functions_.emplace_back([from = rte_ring_lookup("chain.0"), shm = PortOf("a")] {
    alarm(60);
    __atomic_store_n(&shm->polling_tid, getpid(), __ATOMIC_RELEASE);
    void* kept[64];
    for (;;) {
      __atomic_fetch_add(&shm->rx_packets, rte_ring_sc_dequeue_burst(from, kept, 64, nullptr),
                         __ATOMIC_RELEASE);
      __atomic_fetch_add(&shm->polls, 1, __ATOMIC_RELEASE);
    }
  });
  ASSERT_TRUE(Attach("a", functions_[0].pid()).ok());
  v1::EstimateRequest request;
  request.add_functions("a");
  const auto costs = run_->Estimate(request);
  EXPECT_TRUE(Says(costs.status(), "cannot estimate what a packet of 64 bytes costs a"))
      << costs.status();
  EXPECT_TRUE(Says(Start(), "an estimate of a could not be brought to an end")) << Start();
  const auto account = run_->Stop({});
  ASSERT_TRUE(account.ok()) << account.status();
  EXPECT_FALSE(account->exact());
  EXPECT_NE(account->doubt().find("an estimate of a"), std::string::npos) << account->doubt();
}

}  // namespace
}  // namespace unis
