// The end of a run, whatever it is doing: at once, and with everything as it was found.
#include <chrono>
#include <functional>
#include <thread>

#include "engine/controller/kernel_setting.h"
#include "engine/run/run_for_test.h"

namespace unis {
namespace {

// Far below what the calls were told to last, far above what a busy machine needs.
constexpr auto kSoon = std::chrono::seconds(8);

class RunEndTest : public RunTest {
 protected:
  // Releases while `call` is under way.
  void EndsAtOnce(const std::function<absl::Status()>& call) {
    absl::Status status;
    std::thread caller = UnderWay([&] { return status = call(); });
    const auto begin = TestClock::now();
    run_->Release();
    EXPECT_LT(TestClock::now() - begin, kSoon);
    caller.join();
    EXPECT_EQ(status.code(), absl::StatusCode::kAborted) << status;
  }
  void EverythingIsBack() {
    for (const ChildProcess& function : functions_) {
      EXPECT_EQ(sched_getscheduler(function.pid()), SCHED_OTHER);
      EXPECT_NE(StateOf(function.pid()), 'T');
      cpu_set_t cpus;
      sched_getaffinity(function.pid(), sizeof(cpus), &cpus);
      EXPECT_EQ(CPU_COUNT(&cpus), CPU_COUNT(&affinity_));
    }
    EXPECT_EQ(RtRuntime().Read().value(), throttle_);
    EXPECT_EQ(Stats().phase(), v1::RUN_PHASE_RELEASED);
    EXPECT_EQ(Start().code(), absl::StatusCode::kAborted);
  }
  void SetUp() override {
    throttle_ = RtRuntime().Read().value();
    RunTest::SetUp();
    sched_getaffinity(0, sizeof(affinity_), &affinity_);
  }

  long throttle_ = 0;
  cpu_set_t affinity_;  // which children inherit
};

TEST_F(RunEndTest, MeasureIsBrokenOff) {
  BringUp();
  EXPECT_EQ(RtRuntime().Read().value(), -1);
  EndsAtOnce([&] { return Measure(60'000).status(); });
  EverythingIsBack();
}

TEST_F(RunEndTest, TraceIsBrokenOff) {
  BringUp();
  EndsAtOnce([&] {
    v1::TraceRequest request;
    request.set_duration_ns(60'000'000'000);
    return run_->Trace(request).status();
  });
  EverythingIsBack();
}

TEST_F(RunEndTest, EstimateIsBrokenOff) {
  BringUp();
  EndsAtOnce([&] {
    v1::EstimateRequest request;
    request.add_functions("a");
    request.add_functions("b");
    request.set_rounds(100'000);
    return run_->Estimate(request).status();
  });
  EverythingIsBack();
}

// Packets that a stopped function holds keep the chain from draining.
TEST_F(RunEndTest, SettleIsBrokenOff) {
  BringUp();
  kill(functions_[1].pid(), SIGSTOP);
  EndsAtOnce([&] {
    v1::SettleRequest request;
    request.set_timeout_ns(60'000'000'000);
    return run_->Settle(request).status();
  });
  kill(functions_[1].pid(), SIGCONT);
  EverythingIsBack();
}

TEST_F(RunEndTest, AttachIsBrokenOff) {
  ASSERT_TRUE(run_->Deploy(Chain({"a"})).ok());
  functions_.emplace_back();  // never polls
  absl::Status status;
  std::thread caller = UnderWay([&] {
    v1::AttachRequest request;
    request.set_function("a");
    request.set_pid(functions_[0].pid());
    request.set_timeout_ns(60'000'000'000);
    return status = run_->Attach(request).status();
  });
  const auto begin = TestClock::now();
  run_->Release();
  EXPECT_LT(TestClock::now() - begin, kSoon);
  caller.join();
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
}

TEST_F(RunEndTest, StopTakesTheAccountAndPutsBack) {
  BringUp();
  ASSERT_TRUE(Measure(100).ok());
  v1::SettleRequest request;
  request.set_timeout_ns(5'000'000'000);
  const auto account = run_->Stop(request);
  ASSERT_TRUE(account.ok()) << account.status();
  EXPECT_TRUE(account->exact());
  EXPECT_EQ(account->unaccounted(), 0);
  EXPECT_GT(account->delivered(), 0U);
  EverythingIsBack();
  run_->Release();  // any number of times
  EverythingIsBack();
}

TEST_F(RunEndTest, StopsAlsoWithoutADeployment) {
  EXPECT_TRUE(run_->Stop({}).ok());
  EXPECT_EQ(Stats().phase(), v1::RUN_PHASE_RELEASED);
}

TEST_F(RunEndTest, AStartThatFailsPutsBack) {
  ASSERT_TRUE(run_->Deploy(Chain({"a", "b"})).ok());
  const pid_t a = Spawn("a", 0), b = Spawn("b", 1);
  ASSERT_TRUE(Attach("a", a).ok());
  ASSERT_TRUE(Attach("b", b).ok());
  EXPECT_FALSE(Start(v1::POLICY_COOPERATIVE).ok());
  EXPECT_EQ(RtRuntime().Read().value(), throttle_);
  EXPECT_EQ(Stats().phase(), v1::RUN_PHASE_DEPLOYED);
  EXPECT_TRUE(Start().ok());
}

// A class that children would inherit, or a thread held by its number, would both show here.
TEST_F(RunEndTest, ADeadFunctionDoesNotKeepOthersFromBeingPutBack) {
  BringUp();
  functions_[0].End();
  run_->Release();
  EXPECT_EQ(sched_getscheduler(functions_[1].pid()), SCHED_OTHER);
  EXPECT_EQ(RtRuntime().Read().value(), throttle_);
}

}  // namespace
}  // namespace unis
