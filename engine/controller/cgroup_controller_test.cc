#include "engine/controller/cgroup_controller.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>

#include "engine/controller/freezer_for_test.h"
#include "engine/controller/spinners_for_test.h"

namespace unis {
namespace {

namespace fs = std::filesystem;

std::string CgroupsOf(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/cgroup");
  return {std::istreambuf_iterator<char>(file), {}};
}

class CgroupControllerTest : public ControllerTest {
 protected:
  void SetUp() override {
    ControllerTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    UNIS_NEED_FREEZER();
    root_ = FreezerMount() / run_;
  }

  const std::string run_ = "unis-test-" + std::to_string(getpid());
  fs::path root_;
};

TEST_F(CgroupControllerTest, AcquireFreezesAllAndStartRunsTheFirst) {
  Spinners spinners(3);
  const auto controller = CgroupController::Create(spinners.tasks(), run_).value();
  ASSERT_TRUE(controller->Acquire().ok());
  EXPECT_TRUE(Eventually([&] {
    const auto before = spinners.Now();
    std::this_thread::sleep_for(20ms);
    return spinners.Differ(before).empty();
  }));
  for (const ControlledTask& task : spinners.tasks()) {
    EXPECT_NE(CgroupsOf(task.thread->pid()).find("/" + run_ + "/" + task.thread->name()),
              std::string::npos);
  }
  ASSERT_TRUE(controller->Start(0, 2));
  EXPECT_TRUE(spinners.RunsAlone(2, 50ms));
}

TEST_F(CgroupControllerTest, SwitchRunsTheNextAlone) {
  constexpr std::size_t kTasks = 3;
  Spinners spinners(kTasks);
  const auto controller = CgroupController::Create(spinners.tasks(), run_).value();
  ASSERT_TRUE(controller->Acquire().ok());
  ASSERT_TRUE(controller->Start(0, 0));
  ASSERT_TRUE(spinners.RunsAlone(0, 1ms));
  std::mt19937 random(5);
  TaskIndex current = 0;
  for (int i = 0; i < 50; ++i) {
    const TaskIndex next = static_cast<TaskIndex>((current + 1 + random() % (kTasks - 1)) % kTasks);
    const auto before = spinners.Now();
    ASSERT_TRUE(controller->Switch(0, current, next));
    ASSERT_TRUE(spinners.RunsAlone(next, 1ms)) << "switch " << i;
    for (const std::size_t ran : spinners.Differ(before))
      ASSERT_TRUE(ran == current || ran == next) << "task " << ran << " ran at switch " << i;
    current = next;
  }
}

TEST_F(CgroupControllerTest, ReleasePutsEveryProcessBackAndLeavesNoCgroup) {
  Spinners spinners(2);
  const fs::path origin = FreezerMount() / (run_ + "-origin");
  ASSERT_TRUE(fs::create_directory(origin));
  std::ofstream(origin / "cgroup.procs") << spinners.pid(1) << std::flush;
  const auto before = {CgroupsOf(spinners.pid(0)), CgroupsOf(spinners.pid(1))};
  ASSERT_NE(*before.begin(), *(before.begin() + 1));
  {
    const auto controller = CgroupController::Create(spinners.tasks(), run_).value();
    ASSERT_TRUE(controller->Acquire().ok());
    ASSERT_TRUE(controller->Start(0, 0));
    ASSERT_TRUE(fs::exists(root_));
    const auto status = controller->Release();
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_FALSE(fs::exists(root_));
    EXPECT_EQ(CgroupsOf(spinners.pid(0)), *before.begin());
    EXPECT_EQ(CgroupsOf(spinners.pid(1)), *(before.begin() + 1));
    const auto since = spinners.Now();
    EXPECT_TRUE(Eventually([&] { return spinners.AllSpin(since); }));
    EXPECT_TRUE(controller->Release().ok()) << "a second time";
    ASSERT_TRUE(controller->Acquire().ok());
  }
  EXPECT_FALSE(fs::exists(root_)) << "the destructor releases too";
  EXPECT_EQ(CgroupsOf(spinners.pid(1)), *(before.begin() + 1));
  std::ofstream(FreezerMount() / "cgroup.procs") << spinners.pid(1) << std::flush;
  fs::remove(origin);
}

TEST_F(CgroupControllerTest, AnAcquireThatFailsHalfWayHoldsNobody) {
  Spinners spinners(2);
  const std::string before = CgroupsOf(spinners.pid(0));
  HeldThread dead = DeadThread();
  for (std::size_t position = 0; position <= 2; ++position) {
    auto tasks = spinners.tasks();
    tasks.insert(tasks.begin() + static_cast<std::ptrdiff_t>(position),
                 {.thread = &dead, .core = 0});
    const auto controller = CgroupController::Create(tasks, run_).value();
    EXPECT_FALSE(controller->Acquire().ok());
    EXPECT_FALSE(fs::exists(root_)) << "with the dead at " << position;
    for (std::size_t i = 0; i < 2; ++i) EXPECT_EQ(CgroupsOf(spinners.pid(i)), before);
    const auto since = spinners.Now();
    EXPECT_TRUE(Eventually([&] { return spinners.AllSpin(since); }));
    EXPECT_TRUE(controller->Release().ok());
  }
}

TEST_F(CgroupControllerTest, ASecondAcquireIsRefusedAndForgetsNothing) {
  Spinners spinners(2);
  const std::string before = CgroupsOf(spinners.pid(0));
  const auto controller = CgroupController::Create(spinners.tasks(), run_).value();
  ASSERT_TRUE(controller->Acquire().ok());
  ASSERT_TRUE(controller->Start(0, 1));
  EXPECT_FALSE(controller->Acquire().ok());
  EXPECT_TRUE(spinners.RunsAlone(1, 1ms));
  ASSERT_TRUE(controller->Release().ok());
  EXPECT_EQ(CgroupsOf(spinners.pid(0)), before);
  EXPECT_FALSE(fs::exists(root_));
}

TEST_F(CgroupControllerTest, WhatAFunctionStartsMeanwhileIsPutWhereThatWas) {
  Spinners spinners(1);
  const ChildProcess later;
  const std::string before = CgroupsOf(later.pid());
  const auto controller = CgroupController::Create(spinners.tasks(), run_).value();
  ASSERT_TRUE(controller->Acquire().ok());
  std::ofstream(root_ / "task0" / "cgroup.procs") << later.pid() << std::flush;
  ASSERT_NE(CgroupsOf(later.pid()), before);
  const auto status = controller->Release();
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(CgroupsOf(later.pid()), before);
  EXPECT_FALSE(fs::exists(root_));
}

TEST_F(CgroupControllerTest, ACgroupThatStaysIsNamedAndRemovedLater) {
  Spinners spinners(1);
  const auto controller = CgroupController::Create(spinners.tasks(), run_).value();
  ASSERT_TRUE(controller->Acquire().ok());
  const fs::path stranger = root_ / "task0" / "stranger";
  ASSERT_TRUE(fs::create_directory(stranger));
  const auto status = controller->Release();
  EXPECT_NE(status.message().find((root_ / "task0").string()), std::string::npos) << status;
  const auto since = spinners.Now();
  EXPECT_TRUE(Eventually([&] { return spinners.AllSpin(since); }));
  fs::remove(stranger);
  EXPECT_TRUE(controller->Release().ok());
  EXPECT_FALSE(fs::exists(root_));
}

// A name that is a path would make, freeze and remove cgroups of others.
TEST_F(CgroupControllerTest, RefusesNamesThatLeadElsewhere) {
  const ChildProcess child;
  for (const std::string name : {"..", ".", "", "/x", "a/b", "../x"}) {
    HeldThread thread = HeldThread::Take(name, child.pid(), child.pid()).value();
    const auto controller = CgroupController::Create({{.thread = &thread, .core = 0}}, run_);
    EXPECT_EQ(controller.status().code(), absl::StatusCode::kInvalidArgument) << name;
    HeldThread fine = HeldThread::Take("fw", child.pid(), child.pid()).value();
    EXPECT_FALSE(CgroupController::Create({{.thread = &fine, .core = 0}}, name).ok()) << name;
  }
}

TEST_F(CgroupControllerTest, ATaskThatDiedLeavesNoCgroup) {
  Spinners spinners(2);
  const auto controller = CgroupController::Create(spinners.tasks(), run_).value();
  ASSERT_TRUE(controller->Acquire().ok());
  ASSERT_TRUE(controller->Start(0, 0));
  ASSERT_TRUE(spinners.RunsAlone(0, 1ms));
  spinners.End(0);
  ASSERT_TRUE(controller->Switch(0, 0, 1));
  EXPECT_FALSE(controller->Switch(0, 1, 0));
  EXPECT_TRUE(spinners.RunsAlone(1, 1ms));
  EXPECT_TRUE(controller->Release().ok());
  EXPECT_FALSE(fs::exists(root_));
}

// Killed, and not yet awaited by its parent: the kernel moves it no more.
TEST_F(CgroupControllerTest, AZombieLeavesNoCgroup) {
  Spinners spinners(2);
  const auto controller = CgroupController::Create(spinners.tasks(), run_).value();
  ASSERT_TRUE(controller->Acquire().ok());
  ASSERT_TRUE(controller->Start(0, 0));
  kill(spinners.pid(0), SIGKILL);
  ASSERT_TRUE(Eventually([&] { return StateOf(spinners.pid(0)) == 'Z'; }));
  const auto status = controller->Release();
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_FALSE(fs::exists(root_));
}

}  // namespace
}  // namespace unis
