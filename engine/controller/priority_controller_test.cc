#include "engine/controller/priority_controller.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <random>
#include <string>
#include <vector>

#include "engine/controller/spinners_for_test.h"

namespace unis {
namespace {

using PriorityControllerTest = ControllerTest;

// All that UNiS may change of a thread, comparable and legible.
std::string Scheduling(pid_t tid) {
  const SchedulingState state = ReadScheduling(tid).value();
  std::string text = fmt::format("policy {:#x} priority {} nice {} CPUs", state.policy,
                                 state.priority, state.nice);
  for (unsigned cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &state.affinity)) text += fmt::format(" {}", cpu);
  return text;
}

std::vector<std::string> ReadAll(const Spinners& spinners) {
  std::vector<std::string> states;
  for (const NfThread& nf : spinners.nfs()) states.push_back(Scheduling(nf.tid));
  return states;
}

TEST_F(PriorityControllerTest, StartRunsTheFirstAlone) {
  const Spinners spinners(3);
  PriorityController controller(spinners.nfs());
  ASSERT_TRUE(controller.Acquire().ok());
  controller.Start(0, 1);
  EXPECT_TRUE(spinners.RunsAlone(1, 2ms));
  // Longer than a SCHED_RR time slice, so that chance cannot help.
  EXPECT_TRUE(spinners.RunsAlone(1, 150ms));
}

// 200 switches pass the top of the ladder four times.
TEST_F(PriorityControllerTest, SwitchRunsTheNextAloneAndNobodyElseMeanwhile) {
  constexpr std::size_t kNfs = 4;
  const Spinners spinners(kNfs);
  PriorityController controller(spinners.nfs());
  ASSERT_TRUE(controller.Acquire().ok());
  controller.Start(0, 0);
  ASSERT_TRUE(spinners.RunsAlone(0, 1ms));

  std::mt19937 random(3);
  NfIndex current = 0;
  for (int i = 0; i < 200; ++i) {
    const NfIndex next = static_cast<NfIndex>((current + 1 + random() % (kNfs - 1)) % kNfs);
    const Spinners::Counts before = spinners.Now();
    controller.Switch(0, current, next);
    ASSERT_TRUE(spinners.RunsAlone(next, 500us)) << "switch " << i;
    for (const std::size_t ran : spinners.Differ(before)) {
      ASSERT_TRUE(ran == current || ran == next)
          << "NF " << ran << " ran at switch " << i << " from " << current << " to " << next;
    }
    current = next;
  }
}

TEST_F(PriorityControllerTest, StaysBelowTheKernelsInterruptThreads) {
  const Spinners spinners(2);
  PriorityController controller(spinners.nfs());
  ASSERT_TRUE(controller.Acquire().ok());
  controller.Start(0, 0);
  for (NfIndex i = 0; i < 2 * PriorityController::kTop; ++i) {
    controller.Switch(0, i % 2, 1 - i % 2);
    const auto next = ReadScheduling(spinners.pid(1 - i % 2)).value();
    const auto last = ReadScheduling(spinners.pid(i % 2)).value();
    ASSERT_LT(last.priority, next.priority) << i;
    ASSERT_LE(next.priority, PriorityController::kTop) << i;
    ASSERT_EQ(next.policy, SCHED_RR);
  }
}

TEST_F(PriorityControllerTest, TheLadderOfOneCoreLeavesTheOthersAlone) {
  Spinners processes(2, 1);
  processes.nfs()[2].core = 1;
  PriorityController controller(processes.nfs());
  ASSERT_TRUE(controller.Acquire().ok());
  controller.Start(0, 0);
  controller.Start(1, 2);
  const std::string before = DescribeScheduling(processes.pid(2));
  for (NfIndex i = 0; i < 2 * PriorityController::kTop; ++i) {
    controller.Switch(0, i % 2, 1 - i % 2);
    ASSERT_EQ(DescribeScheduling(processes.pid(2)), before) << i;
  }
}

TEST_F(PriorityControllerTest, ReleaseRestoresExactly) {
  const Spinners processes(4, 1);
  ASSERT_EQ(setpriority(PRIO_PROCESS, static_cast<id_t>(processes.pid(0)), 5), 0);
  ASSERT_TRUE(SetSchedulingClass(processes.nfs()[1], SCHED_BATCH, 0).ok());
  ASSERT_EQ(setpriority(PRIO_PROCESS, static_cast<id_t>(processes.pid(1)), -3), 0);
  ASSERT_TRUE(SetSchedulingClass(processes.nfs()[2], SCHED_IDLE, 0).ok());
  ASSERT_TRUE(SetSchedulingClass(processes.nfs()[4], SCHED_FIFO, 7).ok());  // this one sleeps
  cpu_set_t all;
  CPU_ZERO(&all);
  for (unsigned cpu = 0; cpu <= LastCpu(); ++cpu) CPU_SET(cpu, &all);
  ASSERT_EQ(sched_setaffinity(processes.pid(4), sizeof(all), &all), 0);
  const auto before = ReadAll(processes);

  PriorityController controller(processes.nfs());
  ASSERT_TRUE(controller.Acquire().ok());
  ASSERT_TRUE(PinToCpu(processes.nfs()[4], LastCpu()).ok());
  controller.Start(0, 0);
  for (NfIndex i = 0; i < 60; ++i) controller.Switch(0, i % 5, (i + 1) % 5);
  ASSERT_TRUE(controller.Release().ok());
  EXPECT_EQ(ReadAll(processes), before);

  const auto since = processes.Now();
  ASSERT_TRUE(SetSchedulingClass(processes.nfs()[2], SCHED_OTHER, 0).ok());
  EXPECT_TRUE(Eventually([&] { return processes.AllSpin(since); })) << "somebody is held back";
  EXPECT_TRUE(controller.Release().ok()) << "a second time";
}

TEST_F(PriorityControllerTest, ReleaseAfterAnAcquireThatFailedHalfWay) {
  const Spinners spinners(3);
  const auto before = ReadAll(spinners);
  auto nfs = spinners.nfs();
  const pid_t dead = DeadProcess();
  for (std::size_t position = 0; position <= 3; ++position) {
    auto some = nfs;
    some.insert(some.begin() + static_cast<std::ptrdiff_t>(position),
                {.name = "dead", .pid = dead, .tid = dead, .core = 0, .cooperates = false});
    PriorityController controller(some);
    EXPECT_FALSE(controller.Acquire().ok());
    EXPECT_TRUE(controller.Release().ok());
    EXPECT_EQ(ReadAll(spinners), before);
  }
}

TEST_F(PriorityControllerTest, AnNfThatDiesDoesNotHoldUpTheOthers) {
  Spinners spinners(3);
  const auto before = ReadAll(spinners);
  PriorityController controller(spinners.nfs());
  ASSERT_TRUE(controller.Acquire().ok());
  controller.Start(0, 0);
  ASSERT_TRUE(spinners.RunsAlone(0, 1ms));
  spinners.End(0);
  controller.Switch(0, 0, 2);
  EXPECT_TRUE(spinners.RunsAlone(2, 1ms));
  controller.Switch(0, 2, 1);
  EXPECT_TRUE(spinners.RunsAlone(1, 1ms));
  ASSERT_TRUE(controller.Release().ok());
  for (const std::size_t nf : {1U, 2U}) EXPECT_EQ(Scheduling(spinners.pid(nf)), before[nf]);
}

}  // namespace
}  // namespace unis
