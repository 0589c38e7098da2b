// A run of which another thread looks at everything all the time, beside every operation: as unisd
// does, and whoever asks for statistics.
#include <atomic>
#include <chrono>
#include <thread>

#include "engine/run/run_for_test.h"

namespace unis {
namespace {

class RunLooksTest : public RunTest {
 protected:
  void SetUp() override {
    RunTest::SetUp();
    if (!run_) return;
    looking_ = std::jthread([this](const std::stop_token& stop) {
      v1::StatsRequest request;
      request.set_latency(true);
      while (!stop.stop_requested()) {
        run_->Look();
        if (run_->GetStats(request).ok()) ++looks_;
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
      }
    });
  }
  void TearDown() override {
    if (run_) run_->Release();
    looking_ = {};
    RunTest::TearDown();
  }
  // Since the last call.
  bool Looked() {
    const auto before = looks_.load();
    return Eventually([&] { return looks_ > before + 1; });
  }

  std::atomic<unsigned> looks_ = 0;
  std::jthread looking_;
};

TEST_F(RunLooksTest, BeforeTheStart) {
  ASSERT_TRUE(run_->Deploy(Chain({"a"})).ok());
  ASSERT_TRUE(Looked());
  ASSERT_TRUE(run_->Apply(Chain({"a", "b"})).ok());
  ASSERT_TRUE(Attach("a", Spawn("a", 0)).ok());
  ASSERT_TRUE(Attach("b", Spawn("b", 1)).ok());
  v1::SwitchCostRequest cost;
  cost.set_cpu(LastCpu());
  cost.set_rounds(20);
  EXPECT_TRUE(run_->MeasureSwitchCost(cost).ok());
  v1::EstimateRequest estimate;
  estimate.add_functions("a");
  estimate.set_rounds(4'000'000'000);
  int asked = 0;
  EXPECT_FALSE(run_->Estimate(estimate, [&asked] { return ++asked < 20; }).ok());
  EXPECT_TRUE(Looked());
}

TEST_F(RunLooksTest, WhileTheChainsRun) {
  BringUp();
  ASSERT_TRUE(Looked());
  ASSERT_TRUE(SetPolicy(v1::POLICY_UNIS, v1::CONTROLLER_SIGNAL).ok());
  ASSERT_TRUE(SetPolicy(v1::POLICY_UNIS, v1::CONTROLLER_PRIORITY).ok());
  EXPECT_TRUE(Measure(50).ok());
  v1::TraceRequest trace;
  trace.set_duration_ns(50'000'000);
  EXPECT_TRUE(run_->Trace(trace).ok());
  auto request = Chain({"a", "b"});
  request.mutable_scheduler()->set_gamma(0.5);
  EXPECT_TRUE(run_->Apply(request).ok());
  ASSERT_TRUE(Detach("a").ok());
  ASSERT_TRUE(Attach("a", functions_[0].pid()).ok());
  functions_[1].End();
  EXPECT_TRUE(Eventually([&] { return ChainNamed("chain").down() == "b"; }));
  ASSERT_TRUE(Detach("b").ok());
  ASSERT_TRUE(Attach("b", Spawn("b", 1)).ok());
  EveryPacketIsAccountedFor();
  EXPECT_TRUE(Looked());
  v1::SettleRequest stop;
  stop.set_timeout_ns(20'000'000'000);
  EXPECT_TRUE(run_->Stop(stop).ok());
  EXPECT_TRUE(Looked());
}

}  // namespace
}  // namespace unis
