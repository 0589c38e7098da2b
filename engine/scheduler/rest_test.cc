// When the tasks of a core are put to sleep, and what wakes them.
#include <gtest/gtest.h>

#include <vector>

#include "engine/scheduler/paper_for_test.h"

namespace unis {
namespace {

using Calls = std::vector<SwitchCall>;
constexpr Nanoseconds kIdleAfter = 500'000;

SchedulerSettings Resting() {
  SchedulerSettings settings;
  settings.idle_after = kIdleAfter;
  settings.max_wait = 1'000'000;
  return settings;
}

// A chain of three on one core, empty: task i reads link i.
struct RestTest : testing::Test {
  explicit RestTest(const SchedulerSettings& settings = Resting())
      : rig(settings, Chain({0, 0, 0}), 1, Filled({0, 0, 0, 0})) {
    rig.controller.can_rest = true;
    EXPECT_TRUE(rig.cores.Start());
  }
  bool Rests() const { return rig.cores[0].resting(); }
  // Ticks every T for so long.
  void Pass(Nanoseconds time) {
    for (const Nanoseconds end = rig.timer.now + time; rig.timer.now < end;)
      rig.TickAt(rig.timer.now + kT);
  }
  void PassUntilItRests() {
    for (int i = 0; i < 100'000 && !Rests(); ++i) Pass(kT);
    ASSERT_TRUE(Rests());
  }
  // A packet comes; the task that reads `link` takes it at once.
  void ComesAndGoes(LinkIndex link) {
    ++rig.monitor.packets[link];
    Pass(kT);
    --rig.monitor.packets[link];
    ++rig.monitor.received[link];
  }
  Rig rig;
};

TEST_F(RestTest, NobodyHadPacketsForSoLong) {
  Pass(kIdleAfter);
  EXPECT_FALSE(Rests());
  Pass(kT);
  EXPECT_TRUE(Rests());
  EXPECT_EQ(rig.controller.rests, std::vector<CoreIndex>{0});
  EXPECT_EQ(rig.cores[0].Rests(), 1U);
  EXPECT_TRUE(rig.controller.switches.empty());
}

TEST_F(RestTest, OnePacketInFrontOfAnybodyKeepsThemAwake) {
  for (const LinkIndex link : {0U, 1U, 2U}) {
    rig.monitor.packets = {0, 0, 0, 0};
    rig.monitor.packets[link] = 1;
    Pass(kIdleAfter * 3 / 4);
  }
  EXPECT_FALSE(Rests());
  rig.monitor.packets = {0, 0, 0, 1};  // behind the last: nobody's
  Pass(kIdleAfter + 2 * kT);
  EXPECT_TRUE(Rests());
}

TEST_F(RestTest, APacketThatWasTakenBetweenTwoLooksCounts) {
  for (int i = 0; i < 10; ++i) {
    Pass(kIdleAfter / 2);
    ++rig.monitor.received[1];
  }
  EXPECT_FALSE(Rests());
}

TEST_F(RestTest, SoDoesOneThatWasSentWithoutAnyTaken) {
  for (int i = 0; i < 10; ++i) {
    Pass(kIdleAfter / 2);
    ++rig.monitor.sent[2];
  }
  EXPECT_FALSE(Rests());
}

// As a shaper does, which polls now and then while it sleeps and sends what is due.
TEST_F(RestTest, WhoSendsByTheClockIsSoonLeftAwake) {
  for (int i = 0; i < 20; ++i) {
    Pass(3 * kIdleAfter);
    ++rig.monitor.sent[2];
  }
  const std::uint64_t rests = rig.cores[0].Rests();
  EXPECT_GT(rests, 0U);
  for (int i = 0; i < 20; ++i) {
    Pass(3 * kIdleAfter);
    ++rig.monitor.sent[2];
  }
  EXPECT_EQ(rig.cores[0].Rests(), rests);
  EXPECT_FALSE(Rests());
  Pass(100 * kIdleAfter);
  EXPECT_TRUE(Rests()) << "when it sends no more";
}

TEST_F(RestTest, TheRestIsRenewedBeforeItEndsByItself) {
  PassUntilItRests();
  const std::size_t before = rig.controller.rests.size();
  Pass(10 * ProcessController::kRestHolds);
  EXPECT_GE(rig.controller.rests.size() - before, 20U);
  EXPECT_LE(rig.controller.rests.size() - before, 100U);
  EXPECT_EQ(rig.cores[0].Rests(), 1U);
  EXPECT_TRUE(rig.controller.woken.empty());
}

TEST_F(RestTest, TheFirstPacketWakesThemAndItsTaskRuns) {
  PassUntilItRests();
  rig.monitor.packets[1] = 1;
  Pass(kT);
  EXPECT_FALSE(Rests());
  EXPECT_EQ(rig.controller.switches, (Calls{{0, 0, 1}}));
  EXPECT_EQ(rig.controller.woken, std::vector<TaskIndex>{1});
  EXPECT_EQ(rig.Current(0), 1U);
}

TEST_F(RestTest, IfTheCurrentTaskHasItNobodyIsSwitchedTo) {
  PassUntilItRests();
  rig.monitor.packets[0] = 1;
  Pass(kT);
  EXPECT_TRUE(rig.controller.switches.empty());
  EXPECT_EQ(rig.controller.woken, std::vector<TaskIndex>{0});
}

TEST_F(RestTest, NobodyIsSwitchedToWhosePacketsGoNowhere) {
  PassUntilItRests();
  rig.monitor.packets = {0, 0, 1, kThetaMax};
  Pass(10 * kT);
  EXPECT_FALSE(Rests());
  EXPECT_TRUE(rig.controller.switches.empty());
  rig.monitor.packets[3] = 0;
  Pass(kT);
  EXPECT_EQ(rig.Current(0), 2U);
}

TEST_F(RestTest, TheFirstPacketsWaitAtNoFunction) {
  PassUntilItRests();
  rig.monitor.packets[0] = 1;
  Pass(kT);
  for (const LinkIndex link : {0U, 1U}) {
    rig.monitor.packets[link] = 0;
    rig.monitor.packets[link + 1] = 1;
    Pass(2 * kT);
    EXPECT_EQ(rig.Current(0), link + 1);
  }
}

TEST_F(RestTest, LaterOnesDo) {
  PassUntilItRests();
  rig.monitor.packets[0] = 1;
  Pass(2'000'000);
  rig.monitor.packets = {0, 0, 0, 0};
  Pass(2 * kT);
  rig.monitor.packets[1] = 1;
  Pass(100'000);
  EXPECT_EQ(rig.Current(0), 0U);
}

TEST_F(RestTest, ThinTrafficDoesNotGoToSleepAndWakeUpForEachPacket) {
  constexpr Nanoseconds kGap = kIdleAfter + 100'000;
  for (int i = 0; i < 1000; ++i) {
    Pass(kGap);
    ComesAndGoes(0);
  }
  EXPECT_LE(rig.cores[0].Rests(), 2U);
}

TEST_F(RestTest, ThinnerTrafficSleepsInBetween) {
  for (int i = 0; i < 100; ++i) {
    Pass(3 * kIdleAfter);
    ComesAndGoes(0);
  }
  EXPECT_GE(rig.cores[0].Rests(), 95U);
}

TEST_F(RestTest, AfterThinTrafficItRestsAsEver) {
  for (int i = 0; i < 100; ++i) {
    Pass(kIdleAfter + 100'000);
    ComesAndGoes(0);
  }
  PassUntilItRests();
  Pass(2 * kIdleAfter);
  ComesAndGoes(0);
  EXPECT_FALSE(Rests());
  Pass(kIdleAfter + 2 * kT);
  EXPECT_TRUE(Rests());
}

TEST_F(RestTest, WhereSomebodyCannotSleepTheyAreAskedNowAndThen) {
  rig.controller.can_rest = false;
  Pass(3 * kIdleAfter);
  EXPECT_FALSE(Rests());
  rig.controller.can_rest = true;
  PassUntilItRests();
  EXPECT_TRUE(rig.controller.woken.empty());
}

TEST_F(RestTest, ATaskThatCannotBeSwitchedToKeepsNobodyAsleep) {
  PassUntilItRests();
  rig.controller.dead = {1};
  rig.monitor.packets[1] = 1;
  Pass(kT);
  EXPECT_FALSE(Rests());
  EXPECT_EQ(rig.controller.woken, std::vector<TaskIndex>{0});
}

TEST(NeverRestsTest, UnlessItIsSet) {
  Rig rig({}, Chain({0, 0}), 1, Filled({0, 0, 0}));
  rig.controller.can_rest = true;
  rig.cores.Start();
  for (Nanoseconds now = 0; now < 100 * kIdleAfter; now += 100 * kT) rig.TickAt(now);
  EXPECT_TRUE(rig.controller.rests.empty());
}

TEST(NeverRestsTest, WhereNobodyCanTellWhetherThereArePackets) {
  FakeMonitor links = Filled({0, 0, 0});
  links.unknown = {1};
  Rig rig(Resting(), Chain({0, 0}), 1, links);
  rig.controller.can_rest = true;
  rig.cores.Start();
  for (Nanoseconds now = 0; now < 100 * kIdleAfter; now += 100 * kT) rig.TickAt(now);
  EXPECT_TRUE(rig.controller.rests.empty());
}

TEST(RestOfManyTest, EachCoreRestsForItself) {
  Rig rig(Resting(), Chain({0, 1}), 2, Filled({0, 1, 0}));
  rig.controller.can_rest = true;
  rig.cores.Start();
  for (Nanoseconds now = 0; now < 2 * kIdleAfter; now += kT) rig.TickAt(now);
  EXPECT_TRUE(rig.cores[0].resting());
  EXPECT_FALSE(rig.cores[1].resting());
}

TEST(RestOfManyTest, ThreadsOfOneFunctionAreWokenByWhatIsInFrontOfIt) {
  CostedTasks tasks;
  tasks.Add(0, {{0, 1}}, kCost, 3);
  Rig rig(Resting(), tasks, 1, Filled({0, 0}));
  rig.controller.can_rest = true;
  rig.cores.Start();
  Nanoseconds now = 0;
  for (; now < 2 * kIdleAfter; now += kT) rig.TickAt(now);
  ASSERT_TRUE(rig.cores[0].resting());
  rig.monitor.packets[0] = 1;
  rig.TickAt(now + kT);
  EXPECT_FALSE(rig.cores[0].resting());
  EXPECT_EQ(rig.controller.woken.size(), 1U);
}

SchedulerSettings RestingInLine() {
  SchedulerSettings settings = Resting();
  settings.handover = true;
  return settings;
}

struct RestInLineTest : RestTest {
  RestInLineTest() : RestTest(RestingInLine()) {
    rig.controller.in_line = {0, 1, 2};
    rig.observer.wanted = false;
  }
};

TEST_F(RestInLineTest, WhoHasPacketsIsWokenFirstAndNobodyIsSwitchedTo) {
  PassUntilItRests();
  rig.controller.switches.clear();
  rig.monitor.packets[2] = 1;
  Pass(kT);
  EXPECT_TRUE(rig.controller.switches.empty());
  EXPECT_EQ(rig.controller.woken, std::vector<TaskIndex>{2});
  EXPECT_EQ(rig.Current(0), 2U);
  Pass(100 * kT);
  EXPECT_TRUE(rig.controller.switches.empty()) << "its turn has only begun";
}

TEST_F(RestInLineTest, TurnsWithoutPacketsKeepNobodyAwake) {
  for (TaskIndex i = 0; i < 200 && !Rests(); ++i) {
    rig.controller.turn = {.task = i % 3, .begun = true};
    Pass(20 * kT);
  }
  EXPECT_TRUE(Rests());
}

}  // namespace
}  // namespace unis
