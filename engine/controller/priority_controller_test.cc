#include "engine/controller/priority_controller.h"

#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "engine/controller/scheduling_for_test.h"
#include "engine/controller/spinners_for_test.h"

namespace unis {
namespace {

using PriorityControllerTest = ControllerTest;

// Of this thread, as long as it lives.
class WithoutCapability {
 public:
  explicit WithoutCapability(unsigned number) {
    Get(before_);
    auto without = before_;
    without[number / 32].effective &= ~(1U << number % 32);
    Set(without);
  }
  ~WithoutCapability() { Set(before_); }
  WithoutCapability(const WithoutCapability&) = delete;
  WithoutCapability& operator=(const WithoutCapability&) = delete;

 private:
  using Sets = std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3>;
  static void Get(Sets& sets) {
    __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
    ASSERT_EQ(syscall(SYS_capget, &header, sets.data()), 0);
  }
  static void Set(Sets sets) {
    __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
    ASSERT_EQ(syscall(SYS_capset, &header, sets.data()), 0);
  }
  Sets before_{};
};

std::vector<std::string> ReadAll(const Spinners& spinners, std::size_t count) {
  std::vector<std::string> states;
  for (std::size_t i = 0; i < count; ++i) states.push_back(SchedulingOf(spinners.pid(i)));
  return states;
}

TEST_F(PriorityControllerTest, StartRunsTheFirstAlone) {
  Spinners spinners(3);
  PriorityController controller(spinners.tasks());
  ASSERT_TRUE(controller.Acquire().ok());
  ASSERT_TRUE(controller.Start(0, 1));
  EXPECT_TRUE(spinners.RunsAlone(1, 2ms));
  // Longer than a SCHED_RR time slice, so that chance cannot help.
  EXPECT_TRUE(spinners.RunsAlone(1, 150ms));
}

// 200 switches pass the top of the ladder four times.
TEST_F(PriorityControllerTest, SwitchRunsTheNextAloneAndNobodyElseMeanwhile) {
  constexpr std::size_t kTasks = 4;
  Spinners spinners(kTasks);
  PriorityController controller(spinners.tasks());
  ASSERT_TRUE(controller.Acquire().ok());
  ASSERT_TRUE(controller.Start(0, 0));
  ASSERT_TRUE(spinners.RunsAlone(0, 1ms));

  std::mt19937 random(3);
  TaskIndex current = 0;
  for (int i = 0; i < 200; ++i) {
    const TaskIndex next = static_cast<TaskIndex>((current + 1 + random() % (kTasks - 1)) % kTasks);
    const Spinners::Counts before = spinners.Now();
    ASSERT_TRUE(controller.Switch(0, current, next));
    ASSERT_TRUE(spinners.RunsAlone(next, 500us)) << "switch " << i;
    for (const std::size_t ran : spinners.Differ(before)) {
      ASSERT_TRUE(ran == current || ran == next)
          << "task " << ran << " ran at switch " << i << " from " << current << " to " << next;
    }
    current = next;
  }
}

TEST_F(PriorityControllerTest, StaysBelowTheKernelsInterruptThreads) {
  Spinners spinners(2);
  PriorityController controller(spinners.tasks());
  ASSERT_TRUE(controller.Acquire().ok());
  ASSERT_TRUE(controller.Start(0, 0));
  for (TaskIndex i = 0; i < 2 * PriorityController::kTop; ++i) {
    ASSERT_TRUE(controller.Switch(0, i % 2, 1 - i % 2));
    const SchedulingClass next = spinners.thread(1 - i % 2).Class().value();
    const SchedulingClass last = spinners.thread(i % 2).Class().value();
    ASSERT_LT(last.priority, next.priority) << i;
    ASSERT_LE(next.priority, PriorityController::kTop) << i;
    ASSERT_EQ(next.policy, SCHED_RR | SCHED_RESET_ON_FORK);
  }
}

TEST_F(PriorityControllerTest, ReleaseRestoresExactly) {
  Spinners processes(4, 1);
  SetScheduling(processes.pid(0), SCHED_OTHER, 0, 5);
  SetScheduling(processes.pid(1), SCHED_BATCH, 0, -3);
  SetScheduling(processes.pid(2), SCHED_IDLE, 0, 0);
  SetScheduling(processes.pid(4), SCHED_FIFO, 7, 0);  // this one sleeps
  const auto before = ReadAll(processes, 5);
  {
    PriorityController controller(processes.tasks());
    ASSERT_TRUE(controller.Acquire().ok());
    ASSERT_TRUE(controller.Start(0, 0));
    for (TaskIndex i = 0; i < 60; ++i) ASSERT_TRUE(controller.Switch(0, i % 5, (i + 1) % 5));
    ASSERT_TRUE(controller.Release().ok());
    EXPECT_EQ(ReadAll(processes, 5), before);
    const auto since = processes.Now();
    ASSERT_TRUE(processes.thread(2).SetClass(SCHED_OTHER, 0).ok());
    EXPECT_TRUE(Eventually([&] { return processes.AllSpin(since); })) << "somebody is held back";
    ASSERT_TRUE(processes.thread(2).SetClass(SCHED_IDLE, 0).ok());
    EXPECT_TRUE(controller.Release().ok()) << "a second time";
    ASSERT_TRUE(controller.Acquire().ok());
  }
  EXPECT_EQ(ReadAll(processes, 5), before) << "the destructor releases too";
}

// Without the right to a real-time class nobody gets one back that had one.
TEST_F(PriorityControllerTest, WhoCouldNotBePutBackIsTriedAgain) {
  Spinners processes(2);
  SetScheduling(processes.pid(1), SCHED_FIFO, 7, 0);
  const rlimit none{};
  ASSERT_EQ(prlimit(processes.pid(1), RLIMIT_RTPRIO, &none, nullptr), 0);
  const auto before = ReadAll(processes, 2);
  PriorityController controller(processes.tasks());
  ASSERT_TRUE(controller.Acquire().ok());
  {
    const WithoutCapability lowered(CAP_SYS_NICE);
    EXPECT_FALSE(controller.Release().ok());
  }
  EXPECT_NE(ReadAll(processes, 2), before);
  EXPECT_FALSE(controller.Acquire().ok()) << "what it was is forgotten";
  EXPECT_TRUE(controller.Release().ok());
  EXPECT_EQ(ReadAll(processes, 2), before);
}

TEST_F(PriorityControllerTest, ASecondAcquireIsRefusedAndForgetsNothing) {
  Spinners spinners(2);
  const auto before = ReadAll(spinners, 2);
  PriorityController controller(spinners.tasks());
  ASSERT_TRUE(controller.Acquire().ok());
  ASSERT_TRUE(controller.Start(0, 1));
  EXPECT_FALSE(controller.Acquire().ok());
  EXPECT_TRUE(spinners.RunsAlone(1, 1ms)) << "the refusal changed something";
  ASSERT_TRUE(controller.Release().ok());
  EXPECT_EQ(ReadAll(spinners, 2), before);
}

TEST_F(PriorityControllerTest, AnAcquireThatFailsHalfWayHoldsNobody) {
  Spinners spinners(3);
  const auto before = ReadAll(spinners, 3);
  HeldThread dead = DeadThread();
  for (std::size_t position = 0; position <= 3; ++position) {
    auto some = spinners.tasks();
    some.insert(some.begin() + static_cast<std::ptrdiff_t>(position), &dead);
    PriorityController controller(some);
    EXPECT_FALSE(controller.Acquire().ok());
    EXPECT_EQ(ReadAll(spinners, 3), before);
    EXPECT_TRUE(controller.Release().ok());
    EXPECT_EQ(ReadAll(spinners, 3), before);
  }
}

TEST_F(PriorityControllerTest, ATaskThatDiesDoesNotHoldUpTheOthers) {
  Spinners spinners(3);
  const auto before = ReadAll(spinners, 3);
  PriorityController controller(spinners.tasks());
  ASSERT_TRUE(controller.Acquire().ok());
  ASSERT_TRUE(controller.Start(0, 0));
  ASSERT_TRUE(spinners.RunsAlone(0, 1ms));
  spinners.End(1);
  EXPECT_FALSE(controller.Switch(0, 0, 1));
  EXPECT_TRUE(spinners.RunsAlone(0, 1ms)) << "a switch to a dead task was not refused";
  spinners.End(0);
  EXPECT_FALSE(controller.Start(0, 0));
  for (TaskIndex i = 0; i < 2 * PriorityController::kTop; ++i)
    ASSERT_TRUE(controller.Switch(0, i == 0 ? 0 : 2, 2)) << i;
  EXPECT_TRUE(spinners.RunsAlone(2, 1ms));
  ASSERT_TRUE(controller.Release().ok());
  EXPECT_EQ(SchedulingOf(spinners.pid(2)), before[2]);
}

// Two threads of one process: each is a task of its own.
TEST_F(PriorityControllerTest, SchedulesThreadsAndNotProcesses) {
  std::atomic<bool> stop{false};
  std::array<std::atomic<pid_t>, 2> tids{};
  std::vector<std::thread> threads;
  for (auto& tid : tids) {
    threads.emplace_back([&] {
      tid = static_cast<pid_t>(syscall(SYS_gettid));
      while (!stop) std::this_thread::sleep_for(1ms);
    });
  }
  ASSERT_TRUE(Eventually([&] { return tids[0] != 0 && tids[1] != 0; }));
  {
    std::vector<HeldThread> held;
    for (const auto& tid : tids) held.push_back(HeldThread::Take("fw", getpid(), tid).value());
    PriorityController controller({&held[0], &held[1]});
    ASSERT_TRUE(controller.Acquire().ok());
    ASSERT_TRUE(controller.Start(0, 0));
    ASSERT_TRUE(controller.Switch(0, 0, 1));
    EXPECT_EQ(held[0].DescribeClass(), "rr 2");
    EXPECT_EQ(held[1].DescribeClass(), "rr 3");
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace unis
