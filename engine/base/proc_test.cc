#include "engine/base/proc.h"

#include <grp.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <numeric>
#include <string>
#include <vector>

#include "engine/base/eventually_for_test.h"
#include "engine/base/machine_for_test.h"
#include "engine/base/process_for_test.h"

namespace unis {
namespace {

// As the kernel tells it in another place: seconds since boot, in ticks.
TEST(ProcTest, TheStartTimeIsField22) {
  const ChildProcess child;
  std::ifstream file("/proc/" + std::to_string(child.pid()) + "/stat");
  std::string word;
  for (int i = 0; i < 22; ++i) file >> word;
  const auto stat = StatOfProcess(child.pid());
  ASSERT_TRUE(stat.has_value());
  EXPECT_EQ(std::to_string(stat->start_time), word);
  double uptime = 0;
  std::ifstream("/proc/uptime") >> uptime;
  EXPECT_LE(static_cast<double>(stat->start_time),
            (uptime + 1) * static_cast<double>(sysconf(_SC_CLK_TCK)));
  EXPECT_TRUE(ProcessRuns(child.pid(), stat->start_time));
  EXPECT_FALSE(ProcessRuns(child.pid(), stat->start_time + 1));
}

TEST(ProcTest, ANameMayHoldAnything) {
  const auto before = StatOfProcess(getpid());
  ASSERT_TRUE(before.has_value());
  const ChildProcess child([] {
    prctl(PR_SET_NAME, "a) Z 1 (b");
    pause();
  });
  ASSERT_TRUE(Eventually([&] {
    const auto stat = StatOfProcess(child.pid());
    return stat && stat->state == 'S';
  }));
  EXPECT_GE(StatOfProcess(child.pid())->start_time, before->start_time);
}

TEST(ProcTest, AZombieDoesNotRun) {
  const ChildProcess child([] {});
  EXPECT_TRUE(Eventually([&] { return !ProcessRuns(child.pid()); }));
  EXPECT_TRUE(StatOfProcess(child.pid()).has_value());
}

// As in a container, where the first process is 1.
TEST(ProcTest, AThreadHasAnotherNumberInItsOwnNamespace) {
  UNIS_NEED_ROOT();
  void* const memory =
      mmap(nullptr, sizeof(pid_t), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  auto* const inner = new (memory) std::atomic<pid_t>(0);
  const ChildProcess outer([inner] {
    if (unshare(CLONE_NEWPID) != 0) return;
    const ChildProcess first;
    *inner = first.pid();
    pause();
  });
  ASSERT_TRUE(Eventually([&] { return *inner != 0; }));
  const UniqueFd task = OpenTask(*inner, *inner);
  ASSERT_TRUE(task.valid());
  EXPECT_EQ(NumberInside(task), 1);
  EXPECT_EQ(NumberInside(OpenTask(outer.pid(), outer.pid())), outer.pid());
  EXPECT_EQ(NumberInside(UniqueFd()), 0);
  kill(*inner, SIGKILL);
  munmap(memory, sizeof(pid_t));
}

// Their line stands before those that are read, and is longer than what is read at once.
TEST(ProcTest, AThreadMayBeOfManyGroups) {
  UNIS_NEED_ROOT();
  const ChildProcess child([] {
    std::vector<gid_t> groups(20'000);
    std::iota(groups.begin(), groups.end(), 1'000'000);
    if (setgroups(groups.size(), groups.data()) != 0) return;
    prctl(PR_SET_NAME, "ready");
    for (;;) usleep(1000);
  });
  ASSERT_TRUE(Eventually([&] {
    std::string name;
    std::ifstream("/proc/" + std::to_string(child.pid()) + "/comm") >> name;
    return name == "ready";
  }));
  const UniqueFd task = OpenTask(child.pid(), child.pid());
  EXPECT_EQ(NumberInside(task), child.pid());
  EXPECT_TRUE(Eventually([&] { return ContextSwitchesOf(task).voluntary > 10; }));
}

[[noreturn]] void SpinOnLastCpu(int policy, int priority) {
  sigset_t waiting;
  sigemptyset(&waiting);
  sigaddset(&waiting, SIGUSR1);
  sigprocmask(SIG_BLOCK, &waiting, nullptr);
  cpu_set_t last;
  CPU_ZERO(&last);
  CPU_SET(LastCpu(), &last);
  sched_setaffinity(0, sizeof(last), &last);
  const sched_param param{.sched_priority = priority};
  sched_setscheduler(0, policy, &param);
  alarm(2);  // whatever happens
  for (std::atomic<unsigned> turns = 0;; ++turns) {
  }
}

// Behind one that spins SIGKILL waits for it to run, and so does the end of its process.
TEST(ProcTest, AThreadThatCannotRunToItsEndIsSeenAsDying) {
  UNIS_NEED_ROOT();
  UNIS_NEED_TWO_CPUS();
  cpu_set_t before;
  sched_getaffinity(0, sizeof(before), &before);
  LeaveLastCpu();
  const ChildProcess child([] { SpinOnLastCpu(SCHED_IDLE, 0); });
  const UniqueFd task = OpenTask(child.pid(), child.pid());
  ASSERT_TRUE(Eventually([&] { return sched_getscheduler(child.pid()) == SCHED_IDLE; }));
  ChildProcess spinner([] { SpinOnLastCpu(SCHED_FIFO, 1); });
  ASSERT_TRUE(Eventually([&] { return sched_getscheduler(spinner.pid()) == SCHED_FIFO; }));
  kill(child.pid(), SIGUSR1);  // waits as well
  EXPECT_FALSE(Dying(task));
  kill(child.pid(), SIGKILL);
  EXPECT_TRUE(Dying(task));
  spinner.End();
  EXPECT_TRUE(Eventually([&] { return !ProcessRuns(child.pid()); }));
  EXPECT_TRUE(Dying(task)) << "nobody has waited for it yet";
  EXPECT_FALSE(Dying(UniqueFd()));
  sched_setaffinity(0, sizeof(before), &before);
}

TEST(ProcTest, ATaskIsReadUntilItIsGone) {
  ChildProcess child;
  const pid_t number = child.pid();
  const UniqueFd task = OpenTask(number, number);
  ASSERT_TRUE(task.valid());
  EXPECT_TRUE(Eventually([&] { return ContextSwitchesOf(task).voluntary > 0; }));
  EXPECT_GT(TimesOf(task).ran_ns, 0U);
  kill(number, SIGSTOP);
  EXPECT_TRUE(Eventually([&] { return StatOfTask(task)->state == 'T'; }));
  EXPECT_FALSE(ThreadExists(getpid(), number)) << "a thread of another process";

  child.End();
  EXPECT_FALSE(StatOfTask(task).has_value());
  EXPECT_EQ(TimesOf(task).ran_ns, 0U);
  EXPECT_FALSE(OpenTask(number, number).valid());
  if (geteuid() != 0) return;
  const ChildProcess second([] { pause(); }, number);
  EXPECT_TRUE(ThreadExists(number, number));
  EXPECT_FALSE(StatOfTask(task).has_value()) << "a stranger's number was taken for the thread's";
}

}  // namespace
}  // namespace unis
