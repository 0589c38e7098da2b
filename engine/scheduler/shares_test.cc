// Tasks whose packets leave by one of several egresses.
#include "engine/scheduler/shares.h"

#include <gtest/gtest.h>

#include <vector>

#include "engine/scheduler/paper_for_test.h"

namespace unis {
namespace {

// Task 0 takes from link 0 and sends to links 1 and 2; task 1 takes from link 3 and sends to 4.
CostedTasks Branching() {
  CostedTasks tasks;
  tasks.Add(0, {{0, 1}, {0, 2}}, kCost);
  tasks.Add(0, {{3, 4}}, kCost);
  return tasks;
}

struct SharesTest : testing::Test {
  SharesTest() : rig({}, Branching(), 1, Filled({kPlenty, 0, 0, 0, 0})) {
    EXPECT_TRUE(rig.cores.Start());
  }
  // Task 0 sends so many of 1024 packets by each egress.
  void Send(std::uint16_t one, std::uint16_t other, int times = 20) {
    for (int i = 0; i < times; ++i) {
      rig.monitor.received[0] += 1024;
      rig.monitor.sent[1] += one;
      rig.monitor.sent[2] += other;
      now += kT;
      rig.TickAt(now);
    }
  }
  // The other egress is full, and task 1 has work.
  void FillTheOther() {
    rig.monitor.packets[3] = kPlenty;
    rig.monitor.packets[2] = kThetaMax;
    rig.TickAt(now + kT);
  }
  Rig rig;
  Nanoseconds now = 0;
};

TEST_F(SharesTest, AtFirstAllPacketsMayGoToEachEgress) {
  EXPECT_EQ(AlgorithmOf(rig).TimeSlice(0), kSlice);
}

TEST_F(SharesTest, TheSliceFillsTheEgressThatIsFullFirst) {
  Send(768, 256);
  EXPECT_NEAR(static_cast<double>(AlgorithmOf(rig).TimeSlice(0)), kSlice / 0.75, kSlice / 100.0);
  Send(256, 768);
  EXPECT_NEAR(static_cast<double>(AlgorithmOf(rig).TimeSlice(0)), kSlice / 0.75, kSlice / 100.0);
}

TEST_F(SharesTest, ACopyCountsInFull) {
  Send(1024, 1024);
  EXPECT_EQ(AlgorithmOf(rig).TimeSlice(0), kSlice);
}

TEST_F(SharesTest, AnEgressThatIsFullIsReasonToLeave) {
  Send(512, 512);
  FillTheOther();
  EXPECT_EQ(rig.Current(0), 1u);
  EXPECT_EQ(rig.observer.records.back().reason, SwitchReason::kEgressHigh);
}

TEST_F(SharesTest, ButNotOneToWhichNothingGoes) {
  Send(1024, 0);
  FillTheOther();
  EXPECT_EQ(rig.Current(0), 0u);
}

TEST_F(SharesTest, WhatGoesThereIsSeenAgain) {
  Send(1024, 0);
  Send(512, 512);
  FillTheOther();
  EXPECT_EQ(rig.Current(0), 1u);
}

// Else an egress that loses packets would count for less and less.
TEST_F(SharesTest, WhatFitsIntoAFullEgressIsNoShare) {
  rig.monitor.packets[2] = kCapacity;
  Send(512, 10);
  rig.monitor.packets[2] = 0;
  EXPECT_NEAR(static_cast<double>(AlgorithmOf(rig).TimeSlice(0)), kSlice, kSlice / 100.0)
      << "as at first";
}

TEST_F(SharesTest, OfAMonitorThatCannotCountNothingIsLearned) {
  Send(0, 0);
  EXPECT_EQ(AlgorithmOf(rig).TimeSlice(0), kSlice);
}

// Both tasks would lose packets: task 0 a tenth of 1000, task 1 all 300.
TEST_F(SharesTest, TheLossOfABranchIsItsShare) {
  CostedTasks tasks;
  tasks.Add(0, {{5, 6}}, kCost);  // runs, and has no work
  tasks.Add(0, {{0, 1}, {0, 2}}, kCost);
  tasks.Add(0, {{3, 4}, {7, 8}}, kCost);
  Rig two({}, tasks, 1, Filled(std::vector<std::uint32_t>(9, 0)));
  two.cores.Start();
  two.monitor.packets[0] = kPlenty;
  for (int i = 1; i <= 20; ++i) {
    two.monitor.received[0] += 1024;
    two.monitor.sent[1] += 922;
    two.monitor.sent[2] += 102;
    two.TickAt(i * kT);
  }
  ASSERT_EQ(two.Current(0), 1u);
  two.monitor.packets = {kPlenty, 0, kThetaMax, 300, kThetaMax, 0, 0, 10, 0};
  two.TickAt(21 * kT);
  EXPECT_EQ(two.Current(0), 1u) << "about 100 packets are fewer than 300";
  two.monitor.packets[3] = 50;
  two.TickAt(22 * kT);
  EXPECT_EQ(two.Current(0), 2u);
}

}  // namespace
}  // namespace unis
