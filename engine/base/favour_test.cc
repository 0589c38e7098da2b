#include "engine/base/favour.h"

#include <gtest/gtest.h>

#include <array>
#include <string>

#include "engine/base/machine_for_test.h"
#include "engine/base/process_for_test.h"

namespace unis {
namespace {

std::string Autogroup() {
  std::string line;
  std::getline(std::ifstream("/proc/self/autogroup") >> std::ws, line);
  return line;
}

// Of a process in a session of its own that has begun it, or has a child that has not.
std::string AutogroupAfterFavouring(bool began, int nice = kFavouredNice) {
  std::array<int, 2> answer{};
  if (pipe(answer.data()) != 0) return "no pipe";
  const ChildProcess child([&] {
    setsid();
    if (!began) {
      const ChildProcess by_hand([&answer] {
        FavourSession();
        (void)!write(answer[1], Autogroup().data(), Autogroup().size());
      });
      pause();
    }
    FavourSession(nice);
    (void)!write(answer[1], Autogroup().data(), Autogroup().size());
  });
  std::array<char, 256> line{};
  const ssize_t size = read(answer[0], line.data(), line.size());
  for (const int fd : answer) close(fd);
  return {line.data(), size > 0 ? static_cast<std::size_t>(size) : 0};
}

TEST(FavourTest, OnlyASessionThatThisProcessBegan) {
  UNIS_NEED_ROOT();  // to lower a nice value
  UNIS_NEED(!Autogroup().empty(), "this test needs a kernel that shares the CPU among sessions");
  EXPECT_TRUE(AutogroupAfterFavouring(true).ends_with("nice -3")) << AutogroupAfterFavouring(true);
  const std::string first = AutogroupAfterFavouring(true, kFirstNice);
  EXPECT_TRUE(first.ends_with("nice -19")) << first;
  EXPECT_TRUE(AutogroupAfterFavouring(false).ends_with("nice 0")) << AutogroupAfterFavouring(false);
}

TEST(HurryTest, TheThreadIsInARealTimeClassAsLongAsItHurries) {
  UNIS_NEED_ROOT();
  const int before = sched_getscheduler(0);
  {
    const Hurry hurry;
    const int hurrying = sched_getscheduler(0);
    EXPECT_EQ(hurrying & ~SCHED_RESET_ON_FORK, SCHED_FIFO);
    { const Hurry again; }
    EXPECT_EQ(sched_getscheduler(0), hurrying);
  }
  EXPECT_EQ(sched_getscheduler(0), before);
}

}  // namespace
}  // namespace unis
