// θmin and θmax (section 4.4): who must leave, and who is no candidate.
#include <gtest/gtest.h>

#include <cstdint>
#include <utility>

#include "engine/scheduler/algorithm_one.h"
#include "engine/scheduler/paper_for_test.h"

namespace unis {
namespace {

class IngressTest : public testing::TestWithParam<std::pair<std::uint32_t, bool>> {};

TEST_P(IngressTest, LeavesAtOrBelowThetaMin) {
  const auto [packets, leaves] = GetParam();
  Rig rig = Started({}, Apart(2), 1, 4);
  rig.cores.Start();
  rig.monitor.packets[0] = packets;
  rig.TickAt(kT);
  EXPECT_EQ(rig.Current(0), leaves ? 1u : 0u);
  if (leaves) {
    EXPECT_EQ(rig.observer.records.back().reason, SwitchReason::kIngressLow);
  }
}

TEST_P(IngressTest, ATaskAtOrBelowThetaMinIsNoCandidate) {
  const auto [packets, idle] = GetParam();
  Rig rig = Started({}, Apart(2), 1, 4);
  rig.cores.Start();
  rig.monitor.packets[2] = packets;
  rig.TickAt(kSlice);
  EXPECT_EQ(rig.Current(0), idle ? 0u : 1u);
}

INSTANTIATE_TEST_SUITE_P(Thresholds, IngressTest,
                         testing::Values(std::pair(0u, true), std::pair(kThetaMin - 1, true),
                                         std::pair(kThetaMin, true),
                                         std::pair(kThetaMin + 1, false),
                                         std::pair(kPlenty, false)));

class EgressTest : public testing::TestWithParam<std::pair<std::uint32_t, bool>> {};

TEST_P(EgressTest, LeavesAtOrAboveThetaMax) {
  const auto [packets, leaves] = GetParam();
  Rig rig = Started({}, Apart(2), 1, 4);
  rig.cores.Start();
  rig.monitor.packets[1] = packets;
  rig.TickAt(kT);
  EXPECT_EQ(rig.Current(0), leaves ? 1u : 0u);
  if (leaves) {
    EXPECT_EQ(rig.observer.records.back().reason, SwitchReason::kEgressHigh);
  }
}

TEST_P(EgressTest, ATaskAtOrAboveThetaMaxIsNoCandidate) {
  const auto [packets, full] = GetParam();
  Rig rig = Started({}, Apart(2), 1, 4);
  rig.cores.Start();
  rig.monitor.packets[3] = packets;
  rig.TickAt(kSlice);
  EXPECT_EQ(rig.Current(0), full ? 0u : 1u);
}

INSTANTIATE_TEST_SUITE_P(Thresholds, EgressTest,
                         testing::Values(std::pair(0u, false), std::pair(kThetaMax - 1, false),
                                         std::pair(kThetaMax, true), std::pair(kThetaMax + 1, true),
                                         std::pair(kCapacity, true)));

TEST(ThresholdsTest, ExplicitThetaMaxReplacesTheDefault) {
  SchedulerSettings settings;
  settings.theta_max = 100;
  Rig rig = Started(settings, Apart(2), 1, 4);
  rig.cores.Start();
  rig.monitor.packets = {kPlenty, 99, kPlenty, 0};
  rig.TickAt(kT);
  EXPECT_EQ(rig.Current(0), 0u);
  rig.monitor.packets[1] = 100;
  rig.TickAt(2 * kT);
  EXPECT_EQ(rig.Current(0), 1u);
}

TEST(ThresholdsTest, DefaultThetaMaxFollowsTheCapacityOfEachEgress) {
  FakeMonitor links = Links(4);
  links.capacity = {kCapacity, 512, kCapacity, 1024};
  links.packets = {kPlenty, 383, kPlenty, 767};
  SchedulerSettings settings;
  settings.gamma = 0.75;
  Rig rig(settings, Apart(2), 1, links);
  rig.cores.Start();
  rig.TickAt(kT);
  EXPECT_EQ(rig.Current(0), 0u);
  rig.monitor.packets[1] = 384;  // 0.75 · 512
  rig.TickAt(2 * kT);
  EXPECT_EQ(rig.Current(0), 1u);
}

}  // namespace
}  // namespace unis
