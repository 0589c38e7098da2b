// The illustrative example of the paper (Fig. 3, section 4.4.2) on virtual time: A → B → C → D with
// A, C and D on CPU 0 and B on CPU 1.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <string>
#include <vector>

#include "models/simulator/scenarios_for_test.h"
#include "models/simulator/simulation.h"

namespace unis::sim {
namespace {

constexpr TaskIndex kA = 0, kC = 2, kD = 3;
constexpr std::uint32_t kThetaMin = 56;
constexpr std::uint32_t kThetaMax = 1536;  // 0.75 · 2047, rounded up

Scenario Example() {
  Scenario scenario = OneCore(Policy::kUnis, 4, 100);
  for (FunctionSpec& function : scenario.functions) function.cpu = function.name == "b" ? 1 : 0;
  scenario.machine.switch_ns = scenario.machine.switch_call_ns =
      0.001;  // Fig. 3 knows no such cost
  scenario.machine.kernel_switch_ns = 0.001;
  scenario.scheduler.latency_compensation = 0;
  scenario.warmup = 0;
  scenario.duration = 20 * kMillisecond;
  scenario.trace = true;
  return scenario;
}

std::vector<SwitchRecord> EventsOfCore0(const Result& result) {
  std::vector<SwitchRecord> events;
  std::copy_if(result.events.begin(), result.events.end(), std::back_inserter(events),
               [](const SwitchRecord& event) { return event.core == 0; });
  return events;
}

TEST(Fig3Test, ARunsForItsSliceWhileCAndDWaitThenCTheHeadOfTheQueue) {
  const auto events = EventsOfCore0(Simulate(Example()));
  ASSERT_GE(events.size(), 4u);
  // (a)
  EXPECT_EQ(events[0].reason, SwitchReason::kStart);
  EXPECT_EQ(events[0].to, kA);
  const Nanoseconds ts_a = events[0].slice;
  EXPECT_EQ(ts_a, 153'525);  // 100 ns · 0.75 · 2047
  // (b)
  EXPECT_EQ(events[1].reason, SwitchReason::kSliceExpired);
  EXPECT_GE(events[1].time, ts_a);
  EXPECT_LE(events[1].time, ts_a + 1'000);
  EXPECT_EQ(events[1].from, kA);
  EXPECT_EQ(events[1].to, kC);
  // Then the order of the chain.
  EXPECT_EQ(events[2].to, kD);
  EXPECT_EQ(events[3].to, kA);
}

// B passes half, so C often finds too little; D's slices are short, so it keeps a backlog.
Scenario WithCOftenIdle() {
  Scenario scenario = Example();
  scenario.chains[0].arrivals = {.kind = ArrivalKind::kConstant, .pps = 5e6, .burst = 100};
  scenario.functions[1].pass_ratio = 0.5;
  scenario.functions[3].cost_ns = 400;
  scenario.functions[3].scheduled_cost_ns = 1;
  return scenario;
}

TEST(Fig3Test, CAtTheHeadWithoutWorkGoesToTheBackAndDRuns) {
  const auto events = EventsOfCore0(Simulate(WithCOftenIdle()));
  int skipped_c = 0;
  int ran_c = 0;
  std::deque<TaskIndex> queue = {kC, kD};
  for (std::size_t i = 1; i < events.size(); ++i) {
    const SwitchRecord& event = events[i];
    const bool c_at_head = queue.front() == kC;
    queue.push_back(event.from);
    while (queue.front() != event.to) {
      queue.push_back(queue.front());
      queue.pop_front();
    }
    queue.pop_front();
    ASSERT_EQ(queue.size(), 2u);
    if (event.from != kA || !c_at_head) continue;
    if (event.to == kD) {
      ++skipped_c;
      EXPECT_EQ(queue, (std::deque<TaskIndex>{kA, kC}));
    }
    if (event.to == kC) {
      ++ran_c;
      EXPECT_EQ(queue, (std::deque<TaskIndex>{kD, kA}));
    }
  }
  EXPECT_GT(skipped_c, 10);  // (c)
  EXPECT_GT(ran_c, 10);      // (b)
}

TEST(Fig3Test, EverySwitchIsOneThatAlgorithm1Allows) {
  const auto events = EventsOfCore0(Simulate(WithCOftenIdle()));
  ASSERT_GT(events.size(), 100u);
  for (std::size_t i = 1; i < events.size(); ++i) {
    const SwitchRecord& event = events[i];
    EXPECT_GT(event.to_ingress, kThetaMin);
    EXPECT_LT(event.to_egress, kThetaMax);
    EXPECT_NE(event.from, event.to);
    EXPECT_EQ(event.from, events[i - 1].to);
    const Nanoseconds ran = event.time - events[i - 1].time;
    switch (event.reason) {
      case SwitchReason::kSliceExpired:
        EXPECT_GE(ran, events[i - 1].slice);
        break;
      case SwitchReason::kIngressLow:
        EXPECT_LE(event.from_ingress, kThetaMin);
        break;
      case SwitchReason::kEgressHigh:
        EXPECT_GE(event.from_egress, kThetaMax);
        break;
      case SwitchReason::kStart:
      case SwitchReason::kSelf:
      case SwitchReason::kStill:
      case SwitchReason::kBetween:
        ADD_FAILURE() << "a second start, a task that passes the CPU, or one of several threads";
    }
  }
}

}  // namespace
}  // namespace unis::sim
