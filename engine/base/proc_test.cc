#include "engine/base/proc.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <fstream>
#include <string>

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

TEST(ProcTest, AThreadThatCannotRunToItsEndIsSeenAsDying) {
  const ChildProcess child([] { pause(); });
  const UniqueFd task = OpenTask(child.pid(), child.pid());
  ASSERT_TRUE(task.valid());
  kill(child.pid(), SIGSTOP);
  EXPECT_TRUE(Eventually([&] { return StatOfTask(task)->state == 'T'; }));
  kill(child.pid(), SIGUSR1);  // waits as well
  EXPECT_FALSE(Dying(task));
  kill(child.pid(), SIGKILL);  // which nothing keeps waiting: it may be gone already
  EXPECT_TRUE(Eventually([&] { return Dying(task) || !ProcessRuns(child.pid()); }));
  EXPECT_FALSE(Dying(UniqueFd()));
}

TEST(ProcTest, ATaskIsReadUntilItIsGone) {
  ChildProcess child;
  const pid_t number = child.pid();
  const UniqueFd task = OpenTask(number, number);
  ASSERT_TRUE(task.valid());
  EXPECT_TRUE(Eventually([&] { return ContextSwitchesOf(task).voluntary > 0; }));
  EXPECT_GT(CpuTimeNs(task), 0U);
  kill(number, SIGSTOP);
  EXPECT_TRUE(Eventually([&] { return StatOfTask(task)->state == 'T'; }));
  EXPECT_FALSE(ThreadExists(getpid(), number)) << "a thread of another process";

  child.End();
  EXPECT_FALSE(StatOfTask(task).has_value());
  EXPECT_EQ(CpuTimeNs(task), 0U);
  EXPECT_FALSE(OpenTask(number, number).valid());
  if (geteuid() != 0) return;
  const ChildProcess second([] { pause(); }, number);
  EXPECT_TRUE(ThreadExists(number, number));
  EXPECT_FALSE(StatOfTask(task).has_value()) << "a stranger's number was taken for the thread's";
}

}  // namespace
}  // namespace unis
