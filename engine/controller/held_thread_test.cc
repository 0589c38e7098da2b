#include "engine/controller/nf_thread.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include <atomic>
#include <thread>

#include "engine/controller/spinners_for_test.h"

namespace unis {
namespace {

// A thread of this process that sleeps, and counts the signals of SetYielding.
class SleepingThread {
 public:
  SleepingThread() : thread_([this] { Main(); }) {
    while (tid_ == 0) std::this_thread::yield();
  }
  ~SleepingThread() {
    stop_ = true;
    thread_.join();
  }
  pid_t tid() const { return tid_; }
  NfThread nf() const {
    return {.name = "nf", .pid = getpid(), .tid = tid_, .core = 0, .cooperates = true};
  }

 private:
  void Main() {
    tid_ = static_cast<pid_t>(syscall(SYS_gettid));
    while (!stop_) std::this_thread::sleep_for(1ms);
  }

  std::atomic<pid_t> tid_{0};
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

class NfThreadTest : public ControllerTest {
 protected:
  SleepingThread thread_;
};

TEST_F(NfThreadTest, ReadsBackWhatItSets) {
  ASSERT_TRUE(SetSchedulingClass(thread_.nf(), SCHED_RR, 7).ok());
  ASSERT_TRUE(PinToCpu(thread_.nf(), LastCpu()).ok());
  const auto state = ReadScheduling(thread_.tid());
  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_EQ(state->policy, SCHED_RR);
  EXPECT_EQ(state->priority, 7);
  EXPECT_EQ(CPU_COUNT(&state->affinity), 1);
  EXPECT_TRUE(CPU_ISSET(LastCpu(), &state->affinity));
}

TEST_F(NfThreadTest, TouchesTheThreadAndNotItsProcess) {
  const auto before = ReadScheduling(getpid());
  ASSERT_TRUE(before.ok());
  ASSERT_TRUE(SetSchedulingClass(thread_.nf(), SCHED_FIFO, 3).ok());
  ASSERT_TRUE(PinToCpu(thread_.nf(), LastCpu()).ok());
  const auto after = ReadScheduling(getpid());
  ASSERT_TRUE(after.ok());
  EXPECT_EQ(after->policy, before->policy);
  EXPECT_TRUE(CPU_EQUAL(&after->affinity, &before->affinity));
}

TEST_F(NfThreadTest, RestoresEveryClass) {
  struct Class {
    int policy, priority, nice;
  };
  for (const auto& [policy, priority, nice] :
       {Class{SCHED_OTHER, 0, -5}, Class{SCHED_OTHER, 0, 11}, Class{SCHED_BATCH, 0, 4},
        Class{SCHED_IDLE, 0, 19}, Class{SCHED_FIFO, 42, 0}, Class{SCHED_RR, 1, 2},
        Class{SCHED_OTHER | SCHED_RESET_ON_FORK, 0, 0}}) {
    ASSERT_TRUE(SetSchedulingClass(thread_.nf(), policy, priority).ok());
    ASSERT_EQ(setpriority(PRIO_PROCESS, static_cast<id_t>(thread_.tid()), nice), 0);
    const auto before = ReadScheduling(thread_.tid());
    ASSERT_TRUE(before.ok());
    ASSERT_EQ(before->policy, policy);
    ASSERT_EQ(before->nice, nice);

    ASSERT_TRUE(SetSchedulingClass(thread_.nf(), SCHED_RR, 9).ok());
    ASSERT_TRUE(PinToCpu(thread_.nf(), LastCpu()).ok());
    ASSERT_EQ(setpriority(PRIO_PROCESS, static_cast<id_t>(thread_.tid()), 1), 0);
    ASSERT_TRUE(RestoreScheduling(thread_.tid(), *before).ok());

    const auto after = ReadScheduling(thread_.tid());
    ASSERT_TRUE(after.ok());
    EXPECT_EQ(after->policy, policy);
    EXPECT_EQ(after->priority, priority);
    EXPECT_EQ(after->nice, nice);
    EXPECT_TRUE(CPU_EQUAL(&after->affinity, &before->affinity));
  }
}

TEST_F(NfThreadTest, DescribesAsTheKernelHasIt) {
  EXPECT_EQ(DescribeScheduling(thread_.tid()), "other");
  ASSERT_TRUE(SetSchedulingClass(thread_.nf(), SCHED_FIFO, 12).ok());
  EXPECT_EQ(DescribeScheduling(thread_.tid()), "fifo 12");
  ASSERT_TRUE(SetSchedulingClass(thread_.nf(), SCHED_RR, 1).ok());
  EXPECT_EQ(DescribeScheduling(thread_.tid()), "rr 1");
  ASSERT_TRUE(SetSchedulingClass(thread_.nf(), SCHED_BATCH, 0).ok());
  EXPECT_EQ(DescribeScheduling(thread_.tid()), "batch");
  ASSERT_TRUE(SetSchedulingClass(thread_.nf(), SCHED_OTHER | SCHED_RESET_ON_FORK, 0).ok());
  EXPECT_EQ(DescribeScheduling(thread_.tid()), "other");
  EXPECT_EQ(DescribeScheduling(DeadProcess()), "gone");
}

TEST_F(NfThreadTest, AnErrorNamesTheFunctionAndTheThread) {
  const pid_t dead = DeadProcess();
  const NfThread nf{.name = "firewall", .pid = dead, .tid = dead, .core = 0, .cooperates = true};
  for (const absl::Status& status :
       {SetSchedulingClass(nf, SCHED_FIFO, 1), PinToCpu(nf, LastCpu()), SetYielding({nf}, true)}) {
    EXPECT_FALSE(status.ok());
    EXPECT_NE(status.message().find("firewall"), std::string::npos) << status;
    EXPECT_NE(status.message().find(std::to_string(dead)), std::string::npos) << status;
  }
  EXPECT_NE(ReadScheduling(dead).status().message().find(std::to_string(dead)), std::string::npos);
}

TEST_F(NfThreadTest, AThreadThatIsGoneNeedsNothingBack) {
  const auto state = ReadScheduling(thread_.tid());
  ASSERT_TRUE(state.ok());
  EXPECT_TRUE(RestoreScheduling(DeadProcess(), *state).ok());
}

TEST_F(NfThreadTest, ACpuThatDoesNotExistIsAnError) {
  EXPECT_FALSE(PinToCpu(thread_.nf(), CPU_SETSIZE - 1).ok());
  EXPECT_FALSE(PinToCpu(thread_.nf(), 1'000'000).ok());
  EXPECT_FALSE(SetSchedulingClass(thread_.nf(), SCHED_RR, 100).ok());
}

std::atomic<int> yielding{-1};
std::atomic<int> yielding_set{0};

TEST_F(NfThreadTest, SwitchesTheYieldingOfThoseThatCooperate) {
  struct sigaction set = {}, old = {};
  set.sa_flags = SA_SIGINFO;
  set.sa_sigaction = [](int, siginfo_t* info, void*) {
    yielding = info->si_value.sival_int;
    ++yielding_set;
  };
  ASSERT_EQ(sigaction(SIGRTMIN, &set, &old), 0);

  NfThread stubborn = thread_.nf();
  stubborn.cooperates = false;
  ASSERT_TRUE(SetYielding({stubborn, thread_.nf(), stubborn}, true).ok());
  EXPECT_TRUE(Eventually([] { return yielding_set == 1; }));
  EXPECT_EQ(yielding, 1);

  // However late the thread gets the CPU, what was asked for last holds.
  for (int last = 0; last < 2; ++last) {
    yielding_set = 0;
    for (int i = 0; i < 6; ++i) {
      ASSERT_TRUE(SetYielding({thread_.nf(), stubborn}, (i + last) % 2 != 0).ok());
    }
    EXPECT_TRUE(Eventually([] { return yielding_set == 6; }));
    EXPECT_EQ(yielding, (5 + last) % 2);
  }
  sigaction(SIGRTMIN, &old, nullptr);
}

}  // namespace
}  // namespace unis
