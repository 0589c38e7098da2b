#include "engine/controller/held_thread.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <optional>

#include "engine/controller/scheduling_for_test.h"
#include "engine/controller/sleeping_thread_for_test.h"
#include "engine/controller/spinners_for_test.h"

namespace unis {
namespace {

class HeldThreadTest : public ControllerTest {
 protected:
  HeldThread Take() { return HeldThread::Take("fw", getpid(), thread_.tid()).value(); }
  std::string Now() const { return SchedulingOf(thread_.tid()); }

  SleepingThread thread_;
};

TEST_F(HeldThreadTest, SetsClassPriorityAndCpuOfTheThreadAndNotOfItsProcess) {
  const std::string process = SchedulingOf(getpid());
  HeldThread held = Take();
  EXPECT_EQ(held.DescribeClass(), "other");
  ASSERT_TRUE(held.SetClass(SCHED_FIFO, 12).ok());
  EXPECT_EQ(held.DescribeClass(), "fifo 12");
  EXPECT_TRUE(held.SetPriority(13));
  EXPECT_EQ(held.DescribeClass(), "fifo 13");
  ASSERT_TRUE(held.SetClass(SCHED_RR, 1).ok());
  EXPECT_EQ(held.DescribeClass(), "rr 1");
  ASSERT_TRUE(held.Pin(LastCpu()).ok());
  EXPECT_TRUE(Now().ends_with(fmt::format("CPUs {}", LastCpu()))) << Now();
  ASSERT_TRUE(held.SetClass(SCHED_BATCH, 0).ok());
  EXPECT_EQ(held.DescribeClass(), "batch");
  EXPECT_EQ(SchedulingOf(getpid()), process);
}

TEST_F(HeldThreadTest, RestoresEveryClass) {
  struct Case {
    int policy, priority, nice;
  };
  for (const auto& [policy, priority, nice] :
       {Case{SCHED_OTHER, 0, -5}, Case{SCHED_OTHER, 0, 11}, Case{SCHED_BATCH, 0, 4},
        Case{SCHED_IDLE, 0, 19}, Case{SCHED_FIFO, 42, 0}, Case{SCHED_RR, 1, 2},
        Case{SCHED_OTHER | SCHED_RESET_ON_FORK, 0, 0}}) {
    SetScheduling(thread_.tid(), policy, priority, nice);
    const std::string before = Now();
    HeldThread held = Take();
    ASSERT_TRUE(held.SetClass(SCHED_RR, 9).ok());
    ASSERT_TRUE(held.Pin(LastCpu()).ok());
    ASSERT_EQ(setpriority(PRIO_PROCESS, static_cast<id_t>(thread_.tid()), 1), 0);
    ASSERT_NE(Now(), before);
    ASSERT_TRUE(held.Restore().ok());
    EXPECT_EQ(Now(), before);
    // What others change after that stays.
    SetScheduling(thread_.tid(), SCHED_BATCH, 0, 0);
    ASSERT_TRUE(held.Restore().ok()) << "a second time";
    EXPECT_EQ(held.DescribeClass(), "batch");
  }
}

TEST_F(HeldThreadTest, RestoresWhenItGoesAndOnlyThen) {
  const std::string before = Now();
  std::optional<HeldThread> held(Take());
  ASSERT_TRUE(held->SetClass(SCHED_FIFO, 5).ok());
  const std::string changed = Now();
  {
    std::vector<HeldThread> moved;
    moved.push_back(*std::move(held));
    held.reset();
    EXPECT_EQ(Now(), changed) << "one that was moved from holds nothing";
    moved.front() = DeadThread();
    EXPECT_EQ(Now(), before) << "what is assigned to lets go of its thread";
    moved.front() = Take();
    ASSERT_TRUE(moved.front().SetClass(SCHED_FIFO, 6).ok());
  }
  EXPECT_EQ(Now(), before);
}

TEST_F(HeldThreadTest, ChangesNothingThatItDidNotTake) {
  {
    const HeldThread held = Take();
    SetScheduling(thread_.tid(), SCHED_BATCH, 0, 3);
  }
  EXPECT_EQ(Take().DescribeClass(), "batch, nice 3");
}

// What the thread forks and clones must not become real-time, or have a slice, behind everybody's
// back.
TEST_F(HeldThreadTest, ChildrenDoNotInheritTheClass) {
  std::array<int, 2> go{}, answer{};
  ASSERT_EQ(pipe(go.data()), 0);
  ASSERT_EQ(pipe(answer.data()), 0);
  const std::uint64_t slice = SliceOf(thread_.tid());
  for (const int policy : {SCHED_FIFO, SCHED_RR, SCHED_OTHER}) {
    const ChildProcess child([&] {
      char byte = 0;
      if (read(go[0], &byte, 1) != 1) return;
      if (fork() == 0) {
        const std::array inherited{static_cast<std::uint64_t>(sched_getscheduler(0)), SliceOf(0)};
        (void)!write(answer[1], inherited.data(), sizeof(inherited));
        _exit(0);
      }
      pause();
    });
    HeldThread held = HeldThread::Take("fw", child.pid(), child.pid()).value();
    if (policy == SCHED_OTHER) {
      if (slice == 0) break;  // the kernel knows none
      ASSERT_TRUE(held.SetClass(policy, 0, {.slice = 50ms}).ok());
    } else {
      ASSERT_TRUE(held.SetClass(policy, 3).ok());
      ASSERT_TRUE(held.SetPriority(4)) << "a new priority keeps the rule";
    }
    ASSERT_EQ(write(go[1], "", 1), 1);
    std::array<std::uint64_t, 2> inherited{};
    ASSERT_EQ(read(answer[0], inherited.data(), sizeof(inherited)), sizeof(inherited));
    EXPECT_EQ(inherited[0], std::uint64_t{SCHED_OTHER});
    EXPECT_EQ(inherited[1], slice);
  }
  for (const int fd : {go[0], go[1], answer[0], answer[1]}) close(fd);
}

// As one that waits for a disk: only SIGKILL reaches it. Its child was made by vfork().
TEST_F(HeldThreadTest, WhoWaitsUninterruptiblySleeps) {
  const ChildProcess child([] {
    const pid_t parent = getpid();
    if (syscall(SYS_clone, CLONE_VFORK | SIGCHLD, 0, 0, 0, 0) != 0) return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() == parent) pause();
    _exit(0);
  });
  const HeldThread held = HeldThread::Take("fw", child.pid(), child.pid()).value();
  ASSERT_TRUE(Eventually([&] { return StateOf(child.pid()) == 'D'; }));
  EXPECT_TRUE(held.sleeps());
}

TEST_F(HeldThreadTest, AProcessThatWasStoppedGoesOn) {
  const ChildProcess child;
  {
    HeldThread held = HeldThread::Take("fw", child.pid(), child.pid()).value();
    EXPECT_TRUE(Eventually([&] { return held.sleeps(); }));
    EXPECT_TRUE(held.Signal(SIGSTOP));
    EXPECT_TRUE(Eventually([&] { return held.stopped(); }));
    EXPECT_FALSE(held.sleeps());
    EXPECT_TRUE(held.alive());
  }
  EXPECT_TRUE(Eventually([&] { return StateOf(child.pid()) == 'S'; }));
}

TEST_F(HeldThreadTest, AnErrorNamesTheFunctionAndTheThread) {
  HeldThread dead = DeadThread();
  EXPECT_FALSE(dead.alive());
  EXPECT_EQ(dead.DescribeClass(), "gone");
  for (const absl::Status& status :
       {dead.SetClass(SCHED_FIFO, 1), dead.Pin(LastCpu()), dead.SetYielding(8),
        dead.Class().status(), HeldThread::Take("dead", dead.pid(), dead.tid()).status()}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
    EXPECT_NE(status.message().find("dead"), std::string::npos) << status;
    EXPECT_NE(status.message().find(std::to_string(dead.tid())), std::string::npos) << status;
  }
  EXPECT_FALSE(dead.SetPriority(1));
  EXPECT_FALSE(dead.Signal(SIGCONT));
  EXPECT_TRUE(dead.Restore().ok()) << "a thread that is gone needs nothing back";
}

TEST_F(HeldThreadTest, ATakenThreadIsOfItsProcess) {
  const ChildProcess child;
  EXPECT_FALSE(HeldThread::Take("fw", child.pid(), thread_.tid()).ok());
  EXPECT_FALSE(HeldThread::Take("fw", 0, 0).ok());
  EXPECT_FALSE(HeldThread::Take("fw", -1, -1).ok());
}

TEST_F(HeldThreadTest, AThreadMayEndBeforeItsProcess) {
  HeldThread held = Take();
  ASSERT_TRUE(held.SetClass(SCHED_RR, 2).ok());
  thread_.End();
  EXPECT_TRUE(Eventually([&] { return !held.alive(); }));
  EXPECT_FALSE(held.SetPriority(3));
  EXPECT_FALSE(held.SetClass(SCHED_RR, 3).ok());
  EXPECT_TRUE(held.Restore().ok());
}

// The number of a thread that has ended is soon another's.
TEST_F(HeldThreadTest, AStrangerOfTheSameNumberIsLeftAlone) {
  ChildProcess first;
  const pid_t number = first.pid();
  HeldThread held = HeldThread::Take("fw", number, number).value();
  ASSERT_TRUE(held.SetClass(SCHED_RR, 2).ok());
  ASSERT_TRUE(held.Pin(LastCpu()).ok());
  first.End();
  const ChildProcess stranger([] { pause(); }, number);
  ASSERT_EQ(stranger.pid(), number);
  const std::string before = SchedulingOf(number);
  EXPECT_FALSE(held.SetPriority(3)) << "not even before anybody has seen the first one dead";
  EXPECT_FALSE(held.alive());
  EXPECT_FALSE(held.SetPriority(3));
  EXPECT_FALSE(held.SetClass(SCHED_BATCH, 0).ok());
  EXPECT_FALSE(held.Pin(LastCpu()).ok());
  EXPECT_FALSE(held.SetYielding(8).ok());
  EXPECT_FALSE(held.Signal(SIGSTOP));
  EXPECT_EQ(held.Times().ran_ns, 0U);
  EXPECT_TRUE(held.Restore().ok());
  EXPECT_EQ(SchedulingOf(number), before);
  EXPECT_TRUE(Eventually([&] { return StateOf(number) == 'S'; })) << "stopped or killed";

  SetScheduling(number, SCHED_FIFO, 9, 0);
  EXPECT_FALSE(held.SetPriority(3)) << "found dead before";
  EXPECT_EQ(HeldThread::Take("stranger", number, number)->DescribeClass(), "fifo 9");
}

TEST_F(HeldThreadTest, WhatTheKernelRefusesIsAnError) {
  HeldThread held = Take();
  EXPECT_FALSE(held.Pin(CPU_SETSIZE - 1).ok());
  EXPECT_FALSE(held.Pin(1'000'000).ok());
  EXPECT_FALSE(held.SetClass(SCHED_RR, 100).ok());
  EXPECT_FALSE(held.SetPriority(5)) << "not in a real-time class";
  EXPECT_EQ(held.DescribeClass(), "other");
}

std::atomic<int> yielding{-1};
std::atomic<int> yielding_set{0};

TEST_F(HeldThreadTest, SwitchesTheYielding) {
  struct sigaction set = {}, old = {};
  set.sa_flags = SA_SIGINFO;
  set.sa_sigaction = [](int, siginfo_t* info, void*) {
    yielding = info->si_value.sival_int;
    ++yielding_set;
  };
  ASSERT_EQ(sigaction(SIGRTMIN, &set, &old), 0);
  HeldThread held = Take();
  // However late the thread gets the CPU, what was asked for last holds.
  for (const unsigned last : {0U, 64U}) {
    yielding_set = 0;
    for (const unsigned every : {8U, 0U, 16U, 0U, 24U, last})
      ASSERT_TRUE(held.SetYielding(every).ok());
    EXPECT_TRUE(Eventually([] { return yielding_set == 6; }));
    EXPECT_EQ(yielding, static_cast<int>(last));
  }
  sigaction(SIGRTMIN, &old, nullptr);
}

TEST_F(HeldThreadTest, ANiceValueIsToldAndPutBack) {
  const auto nice = [this] { return getpriority(PRIO_PROCESS, static_cast<id_t>(thread_.tid())); };
  const int before = nice();
  {
    HeldThread held = Take();
    ASSERT_TRUE(held.SetClass(SCHED_BATCH, 0, {.nice = -7}).ok());
    EXPECT_EQ(nice(), -7);
    EXPECT_EQ(held.DescribeClass(), "batch, nice -7");
    ASSERT_TRUE(held.SetClass(SCHED_OTHER, 0).ok());
    EXPECT_EQ(nice(), before) << "nobody wishes for another";
    ASSERT_TRUE(held.SetClass(SCHED_OTHER, 0, {.nice = 5}).ok());
  }
  EXPECT_EQ(nice(), before);
}

}  // namespace
}  // namespace unis
