#include "engine/controller/signal_controller.h"

#include <gtest/gtest.h>

#include <random>

#include "engine/controller/spinners_for_test.h"

namespace unis {
namespace {

using SignalControllerTest = ControllerTest;

bool AllStopped(const Spinners& spinners) {
  for (std::size_t i = 0; i < spinners.size(); ++i)
    if (StateOf(spinners.pid(i)) != 'T') return false;
  return true;
}

TEST_F(SignalControllerTest, AcquireStopsAllAndStartRunsTheFirst) {
  Spinners spinners(3);
  const auto controller = SignalController::Create(spinners.tasks()).value();
  ASSERT_TRUE(controller->Acquire().ok());
  ASSERT_TRUE(Eventually([&] { return AllStopped(spinners); }));
  const auto before = spinners.Now();
  std::this_thread::sleep_for(20ms);
  EXPECT_TRUE(spinners.Differ(before).empty());
  ASSERT_TRUE(controller->Start(0, 2));
  EXPECT_TRUE(spinners.RunsAlone(2, 50ms));
  ASSERT_TRUE(controller->Release().ok());
}

TEST_F(SignalControllerTest, SwitchRunsTheNextAlone) {
  constexpr std::size_t kTasks = 3;
  Spinners spinners(kTasks);
  const auto controller = SignalController::Create(spinners.tasks()).value();
  ASSERT_TRUE(controller->Acquire().ok());
  ASSERT_TRUE(controller->Start(0, 0));
  ASSERT_TRUE(spinners.RunsAlone(0, 1ms));
  std::mt19937 random(4);
  TaskIndex current = 0;
  for (int i = 0; i < 100; ++i) {
    const TaskIndex next = static_cast<TaskIndex>((current + 1 + random() % (kTasks - 1)) % kTasks);
    const auto before = spinners.Now();
    ASSERT_TRUE(controller->Switch(0, current, next));
    ASSERT_TRUE(spinners.RunsAlone(next, 1ms)) << "switch " << i;
    for (const std::size_t ran : spinners.Differ(before))
      ASSERT_TRUE(ran == current || ran == next) << "task " << ran << " ran at switch " << i;
    current = next;
  }
  ASSERT_TRUE(controller->Release().ok());
}

TEST_F(SignalControllerTest, ReleaseLetsAllRun) {
  Spinners spinners(3);
  const auto controller = SignalController::Create(spinners.tasks()).value();
  ASSERT_TRUE(controller->Acquire().ok());
  ASSERT_TRUE(controller->Start(0, 1));
  ASSERT_TRUE(controller->Release().ok());
  const auto since = spinners.Now();
  EXPECT_TRUE(Eventually([&] { return spinners.AllSpin(since); }));
  EXPECT_TRUE(controller->Release().ok()) << "a second time";
}

TEST_F(SignalControllerTest, AnAcquireThatFailsHalfWayHoldsNobody) {
  Spinners spinners(2);
  HeldThread dead = DeadThread();
  auto tasks = spinners.tasks();
  tasks.insert(tasks.begin() + 1, &dead);
  const auto controller = SignalController::Create(tasks).value();
  const auto status = controller->Acquire();
  EXPECT_NE(status.message().find("dead"), std::string::npos);
  EXPECT_NE(status.message().find(std::to_string(dead.pid())), std::string::npos);
  const auto since = spinners.Now();
  EXPECT_TRUE(Eventually([&] { return spinners.AllSpin(since); }));
  EXPECT_TRUE(controller->Release().ok());
}

TEST_F(SignalControllerTest, ASecondAcquireIsRefused) {
  Spinners spinners(2);
  const auto controller = SignalController::Create(spinners.tasks()).value();
  ASSERT_TRUE(controller->Acquire().ok());
  ASSERT_TRUE(controller->Start(0, 1));
  EXPECT_FALSE(controller->Acquire().ok());
  EXPECT_TRUE(spinners.RunsAlone(1, 1ms));
}

TEST_F(SignalControllerTest, ASwitchToADeadTaskIsRefused) {
  Spinners spinners(2);
  const auto controller = SignalController::Create(spinners.tasks()).value();
  ASSERT_TRUE(controller->Acquire().ok());
  ASSERT_TRUE(controller->Start(0, 0));
  kill(spinners.pid(1), SIGKILL);  // and nobody waits for it: a zombie, which takes signals
  ASSERT_TRUE(Eventually([&] { return StateOf(spinners.pid(1)) == 'Z'; }));
  EXPECT_FALSE(controller->Switch(0, 0, 1));
  EXPECT_TRUE(spinners.RunsAlone(0, 1ms));
  EXPECT_FALSE(controller->Start(0, 1));
}

TEST_F(SignalControllerTest, LetsAllRunWhenItGoes) {
  Spinners spinners(2);
  {
    const auto controller = SignalController::Create(spinners.tasks()).value();
    ASSERT_TRUE(controller->Acquire().ok());
  }
  const auto since = spinners.Now();
  EXPECT_TRUE(Eventually([&] { return spinners.AllSpin(since); }));
}

TEST_F(SignalControllerTest, RefusesTwoTasksOfOneProcess) {
  Spinners spinners(2);
  auto tasks = spinners.tasks();
  tasks.push_back(tasks.front());
  const auto controller = MakeController(ControllerKind::kSignal, tasks);
  EXPECT_EQ(controller.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(controller.status().message().find("task0"), std::string::npos);
  EXPECT_TRUE(MakeController(ControllerKind::kPriority, tasks).ok());
}

}  // namespace
}  // namespace unis
