// What packets cost: measured in a run of its own, else assumed and then followed.
#include <sys/resource.h>

#include <atomic>
#include <thread>

#include "engine/base/proc.h"
#include "engine/run/run_for_test.h"

namespace unis {
namespace {

class RunCostsTest : public RunTest {
 protected:
  void DeployA() {
    ASSERT_TRUE(run_->Deploy(Chain({"a"})).ok());
    ASSERT_TRUE(Attach("a", Spawn("a", 0)).ok());
  }
};

TEST_F(RunCostsTest, AnEstimateWeighsSizesAsTheyCome) {
  DeployA();
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

// Functions share links, so one that leaves a link other than it found it would be seen in the turn
// of the next.
TEST_F(RunCostsTest, EstimatesInTurnsAsOftenAsAsked) {
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
  EXPECT_TRUE(Says(Start(), "costs were measured in this run")) << Start();
}

// Before the start they wait in the class that goes last.
TEST_F(RunCostsTest, AnEstimateStopsFunctionsThatGetNothingOfTheirCpu) {
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

TEST_F(RunCostsTest, AnEstimateWhoseCallerHasGoneIsBrokenOff) {
  DeployA();
  v1::EstimateRequest request;
  request.add_functions("a");
  request.set_rounds(4'000'000'000);
  int asked = 0;
  const auto costs = run_->Estimate(request, [&asked] { return ++asked < 20; });
  EXPECT_EQ(costs.status().code(), absl::StatusCode::kCancelled) << costs.status();
  EXPECT_NE(StateOf(functions_[0].pid()), 'T');
  EXPECT_EQ(sched_getscheduler(functions_[0].pid()), SCHED_IDLE);
}

// The sink does the measuring; the histograms are its own.
TEST_F(RunCostsTest, WhoLooksDoesNotWaitForAnEstimate) {
  DeployA();
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

TEST_F(RunCostsTest, AFunctionThatDiesWhileItsCostIsMeasuredIsNamed) {
  DeployA();
  v1::EstimateRequest request;
  request.add_functions("a");
  request.set_rounds(4'000'000'000);
  absl::StatusOr<v1::EstimateReply> costs = absl::UnknownError("");
  std::thread estimating = UnderWay([&] {
    costs = run_->Estimate(request);
    return costs.status();
  });
  functions_[0].Kill();
  estimating.join();
  EXPECT_TRUE(Says(costs.status(), "costs a") || Says(costs.status(), "function a has ended"))
      << costs.status();
}

TEST_F(RunCostsTest, ChainsThatRunAreNotProbed) {
  BringUp();
  v1::EstimateRequest request;
  request.add_functions("a");
  EXPECT_TRUE(Says(run_->Estimate(request).status(), "the chains run already"));
  v1::SettleRequest settle;
  settle.set_timeout_ns(20'000'000'000);
  const auto account = run_->Settle(settle);
  ASSERT_TRUE(account.ok()) << account.status();
  EXPECT_TRUE(account->exact()) << account->doubt();
}

TEST_F(RunCostsTest, ACostThatNobodyKnowsIsAssumedAndPacketsPass) {
  BringUpUnknown(false);
  const auto window = MeasureTraffic(100);
  ASSERT_TRUE(window.ok()) << window.status();
  EXPECT_GT(window->delivered(), 0U);
  const v1::Stats stats = Stats();
  for (const auto& function : stats.functions()) {
    EXPECT_EQ(function.cost_source(), v1::COST_SOURCE_ASSUMED);
    EXPECT_GT(function.cost_ns(), 0);
  }
}

}  // namespace
}  // namespace unis
