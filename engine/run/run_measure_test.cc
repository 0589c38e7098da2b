// Measurements that have a rate of their own, and what else asks for the speed of plain code.
#include <algorithm>
#include <map>
#include <numeric>
#include <string>

#include "engine/run/run_for_test.h"

namespace unis {
namespace {

class MeasureTest : public RunTest {
 protected:
  static v1::MeasureRequest At(double pps, v1::Arrivals arrivals = v1::ARRIVALS_UNSPECIFIED) {
    v1::MeasureRequest request;
    request.set_settle_ns(50'000'000);
    request.set_window_ns(300'000'000);
    if (pps > 0) request.set_pps(pps);
    request.set_arrivals(arrivals);
    return request;
  }
  static v1::SchedulerSettings AsInThePaper() {
    v1::SchedulerSettings settings;
    settings.set_gamma(0.75);
    settings.set_theta_min(56);
    settings.set_interval_ns(1'000);
    settings.set_occupancy(true);
    return settings;
  }
  // Packets per second of the window.
  double Offered(const v1::MeasureRequest& request) {
    const auto window = run_->Measure(request);
    EXPECT_TRUE(window.ok()) << window.status();
    if (!window.ok()) return 0;
    EXPECT_GT(window->delivered(), 0U);
    return static_cast<double>(window->offered()) / static_cast<double>(window->window_ns()) * 1e9;
  }
  double Offered() { return Offered(At(0)); }
};

TEST_F(MeasureTest, OneRunAlternatesLoads) {
  BringUp();  // as fast as it goes
  for (const auto arrivals : {v1::ARRIVALS_CONSTANT, v1::ARRIVALS_POISSON}) {
    double slow = 0, fast = 0;
    for (int round = 0; round < 2; ++round) {
      slow += Offered(At(20e3, arrivals));
      fast += Offered(At(80e3, arrivals));
    }
    EXPECT_GT(fast / slow, 2) << v1::Arrivals_Name(arrivals);
    EXPECT_LT(fast / slow, 8) << v1::Arrivals_Name(arrivals);
    EXPECT_GT(Offered(), fast) << "the rate is put back";
  }
}

// "slow", UDP to port 53, has a function that passes fewer packets than that of "fast".
TEST_F(MeasureTest, ChainsHaveLatenciesOfTheirOwnAndTheWindowThoseOfAll) {
  v1::DeployRequest request = Empty();
  AddRingChain(request, "slow", {"a"})->add_match()->set_dst_port(53);
  AddRingChain(request, "fast", {"b"});
  for (auto& function : *request.mutable_functions()) function.set_cpu(LastCpu());
  ASSERT_TRUE(run_->Deploy(request).ok());
  ASSERT_TRUE(Attach("a", Spawn("a", 0, "slow", 50us)).ok());
  ASSERT_TRUE(Attach("b", Spawn("b", 0, "fast")).ok());
  ASSERT_TRUE(Start().ok());
  const auto window = run_->Measure(At(0));
  ASSERT_TRUE(window.ok()) << window.status();
  ASSERT_EQ(window->chains_size(), 2);
  const auto counts = [](auto&&... latencies) {  // by value, of all together
    std::map<std::uint64_t, std::uint64_t> counts;
    const auto add = [&counts](const v1::LatencyHistogram& latency) {
      for (int i = 0; i < latency.count_size(); ++i)
        counts[latency.value_ns(i)] += latency.count(i);
    };
    (add(latencies), ...);
    return counts;
  };
  std::map<std::string, const v1::ChainWindow*> chains;
  for (const v1::ChainWindow& chain : window->chains()) {
    chains[chain.name()] = &chain;
    std::uint64_t timed = 0;
    for (const auto& [value, count] : counts(chain.latency())) timed += count;
    EXPECT_NEAR(static_cast<double>(timed), static_cast<double>(chain.delivered()),
                0.1 * static_cast<double>(chain.delivered()))
        << chain.name() << " goes on while it is read";
  }
  const v1::ChainWindow &slow = *chains.at("slow"), &fast = *chains.at("fast");
  EXPECT_GT(slow.delivered(), 0U);
  EXPECT_GT(fast.delivered(), 2 * slow.delivered());
  EXPECT_NE(counts(slow.latency()), counts(fast.latency()));
  EXPECT_EQ(counts(slow.latency(), fast.latency()), counts(window->latency()));
}

// Who had how much: of chains and of functions.
TEST_F(MeasureTest, AWindowTellsOfEachChainAndFunction) {
  BringUp();
  const auto window = run_->Measure(At(0));
  ASSERT_TRUE(window.ok()) << window.status();
  // It goes on while it is read.
  const auto near = [](std::uint64_t count, std::uint64_t all) {
    EXPECT_NEAR(static_cast<double>(count), static_cast<double>(all),
                0.1 * static_cast<double>(all));
  };
  const auto timed = [](const v1::LatencyHistogram& latency) {
    return std::accumulate(latency.count().begin(), latency.count().end(), std::uint64_t{0});
  };
  ASSERT_EQ(window->chains_size(), 1);
  const v1::ChainWindow& chain = window->chains(0);
  EXPECT_EQ(chain.name(), "chain");
  near(chain.delivered(), window->delivered());
  near(chain.offered(), window->offered());
  near(timed(chain.latency()), window->delivered());
  EXPECT_EQ(chain.latency().DebugString(), window->latency().DebugString()) << "of one chain";
  for (const std::string name : {"a", "b"}) {
    EXPECT_GT(window->function_turns().at(name), 1U) << name;
    EXPECT_GT(window->function_packets().at(name), window->delivered() / 2) << name;
    EXPECT_GT(window->function_context_switches().at(name), 0U) << name;
  }
  EXPECT_EQ(window->function_turns().at("a") + window->function_turns().at("b"),
            window->switches());
}

// It decides every 2 ms instead of every µs. Afterwards it is as before.
TEST_F(MeasureTest, AWindowMayHaveSettingsOfItsOwn) {
  BringUp();
  auto wanted = At(0);
  v1::SchedulerSettings& settings = *wanted.mutable_scheduler();
  settings = AsInThePaper();
  settings.set_interval_ns(2'000'000);
  const auto before = run_->Measure(At(0)), own = run_->Measure(wanted),
             after = run_->Measure(At(0));
  ASSERT_TRUE(before.ok() && own.ok() && after.ok());
  EXPECT_EQ(own->scheduler().DebugString(), settings.DebugString());
  EXPECT_FALSE(after->has_scheduler());
  EXPECT_LT(own->switches(), before->switches() / 2);
  EXPECT_LT(own->switches(), after->switches() / 2);
}

// Costs that are followed in such a window are forgotten after it.
TEST_F(MeasureTest, WhatAWindowLearnsOfCostsIsNotTheRunsAffair) {
  auto request = Chain({"a", "b"});
  for (auto& function : *request.mutable_functions()) function.set_cost_ns(1);
  ASSERT_TRUE(run_->Deploy(request).ok());
  ASSERT_TRUE(Attach("a", Spawn("a", 0, "chain", 10us)).ok());
  ASSERT_TRUE(Attach("b", Spawn("b", 1, "chain", 10us)).ok());
  ASSERT_TRUE(Start().ok());
  const auto cost = [this] { return Stats().functions(0).cost_ns(); };
  ASSERT_EQ(cost(), 1);
  auto wanted = At(0);
  *wanted.mutable_scheduler() = AsInThePaper();
  wanted.mutable_scheduler()->set_online_cost(true);
  ASSERT_TRUE(run_->Measure(wanted).ok());
  EXPECT_GT(cost(), 100) << "10 us before and after each burst of 64";
  ASSERT_TRUE(run_->Measure(At(0)).ok());
  EXPECT_EQ(cost(), 1);
}

// What is offered is not what is delivered, and the difference is told.
TEST_F(MeasureTest, MoreThanTheChainTakesIsDroppedAndCounted) {
  BringUp(50us);  // slower than any source
  const auto window = run_->Measure(At(1e9));
  ASSERT_TRUE(window.ok()) << window.status();
  EXPECT_GT(window->dropped(), 0U);
  EXPECT_GT(window->offered(), window->delivered());
  const auto before = run_->GetStats({})->account().dropped_ingress_full();
  ASSERT_TRUE(run_->Measure(At(0)).ok());
  const auto after = run_->GetStats({})->account().dropped_ingress_full();
  EXPECT_EQ(after, before) << "as fast as it goes drops nothing";
}

TEST_F(MeasureTest, ARunWithARateHasItAgainAfterwards) {
  auto request = Chain({"a"});
  request.mutable_traffic()->set_bps(20e3 * 8 * 64);
  request.mutable_traffic()->set_arrivals(v1::ARRIVALS_POISSON);
  ASSERT_TRUE(run_->Deploy(request).ok());
  ASSERT_TRUE(Attach("a", Spawn("a", 0)).ok());
  ASSERT_TRUE(Start().ok());
  const double own = Offered();
  const double more = Offered(At(200e3));
  EXPECT_GT(more / own, 4);
  EXPECT_LT(Offered() / more, 0.5);
  const double constant = Offered(At(0, v1::ARRIVALS_CONSTANT));
  EXPECT_GT(constant / own, 0.4);
  EXPECT_LT(constant / own, 2.5);
}

TEST_F(MeasureTest, TheRateIsPutBackHoweverTheMeasurementEnds) {
  BringUp();
  const auto gone = run_->Measure(At(20e3), [] { return false; });
  EXPECT_EQ(gone.status().code(), absl::StatusCode::kCancelled);
  auto cooperative = At(20e3);
  cooperative.set_policy(v1::POLICY_COOPERATIVE);
  EXPECT_TRUE(Says(run_->Measure(cooperative).status(), "does not co-operate"));
  EXPECT_GT(Offered(), 5 * 20e3);
}

TEST_F(MeasureTest, ArrivalsAreOfARate) {
  BringUp();
  EXPECT_TRUE(Says(run_->Measure(At(0, v1::ARRIVALS_POISSON)).status(), "without a rate"));
  EXPECT_GT(Offered(), 0);
}

// Also across a change of what runs, which makes new schedulers.
TEST_F(MeasureTest, ACostThatWasFollowedStaysSo) {
  BringUpUnknown(true);
  const auto followed = [this] {
    const v1::Stats stats = Stats();
    return std::ranges::all_of(stats.functions(), [](const auto& function) {
      return function.cost_source() == v1::COST_SOURCE_FOLLOWED;
    });
  };
  ASSERT_TRUE(Eventually(followed));
  v1::DeployRequest request = Chain({"a", "b"});
  for (auto& function : *request.mutable_functions()) function.set_cost_ns(0);
  request.mutable_scheduler()->set_online_cost(false);
  ASSERT_TRUE(run_->Apply(request).ok());
  EXPECT_TRUE(followed());
  request.mutable_functions(0)->set_cost_ns(77);
  ASSERT_TRUE(run_->Apply(request).ok());
  EXPECT_EQ(Stats().functions(0).cost_source(), v1::COST_SOURCE_STATED);
}

}  // namespace
}  // namespace unis
