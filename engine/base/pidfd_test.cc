#include "engine/base/pidfd.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/syscall.h>

#include <atomic>
#include <cerrno>
#include <optional>
#include <thread>

#include "engine/base/eventually_for_test.h"
#include "engine/base/machine_for_test.h"
#include "engine/base/process_for_test.h"

namespace unis {
namespace {

TEST(PidfdTest, StopsAndContinuesAProcess) {
  const ChildProcess child;
  const auto fd = Pidfd::OfProcess(child.pid());
  ASSERT_TRUE(fd.ok()) << fd.status();
  EXPECT_TRUE(fd->Signal(SIGSTOP));
  EXPECT_TRUE(Eventually([&] { return StateOf(child.pid()) == 'T'; }));
  EXPECT_TRUE(fd->Signal(SIGCONT));
  EXPECT_TRUE(Eventually([&] { return StateOf(child.pid()) == 'S'; }));
}

TEST(PidfdTest, NeverReachesAnotherProcessOfTheSameNumber) {
  UNIS_NEED_ROOT();
  ChildProcess first;
  const pid_t number = first.pid();
  const auto fd = Pidfd::OfProcess(number);
  ASSERT_TRUE(fd.ok()) << fd.status();
  first.End();
  const ChildProcess second([] { pause(); }, number);
  ASSERT_EQ(second.pid(), number);
  EXPECT_FALSE(fd->Signal(SIGKILL));
  EXPECT_EQ(errno, ESRCH);
  EXPECT_FALSE(fd->Queue(SIGRTMIN, 1));
  EXPECT_EQ(kill(number, 0), 0) << "a stranger was killed";
  EXPECT_NE(StateOf(number), 'Z') << "a stranger was killed";
}

TEST(PidfdTest, NamesWhomItCannotOpen) {
  ChildProcess child;
  const pid_t number = child.pid();
  child.End();
  const auto fd = Pidfd::OfProcess(number);
  EXPECT_FALSE(fd.ok());
  EXPECT_NE(fd.status().message().find(std::to_string(number)), std::string::npos);
}

std::atomic<pid_t> receiver{0};
std::atomic<int> received{0};

TEST(PidfdTest, QueuesToTheThreadThatIsMeant) {
  std::atomic<pid_t> tid{0};
  std::atomic<bool> stop{false};
  std::thread thread([&] {
    tid = static_cast<pid_t>(syscall(SYS_gettid));
    while (!stop) std::this_thread::sleep_for(1ms);
  });
  ASSERT_TRUE(Eventually([&] { return tid != 0; }));
  const auto fd = Pidfd::OfThread(tid);
  if (fd.ok()) {
    struct sigaction set = {}, old = {};
    set.sa_flags = SA_SIGINFO;
    set.sa_sigaction = [](int, siginfo_t* info, void*) {
      receiver = static_cast<pid_t>(syscall(SYS_gettid));
      received = info->si_value.sival_int;
    };
    sigaction(SIGRTMIN, &set, &old);
    EXPECT_TRUE(fd->Queue(SIGRTMIN, 42));
    EXPECT_TRUE(Eventually([] { return received == 42; }));
    EXPECT_EQ(receiver, tid);
    sigaction(SIGRTMIN, &old, nullptr);
  }
  stop = true;
  thread.join();
  if (!fd.ok()) GTEST_SKIP() << "this kernel has no descriptors of threads: " << fd.status();
}

}  // namespace
}  // namespace unis
