// What may be done to a run when, and that what fails changes nothing.
#include <atomic>
#include <filesystem>
#include <thread>

#include "engine/run/run_for_test.h"

namespace unis {
namespace {

TEST_F(RunTest, DeliversUnderEveryPolicyAndCountsOnlyUp) {
  BringUp();
  v1::Stats before = Stats();
  EXPECT_EQ(before.phase(), v1::RUN_PHASE_RUNNING);
  for (const auto policy :
       {v1::POLICY_RR, v1::POLICY_UNIS, v1::POLICY_OTHER, v1::POLICY_BATCH, v1::POLICY_UNIS}) {
    const auto window = MeasureTraffic(300, policy);
    ASSERT_TRUE(window.ok()) << window.status();
    EXPECT_EQ(window->policy(), policy);
    EXPECT_GT(window->delivered(), 0U) << v1::Policy_Name(policy);
    EXPECT_EQ(window->function_cpu_ns().size(), 2U);
    const v1::Stats now = Stats();
    EXPECT_EQ(window->switches() > 0, policy == v1::POLICY_UNIS);
    EXPECT_GE(now.cores(0).switches(), before.cores(0).switches() + window->switches());
    for (int i = 0; i < 2; ++i) {
      EXPECT_GE(now.functions(i).switched_in(), before.functions(i).switched_in());
      EXPECT_GT(now.functions(i).time().busy_ns(), before.functions(i).time().busy_ns());
      EXPECT_GE(now.functions(i).paths(0).rx_packets(), before.functions(i).paths(0).rx_packets());
    }
    before = now;
  }
}

// Its links tell what it took.
TEST_F(RunTest, AFunctionThatIsNotOnNetUnisIsBusyWithPacketsToo) {
  v1::DeployRequest request = RingChain({"a"});
  request.clear_traffic();
  request.set_foreign(true);
  request.mutable_functions(0)->set_cpu(LastCpu());
  request.mutable_functions(0)->set_group(v1::GROUP_FOREIGN);
  rte_ring* const in = rte_ring_create("chain.0", 1024, SOCKET_ID_ANY, 0);
  rte_ring* const out = rte_ring_create("chain.1", 1024, SOCKET_ID_ANY, 0);
  ASSERT_NE(in, nullptr);
  ASSERT_NE(out, nullptr);
  ASSERT_TRUE(run_->Deploy(request).ok());
  functions_.emplace_back([=] {
    alarm(60);
    void* packet = in;
    for (;;) {
      rte_ring_enqueue(in, packet);  // as if by another
      rte_ring_dequeue(in, &packet);
      rte_ring_enqueue(out, packet);
      rte_ring_dequeue(out, &packet);
    }
  });
  const auto attached = Attach("a", functions_.back().pid());
  ASSERT_TRUE(attached.ok()) << attached;
  const auto started = Start();
  ASSERT_TRUE(started.ok()) << started;
  EXPECT_TRUE(Eventually([this] { return Stats().functions(0).time().busy_ns() > 1'000'000; }));
  run_->Release();
  run_.reset();
  rte_ring_free(in);
  rte_ring_free(out);
}

TEST_F(RunTest, EveryPacketIsAccountedFor) {
  BringUp();
  ASSERT_TRUE(Measure(200).ok());
  v1::SettleRequest request;
  request.set_timeout_ns(20'000'000'000);
  const auto account = run_->Settle(request);
  ASSERT_TRUE(account.ok()) << account.status();
  EXPECT_TRUE(account->exact());
  EXPECT_GT(account->delivered(), 0U);
  EXPECT_EQ(account->unaccounted(), 0);
  EXPECT_EQ(account->in_flight(), 0U);
  EXPECT_EQ(Stats().policy(), v1::POLICY_UNIS);
  const auto after = MeasureTraffic(100);  // the source goes on
  ASSERT_TRUE(after.ok());
  EXPECT_GT(after->delivered(), 0U);
}

TEST_F(RunTest, TakesBackWhatTheGuardHasReturned) {
  BringUp();
  EXPECT_EQ(ThreadsNoted(), 2U);
  const auto scheduling = [this](int function) { return Stats().functions(function).scheduling(); };
  PutBackAsTheGuard();
  EXPECT_EQ(scheduling(0), "other");
  run_->Look();
  for (const int function : {0, 1}) EXPECT_EQ(scheduling(function).substr(0, 2), "rr");
  EXPECT_EQ(Stats().policy(), v1::POLICY_UNIS);
  const auto window = MeasureTraffic(200);
  ASSERT_TRUE(window.ok());
  EXPECT_GT(window->delivered(), 0U);
  EXPECT_GT(window->switches(), 0U);
}

TEST_F(RunTest, TakesNothingBackUnasked) {
  BringUp();
  const auto switches = Stats().cores(0).switches();
  run_->Look();
  EXPECT_TRUE(Eventually([&] { return Stats().cores(0).switches() > switches; }));
  PutBackAsTheGuard();
  run_->Release();
  EXPECT_EQ(ThreadsNoted(), 0U);
  run_->Look();  // too late: nobody is held any more
  EXPECT_EQ(Stats().functions(0).scheduling(), "other");
}

TEST_F(RunTest, ASecondAttachChangesNothing) {
  BringUp();
  const std::string scheduling = Stats().functions(0).scheduling();
  EXPECT_TRUE(Says(Attach("a", functions_[0].pid()), "attached already"));
  run_->Release();
  EXPECT_TRUE(Says(Attach("a", functions_[0].pid()), "ending"));
}

TEST_F(RunTest, ASecondAttachBeforeTheStartIsRefused) {
  ASSERT_TRUE(run_->Deploy(Chain({"a", "b"})).ok());
  const pid_t a = Spawn("a", 0);
  ASSERT_TRUE(Attach("a", a).ok());
  EXPECT_TRUE(Says(Attach("a", a), "attached already"));
  EXPECT_EQ(Stats().functions(0).tid(), a);
  EXPECT_TRUE(Says(Start(), "function b is not attached"));
  ASSERT_TRUE(Attach("b", Spawn("b", 1)).ok());
  EXPECT_TRUE(Start().ok());
  run_->Release();
  EXPECT_EQ(sched_getscheduler(a), SCHED_OTHER) << "as it was before the first attach";
}

TEST_F(RunTest, WhatIsUnderWayKeepsOthersOut) {
  BringUp();
  absl::StatusOr<v1::MeasureReply> window = absl::UnknownError("");
  std::thread measuring = UnderWay([&] {
    window = Measure(1500);
    return window.status();
  });
  EXPECT_TRUE(Says(SetPolicy(v1::POLICY_RR), "the engine is measuring"));
  EXPECT_TRUE(Says(Measure(1).status(), "the engine is measuring"));
  EXPECT_TRUE(Says(run_->Settle({}).status(), "the engine is measuring"));
  v1::TraceRequest trace;
  trace.set_duration_ns(1'000'000);
  EXPECT_TRUE(Says(run_->Trace(trace).status(), "the engine is measuring"));
  EXPECT_EQ(Stats().policy(), v1::POLICY_UNIS);  // who only looks, may
  measuring.join();
  ASSERT_TRUE(window.ok());
  EXPECT_EQ(window->policy(), v1::POLICY_UNIS);
  EXPECT_LT(window->switches(), 10'000'000U) << "the difference of counters that grow";
}

TEST_F(RunTest, APolicyThatIsRefusedLeavesTheOneBefore) {
  BringUp();
  EXPECT_TRUE(Says(SetPolicy(v1::POLICY_COOPERATIVE), "does not co-operate"));
  EXPECT_EQ(Stats().policy(), v1::POLICY_UNIS);
  const auto window = MeasureTraffic(100);
  ASSERT_TRUE(window.ok());
  EXPECT_GT(window->delivered(), 0U);
  EXPECT_GT(window->switches(), 0U);
}

TEST_F(RunTest, ControllersChangeInOneRun) {
  BringUp();
  for (const auto controller : {v1::CONTROLLER_SIGNAL, v1::CONTROLLER_PRIORITY}) {
    ASSERT_TRUE(SetPolicy(v1::POLICY_UNIS, controller).ok());
    EXPECT_EQ(Stats().controller(), controller);
    ASSERT_TRUE(SetPolicy(v1::POLICY_OTHER).ok());
    EXPECT_EQ(Stats().controller(), v1::CONTROLLER_UNSPECIFIED) << "the kernel decides";
    ASSERT_TRUE(SetPolicy(v1::POLICY_UNIS).ok());
    EXPECT_EQ(Stats().controller(), controller) << "the choice outlasts the policy";
    const auto window = MeasureTraffic(200);
    ASSERT_TRUE(window.ok());
    EXPECT_EQ(window->controller(), controller);
    EXPECT_GT(window->delivered(), 0U);
    // Who ran is seen by who polled. The kernel alone, with time slices of milliseconds, would
    // change functions a hundred times as seldom as the scheduler believes it does.
    v1::TraceRequest request;
    request.set_duration_ns(200'000'000);
    // Where others take the CPUs away, a trace misses runs: one of several must be like this.
    int switches = 0, runs = 0;
    EXPECT_TRUE(Eventually([&] {
      const auto trace = run_->Trace(request);
      EXPECT_TRUE(trace.ok()) << trace.status();
      if (!trace.ok()) return true;
      switches = trace->switches_size();
      runs = trace->runs_size();
      return switches > 100 && 2 * runs > switches;
    })) << v1::ControllerKind_Name(controller)
        << ": " << switches << " switches, " << runs << " runs";
  }
}

TEST_F(RunTest, ACallerThatHasGoneKeepsNobodyWaiting) {
  BringUp();
  v1::MeasureRequest request;
  request.set_window_ns(60'000'000'000);
  const auto window = run_->Measure(request, [] { return false; });
  EXPECT_EQ(window.status().code(), absl::StatusCode::kCancelled);
  EXPECT_TRUE(SetPolicy(v1::POLICY_RR).ok());
}

TEST_F(RunTest, OnlyCpusOfFunctionsAreTaken) {
  auto request = Chain({"a"});
  request.mutable_functions(0)->set_cpu(0);
  EXPECT_TRUE(Says(run_->Deploy(request), "CPU 0 of function a"));
  ASSERT_TRUE(run_->Deploy(Chain({"a"})).ok());
  v1::SwitchCostRequest wrong;
  wrong.set_cpu(0);
  wrong.set_rounds(1);
  EXPECT_FALSE(run_->MeasureSwitchCost(wrong).ok());
  EXPECT_TRUE(Says(run_->Deploy(Chain({"a"})), "deployed already"));
}

}  // namespace
}  // namespace unis
