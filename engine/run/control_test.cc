// Cores of a run that come, go and stay. Nothing ticks: the component has no lcore.
#include "engine/run/control.h"

#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/counter.h"
#include "engine/base/eal_for_test.h"
#include "engine/controller/fair_slice.h"
#include "engine/controller/scheduling_for_test.h"
#include "engine/controller/spinners_for_test.h"
#include "engine/controller/turn_takers_for_test.h"

namespace unis {
namespace {

const Decision kUnis{.policy = v1::POLICY_UNIS, .controller = v1::CONTROLLER_PRIORITY};
const Decision kHandover{.policy = v1::POLICY_UNIS, .controller = v1::CONTROLLER_HANDOVER};
const Decision kFifo{.policy = v1::POLICY_FIFO, .controller = v1::CONTROLLER_PRIORITY};

class ControlTest : public ControllerTest {
 protected:
  // A core with one task, the i-th process, between two links.
  CorePlan PlanOf(std::size_t i) {
    const std::string name = "f" + std::to_string(i);
    CorePlan plan;
    plan.cpu = static_cast<unsigned>(i);
    plan.set.Add(0, {Path{.in = 0, .out = 1, .function = 0}});
    plan.tasks.push_back({.thread = &functions_.thread(i), .yield_every = 0});
    for (std::size_t link = 0; link < 2; ++link) {
      std::uint32_t* const counters = &counters_[4 * i + 2 * link];
      plan.links.push_back(Occupancy::Filled({.ahead = counters, .behind = counters + 1}, 1024));
    }
    plan.functions.push_back(name);
    plan.costs.push_back(costs_[i]);
    return plan;
  }
  void Take(std::vector<CorePlan> plans) {
    std::vector<Control::Wanted> wanted;
    for (CorePlan& plan : plans) {
      wanted.emplace_back().activities.resize(plan.tasks.size());
      wanted.back().plan = std::move(plan);
    }
    control_.Take(std::move(wanted), {&component_});
  }
  int ClassOf(std::size_t i) const { return ClassOfProcess(functions_.pid(i)); }
  static int ClassOfProcess(pid_t pid) { return sched_getscheduler(pid) & ~SCHED_RESET_ON_FORK; }

  const bool eal_ = StartTestEal();  // it knows the frequency of the TSC
  Spinners functions_{0, 2};
  std::array<std::uint32_t, 8> counters_{};
  std::array<std::shared_ptr<FunctionCost>, 2> costs_{std::make_shared<FunctionCost>(100),
                                                      std::make_shared<FunctionCost>(100)};
  TscTimer timer_;
  Counter beat_;
  SchedulerComponent component_{"scheduler", timer_, beat_, nullptr};
  Control control_{timer_};
};

TEST_F(ControlTest, ACoreWhosePlanStaysGoesOn) {
  Take({PlanOf(0), PlanOf(1)});
  ASSERT_TRUE(control_.Change(kUnis).ok());
  ASSERT_EQ(control_.cores().size(), 2U);
  const CoreControl* const first = control_.cores()[0];
  CorePlan other = PlanOf(1);
  other.settings.gamma = 0.5;
  Take({PlanOf(0), other});
  ASSERT_EQ(control_.cores().size(), 2U);
  EXPECT_EQ(control_.cores()[0], first);
  EXPECT_EQ(first->decision(), kUnis);
  EXPECT_EQ(ClassOf(0), SCHED_RR);
  EXPECT_FALSE(control_.cores()[1]->decision()) << "it waits for the next change";
  EXPECT_EQ(ClassOf(1), SCHED_OTHER);
  ASSERT_TRUE(control_.Change(kUnis).ok());
  EXPECT_EQ(control_.cores()[1]->decision(), kUnis);
  EXPECT_EQ(ClassOf(1), SCHED_RR);
  EXPECT_EQ(component_.cores().size(), 2U);
}

TEST_F(ControlTest, WhatACoreIsMadeOfDecidesWhetherItStays) {
  const std::vector<std::pair<std::string, std::function<void(CorePlan&)>>> changes = {
      {"a link elsewhere in memory",
       [this](auto& plan) {
         plan.links[1] = Occupancy::Filled({.ahead = &counters_[6], .behind = &counters_[7]}, 1024);
       }},
      {"a link that another core reads now",
       [](auto& plan) { plan.set.read_elsewhere.push_back(1); }},
      {"another thread", [this](auto& plan) { plan.tasks[0].thread = &functions_.thread(1); }},
      {"a function that co-operates", [](auto& plan) { plan.tasks[0].yield_every = 2; }},
      {"a slice of the fair classes",
       [](auto& plan) { plan.fair_slice = std::chrono::milliseconds(1); }},
  };
  for (const auto& [what, change] : changes) {
    Take({PlanOf(0)});
    const CoreControl* const before = control_.cores()[0];
    const Decision decision = kFifo;
    ASSERT_TRUE(control_.Change(decision).ok());
    Take({PlanOf(0)});
    EXPECT_EQ(control_.cores()[0], before) << what;
    EXPECT_EQ(before->decision(), decision) << what;
    CorePlan changed = PlanOf(0);
    change(changed);
    Take({changed});
    EXPECT_FALSE(control_.cores()[0]->decision()) << what;
  }
}

TEST_F(ControlTest, ACoreThatIsLetGoHoldsNobodyAndItsCountsStay) {
  Take({PlanOf(0), PlanOf(1)});
  ASSERT_TRUE(control_.Change(kUnis).ok());
  const CoreControl* const first = control_.cores()[0];
  control_.LetGo({1, 7});
  ASSERT_EQ(control_.cores().size(), 1U);
  EXPECT_EQ(control_.cores()[0], first);
  EXPECT_EQ(component_.cores().size(), 1U);
  EXPECT_EQ(ClassOf(1), SCHED_OTHER);
  const ScheduleCounts counts = control_.counts();
  ASSERT_TRUE(counts.cores.contains(1));
  EXPECT_EQ(counts.cores.at(0).current, "f0");
  EXPECT_FALSE(counts.cores.at(1).current);
  EXPECT_EQ(counts.switched_in.at("f1"), 1U) << "its start";
}

TEST_F(ControlTest, ARefusedChangeTouchesNoCore) {
  HeldThread dead = DeadThread();
  Take({PlanOf(0)});
  ASSERT_TRUE(control_.Change(kUnis).ok());
  CorePlan with_dead = PlanOf(1);
  with_dead.tasks[0].thread = &dead;
  Take({PlanOf(0), with_dead});
  EXPECT_EQ(control_.Change(kFifo).message(), "function dead has ended");
  EXPECT_EQ(control_.decision(), kUnis);
  EXPECT_EQ(control_.cores()[0]->decision(), kUnis);
  EXPECT_EQ(ClassOf(0), SCHED_RR);
  EXPECT_FALSE(
      control_.Change({.policy = v1::POLICY_COOPERATIVE, .controller = v1::CONTROLLER_PRIORITY})
          .ok());
  EXPECT_EQ(ClassOf(0), SCHED_RR);
}

// The second core cannot have the policy, for its functions cannot have so short a slice; the first
// one had it already.
TEST_F(ControlTest, AChangeThatFailsHalfWayIsTakenBack) {
  UNIS_NEED(KnowsFairSlices().ok(), KnowsFairSlices().message());
  CorePlan refused = PlanOf(1);
  refused.fair_slice = std::chrono::nanoseconds(1);
  Take({PlanOf(0), refused});
  ASSERT_TRUE(control_.Change(kUnis).ok());
  const auto status =
      control_.Change({.policy = v1::POLICY_OTHER, .controller = v1::CONTROLLER_PRIORITY});
  EXPECT_FALSE(status.ok());
  EXPECT_EQ(status.message().find("nor could"), std::string::npos) << status;
  EXPECT_EQ(control_.decision(), kUnis);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(control_.cores()[i]->decision(), kUnis);
    EXPECT_EQ(ClassOf(i), SCHED_RR);
  }
  EXPECT_EQ(component_.cores().size(), 2U);
}

TEST_F(ControlTest, ARepeatTakesThreadsThatSomebodyPutBack) {
  Take({PlanOf(0)});
  ASSERT_TRUE(control_.Change(kUnis).ok());
  const sched_param none{};
  ASSERT_EQ(sched_setscheduler(functions_.pid(0), SCHED_OTHER, &none), 0);
  ASSERT_TRUE(control_.Change(kUnis).ok());
  EXPECT_EQ(ClassOf(0), SCHED_OTHER) << "the decision is the same";
  ASSERT_TRUE(control_.Repeat().ok());
  EXPECT_EQ(ClassOf(0), SCHED_RR);
}

TEST_F(ControlTest, ARepeatThatFailsLeavesAllToTheKernel) {
  Take({PlanOf(0), PlanOf(1)});
  ASSERT_TRUE(control_.Change(kUnis).ok());
  functions_.End(1);
  EXPECT_EQ(control_.Repeat().message(), "function task1 has ended");
  EXPECT_EQ(control_.decision()->policy, v1::POLICY_OTHER);
  EXPECT_EQ(ClassOf(0), SCHED_OTHER);
  EXPECT_EQ(component_.cores().size(), 0U);
}

TEST_F(ControlTest, WhatADecisionWithItsOwnSettingsLearnsOfCostsGoesWithIt) {
  Take({PlanOf(0)});
  Decision other = kUnis;
  other.settings = SchedulerSettings{};
  ASSERT_TRUE(control_.Change(other).ok());
  costs_[0]->Set(500, CostSource::kFollowed);
  ASSERT_TRUE(control_.Change(kUnis).ok());
  EXPECT_EQ(costs_[0]->Ns(), 100);
  EXPECT_EQ(costs_[0]->Source(), CostSource::kStated);
  costs_[0]->Set(500, CostSource::kFollowed);
  ASSERT_TRUE(control_.Change(kFifo).ok());
  EXPECT_EQ(costs_[0]->Ns(), 500);
}

TEST_F(ControlTest, HandOverNeedsAFunctionThatPassesTheCpuOn) {
  Take({PlanOf(0), PlanOf(1)});
  const auto status = control_.Change(kHandover);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(status.message().find("plug-in"), std::string::npos) << status;
  EXPECT_FALSE(control_.decision());
}

// Under hand-over a core whose functions have no plug-in is switched by priority beside one whose
// functions pass the CPU on, and goes on so when the last of those has gone.
TEST_F(ControlTest, HandOverHoldsWhenTheLastThatPassesTheCpuOnGoes) {
  using Kind = TurnTakers::Kind;
  TurnTakers takers({Kind::kTakesTurns});
  CorePlan passes = PlanOf(0);
  passes.tasks[0].thread = takers.tasks()[0];
  Take({passes, PlanOf(1)});
  ASSERT_TRUE(control_.Change(kHandover).ok());
  EXPECT_EQ(ClassOfProcess(takers.pid(0)), SCHED_FIFO);
  EXPECT_EQ(ClassOf(1), SCHED_RR);
  const CoreControl* const second = control_.cores()[1];

  Take({PlanOf(0), PlanOf(1)});
  ASSERT_TRUE(control_.Change(kHandover, true).ok());
  EXPECT_EQ(ClassOfProcess(takers.pid(0)), SCHED_OTHER);
  EXPECT_EQ(ClassOf(0), SCHED_RR);
  EXPECT_EQ(control_.cores()[1], second);
  ASSERT_TRUE(control_.Repeat().ok());
  for (CoreControl* const core : control_.cores()) EXPECT_EQ(core->decision(), kHandover);

  ASSERT_TRUE(control_.Change(kFifo).ok());
  EXPECT_FALSE(control_.Change(kHandover).ok()) << "somebody asks for it anew";
  EXPECT_EQ(control_.decision(), kFifo);
  EXPECT_TRUE(control_.Change(kHandover, true).ok()) << "after a window under another policy";

  Take({passes, PlanOf(1)});
  ASSERT_TRUE(control_.Change(kHandover, true).ok());
  EXPECT_EQ(ClassOfProcess(takers.pid(0)), SCHED_FIFO) << "it came back";
  ASSERT_TRUE(control_.Release().ok());
}

// A core that is switched by priority is no proof that another one can hand over.
TEST_F(ControlTest, ACoreThatDoesNotHandOverSpeaksForNoOther) {
  Take({PlanOf(0)});
  ASSERT_TRUE(control_.Change(kHandover, true).ok());
  Take({PlanOf(0), PlanOf(1)});
  EXPECT_FALSE(control_.Change(kHandover).ok());
  EXPECT_FALSE(control_.cores()[1]->decision());
}

TEST_F(ControlTest, OneProcessOnTwoCpusCannotBeStoppedBySignals) {
  CorePlan same = PlanOf(1);
  same.tasks[0].thread = &functions_.thread(0);
  Take({PlanOf(0), same});
  ASSERT_TRUE(control_.Change(kUnis).ok());
  const auto status =
      control_.Change({.policy = v1::POLICY_UNIS, .controller = v1::CONTROLLER_SIGNAL});
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(status.message().find("are both of process " + std::to_string(functions_.pid(0)) +
                                  "; use controller priority"),
            std::string::npos)
      << status;
  EXPECT_EQ(control_.decision(), kUnis);
  EXPECT_TRUE(control_.Change({.policy = v1::POLICY_RR, .controller = v1::CONTROLLER_SIGNAL}).ok())
      << "the kernel stops nobody";
}

}  // namespace
}  // namespace unis
