// Runs whose source, sink and schedulers have service lcores of their own. All of these are on CPU
// 0.
#include <rte_launch.h>
#include <rte_service.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "engine/run/run_for_test.h"

namespace unis {
namespace {

class RunLcoresTest : public RunTest, public testing::WithParamInterface<std::size_t> {
 protected:
  RunLcoresTest() {
    service_lcores_.assign(kPlatformLcores.begin(), kPlatformLcores.begin() + GetParam());
    if (cores() == 2) function_cpus_.insert(0);
  }
  // Else they would go on polling, and leave less of the CPU to the tests that follow.
  void TearDown() override {
    RunTest::TearDown();
    for (std::size_t i = 1; i < service_lcores_.size(); ++i) {
      EXPECT_EQ(rte_service_lcore_stop(service_lcores_[i]), 0) << i;
      rte_eal_wait_lcore(service_lcores_[i]);  // or the next test could not start it
    }
  }
  // Of functions. With four lcores there are two schedulers, if there are two cores.
  std::size_t cores() const { return GetParam() == 4 ? 2 : 1; }
  // "chain" through a and b, "other", UDP to port 53, through c and d.
  v1::DeployRequest Both() const {
    v1::DeployRequest request = Empty();
    AddRingChain(request, "other", {"c", "d"})->add_match()->set_dst_port(53);
    AddRingChain(request, "chain", {"a", "b"});
    for (auto& function : *request.mutable_functions())
      function.set_cpu(cores() == 2 && function.name() < "c" ? 0 : LastCpu());
    return request;
  }
  absl::Status AttachChain(const std::string& chain, const std::vector<std::string>& names) {
    absl::Status status;
    for (std::size_t i = 0; i < names.size(); ++i)
      status.Update(Attach(names[i], Spawn(names[i], i, chain)));
    return status;
  }
  // By signals: functions in a real-time class would not let our lcores have CPU 0.
  absl::Status StartBoth() {
    if (auto status = run_->Deploy(Both()); !status.ok()) return status;
    if (auto status = AttachChain("other", {"c", "d"}); !status.ok()) return status;
    if (auto status = AttachChain("chain", {"a", "b"}); !status.ok()) return status;
    v1::PolicyRequest request;
    request.set_policy(v1::POLICY_UNIS);
    request.set_controller(v1::CONTROLLER_SIGNAL);
    return run_->Start(request);
  }
  static bool RunsOn(const std::string& service, unsigned lcore) {
    std::uint32_t id = 0;
    return rte_service_get_by_name(service.c_str(), &id) == 0 &&
           rte_service_map_lcore_get(id, lcore) == 1;
  }
};

INSTANTIATE_TEST_SUITE_P(Lcores, RunLcoresTest, testing::Values(2, 3, 4),
                         [](const auto& info) { return std::to_string(info.param); });

TEST_P(RunLcoresTest, EachPartHasItsLcore) {
  ASSERT_EQ(StartBoth(), absl::OkStatus());
  EXPECT_TRUE(RunsOn("unis_source", kPlatformLcores[0]));
  EXPECT_TRUE(RunsOn("unis_sink", kPlatformLcores[1]));
  EXPECT_TRUE(RunsOn("unis_scheduler", service_lcores_.back()));
  EXPECT_EQ(RunsOn("unis_scheduler2", kPlatformLcores[2]), cores() == 2);
}

TEST_P(RunLcoresTest, AllSchedulersDecideAndAreTold) {
  ASSERT_EQ(StartBoth(), absl::OkStatus());
  EXPECT_TRUE(Delivers("chain"));
  EXPECT_TRUE(Delivers("other"));
  const auto switching = [this] {
    const v1::Stats stats = Stats();
    return std::ranges::count_if(stats.cores(), [](const auto& it) { return it.switches() > 5; });
  };
  EXPECT_TRUE(Eventually([&] { return static_cast<std::size_t>(switching()) == cores(); }));
  const v1::Stats stats = Stats();
  EXPECT_EQ(stats.components_size(), static_cast<int>(2 + cores()));
  for (const auto& component : stats.components())
    EXPECT_GT(component.handled(), 0U) << component.name();
  for (const auto& function : stats.functions())
    EXPECT_GT(function.switched_in(), 0U) << function.name();
  // A trace has what each of them saw.
  v1::TraceRequest request;
  request.set_duration_ns(200'000'000);
  const auto trace = run_->Trace(request);
  ASSERT_TRUE(trace.ok()) << trace.status();
  std::set<std::uint32_t> cpus;
  for (const auto& run : trace->runs()) cpus.insert(run.cpu());
  EXPECT_EQ(cpus.size(), cores());
}

TEST_P(RunLcoresTest, NoPacketIsLostWhateverChanges) {
  ASSERT_EQ(StartBoth(), absl::OkStatus());
  ASSERT_TRUE(Delivers("chain"));
  v1::DeployRequest request = Both();
  request.mutable_scheduler()->set_gamma(0.5);
  ASSERT_TRUE(run_->Apply(request).ok());
  EXPECT_TRUE(Delivers("other"));
  ASSERT_TRUE(Detach("a").ok());
  EXPECT_EQ(ChainNamed("chain").down(), "a");
  EXPECT_TRUE(Delivers("other"));
  ASSERT_TRUE(Attach("a", functions_[2].pid()).ok());
  EXPECT_TRUE(Delivers("chain"));
  functions_[0].End();  // c
  run_->Look();
  EXPECT_EQ(ChainNamed("other").down(), "c");
  EXPECT_TRUE(Delivers("chain"));
  ASSERT_TRUE(Detach("c").ok());
  ASSERT_TRUE(Attach("c", Spawn("c", 0, "other")).ok());
  EXPECT_TRUE(Delivers("other"));
  ASSERT_TRUE(SetPolicy(v1::POLICY_OTHER).ok());
  EXPECT_TRUE(Delivers("chain"));
  ASSERT_TRUE(SetPolicy(v1::POLICY_UNIS).ok());
  EXPECT_TRUE(Delivers("other"));
  EveryPacketIsAccountedFor();
  v1::SettleRequest settle;
  settle.set_timeout_ns(20'000'000'000);
  const auto account = run_->Stop(settle);
  ASSERT_TRUE(account.ok()) << account.status();
  EXPECT_EQ(account->unaccounted(), 0) << account->ShortDebugString();
}

}  // namespace
}  // namespace unis
