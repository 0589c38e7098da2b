#include "engine/controller/signal_controller.h"

#include <gtest/gtest.h>

#include <random>

#include "engine/controller/spinners_for_test.h"

namespace unis {
namespace {

using SignalControllerTest = ControllerTest;

bool AllStopped(const Spinners& spinners) {
  for (const NfThread& nf : spinners.nfs())
    if (StateOf(nf.pid) != 'T') return false;
  return true;
}

TEST_F(SignalControllerTest, AcquireStopsAllAndStartRunsTheFirst) {
  const Spinners spinners(3);
  SignalController controller(spinners.nfs());
  ASSERT_TRUE(controller.Acquire().ok());
  ASSERT_TRUE(Eventually([&] { return AllStopped(spinners); }));
  const auto before = spinners.Now();
  std::this_thread::sleep_for(20ms);
  EXPECT_TRUE(spinners.Differ(before).empty());
  controller.Start(0, 2);
  EXPECT_TRUE(spinners.RunsAlone(2, 50ms));
  ASSERT_TRUE(controller.Release().ok());
}

TEST_F(SignalControllerTest, SwitchRunsTheNextAlone) {
  constexpr std::size_t kNfs = 3;
  const Spinners spinners(kNfs);
  SignalController controller(spinners.nfs());
  ASSERT_TRUE(controller.Acquire().ok());
  controller.Start(0, 0);
  ASSERT_TRUE(spinners.RunsAlone(0, 1ms));
  std::mt19937 random(4);
  NfIndex current = 0;
  for (int i = 0; i < 100; ++i) {
    const NfIndex next = static_cast<NfIndex>((current + 1 + random() % (kNfs - 1)) % kNfs);
    const auto before = spinners.Now();
    controller.Switch(0, current, next);
    ASSERT_TRUE(spinners.RunsAlone(next, 1ms)) << "switch " << i;
    for (const std::size_t ran : spinners.Differ(before))
      ASSERT_TRUE(ran == current || ran == next) << "NF " << ran << " ran at switch " << i;
    current = next;
  }
  ASSERT_TRUE(controller.Release().ok());
}

TEST_F(SignalControllerTest, ReleaseLetsAllRun) {
  const Spinners spinners(3);
  SignalController controller(spinners.nfs());
  ASSERT_TRUE(controller.Acquire().ok());
  controller.Start(0, 1);
  ASSERT_TRUE(controller.Release().ok());
  const auto since = spinners.Now();
  EXPECT_TRUE(Eventually([&] { return spinners.AllSpin(since); }));
  EXPECT_TRUE(controller.Release().ok()) << "a second time";
}

TEST_F(SignalControllerTest, ReleaseAfterAnAcquireThatFailedHalfWay) {
  const Spinners spinners(2);
  auto nfs = spinners.nfs();
  const pid_t dead = DeadProcess();
  nfs.insert(nfs.begin() + 1,
             {.name = "dead", .pid = dead, .tid = dead, .core = 0, .cooperates = false});
  SignalController controller(nfs);
  const auto status = controller.Acquire();
  EXPECT_NE(status.message().find("dead"), std::string::npos);
  EXPECT_NE(status.message().find(std::to_string(dead)), std::string::npos);
  ASSERT_TRUE(controller.Release().ok());
  const auto since = spinners.Now();
  EXPECT_TRUE(Eventually([&] { return spinners.AllSpin(since); }));
}

}  // namespace
}  // namespace unis
