#include "engine/run/pollers.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "engine/base/process_for_test.h"

namespace unis {
namespace {

using namespace std::chrono_literals;

[[noreturn]] void Spin() {
  for (std::atomic<unsigned> turns = 0;; ++turns) {
  }
}

// Works most of the time, and sleeps now and then.
[[noreturn]] void Nap() {
  for (;;) {
    const auto until = std::chrono::steady_clock::now() + 5ms;
    while (std::chrono::steady_clock::now() < until) {
    }
    std::this_thread::sleep_for(1ms);
  }
}

std::vector<pid_t> After(PollerCensus& census, int looks) {
  for (int look = 0; look < looks; ++look) {
    std::this_thread::sleep_for(PollerCensus::kEvery);
    census.Look();
  }
  return census.Pollers();
}

TEST(PollerCensusTest, WhoSpinsPollsAndWhoSleepsDoesNot) {
  const ChildProcess spinner(Spin), sleeper, napper(Nap);
  PollerCensus of_spinner(spinner.pid()), of_sleeper(sleeper.pid()), of_napper(napper.pid());
  EXPECT_EQ(After(of_spinner, PollerCensus::kLooks + 1), (std::vector<pid_t>{spinner.pid()}));
  EXPECT_TRUE(After(of_sleeper, PollerCensus::kLooks + 1).empty());
  EXPECT_TRUE(After(of_napper, 2 * PollerCensus::kLooks).empty());
}

// As a thread that waits for packets, and gives up now and then.
[[noreturn]] void Wait() {
  for (;;) std::this_thread::sleep_for(PollerCensus::kEvery / 4);
}

TEST(PollerCensusTest, WhereAFunctionWaitsItsThreadThatWakesUpCountsAndTheOthersDoNot) {
  const ChildProcess child([] {
    std::jthread waits(Wait);
    pause();
  });
  PollerCensus census(child.pid(), true), of_pollers(child.pid());
  (void)After(of_pollers, 2 * PollerCensus::kLooks);
  EXPECT_TRUE(of_pollers.Pollers().empty());
  const auto found = After(census, 2 * PollerCensus::kLooks);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_NE(found.front(), child.pid());
}

TEST(PollerCensusTest, WhereAFunctionWaitsWhatWakesUpNowAndThenIsNoPoller) {
  const ChildProcess child([] {
    std::jthread waits(Wait), also(Wait);
    for (;;) std::this_thread::sleep_for(PollerCensus::kEvery * 3 / 4);
  });
  PollerCensus census(child.pid(), true);
  const auto found = After(census, 2 * PollerCensus::kLooks);
  EXPECT_EQ(found.size(), 2U);
  EXPECT_EQ(std::ranges::count(found, child.pid()), 0);
}

TEST(PollerCensusTest, IsNotSureBeforeItHasLookedOftenEnough) {
  const ChildProcess spinner(Spin);
  PollerCensus census(spinner.pid());
  EXPECT_TRUE(After(census, PollerCensus::kLooks - 1).empty());
}

TEST(PollerCensusTest, FindsEachOfTwoThreadsAndNotTheOneThatWaitsForThem) {
  const ChildProcess child([] {
    std::jthread one(Spin), other(Spin);
    pause();
  });
  PollerCensus census(child.pid());
  const auto pollers = After(census, 2 * PollerCensus::kLooks);
  ASSERT_EQ(pollers.size(), 2U);
  for (const pid_t poller : pollers) EXPECT_NE(poller, child.pid());
}

TEST(PollerCensusTest, AThreadThatSpinsLateIsFoundThen) {
  int start[2];
  ASSERT_EQ(pipe(start), 0);
  const ChildProcess child([&] {
    std::jthread late([&] {
      char word = 0;
      (void)!read(start[0], &word, 1);
      Spin();
    });
    Spin();
  });
  PollerCensus census(child.pid());
  EXPECT_EQ(After(census, 2 * PollerCensus::kLooks), (std::vector<pid_t>{child.pid()}));
  ASSERT_EQ(write(start[1], "x", 1), 1);
  EXPECT_EQ(After(census, 2 * PollerCensus::kLooks).size(), 2U);
  close(start[0]);
  close(start[1]);
}

// As EAL's start: the kernel maps and clears memory for it.
void Start(std::chrono::steady_clock::duration time) {
  constexpr std::size_t kBytes = 64 << 20;
  for (const auto until = std::chrono::steady_clock::now() + time;
       std::chrono::steady_clock::now() < until;) {
    void* const memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (memory == MAP_FAILED) _exit(1);
    munmap(memory, kBytes);
  }
}

TEST(PollerCensusTest, WhoStartsAndDoesNotSleepDoesNotPollYet) {
  const ChildProcess starter([] { Start(60s); }), spinner(Spin);
  PollerCensus loose(starter.pid()), strict(starter.pid(), false, true);
  PollerCensus of_spinner(spinner.pid(), false, true);
  for (int look = 0; look < PollerCensus::kLooksAtStart; ++look) {
    (void)After(loose, 1);
    strict.Look();
    of_spinner.Look();
    EXPECT_TRUE(look < PollerCensus::kLooksAtStart - 1 ? of_spinner.Pollers().empty()
                                                       : !of_spinner.Pollers().empty());
  }
  EXPECT_FALSE(loose.Pollers().empty()) << "it does not sleep";
  EXPECT_TRUE(strict.Pollers().empty());
}

TEST(FindPollersTest, OfOneThatStartsThreadsCountOnceTheyPoll) {
  Interrupt interrupt;
  const auto begin = std::chrono::steady_clock::now();
  const ChildProcess late([] {
    Start(2s);
    Spin();
  });
  const auto found = FindPollers("fw", late.pid(), false, true, 60s, interrupt);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(*found, std::vector<pid_t>{late.pid()});
  EXPECT_GT(std::chrono::steady_clock::now() - begin, 2s) << "not while it started";
}

// Its ports may be such that it calls the kernel for each packet.
TEST(FindPollersTest, OneThatAlwaysCallsTheKernelIsTakenInTheEnd) {
  Interrupt interrupt;
  const ChildProcess calls([] { Start(60s); });
  const auto found = FindPollers("fw", calls.pid(), false, true, 3s, interrupt);
  ASSERT_TRUE(found.ok()) << found.status();
}

TEST(FindPollersTest, SaysWhyThereAreNone) {
  Interrupt interrupt;
  const ChildProcess ended([] {}), sleeper;
  EXPECT_NE(FindPollers("fw", ended.pid(), false, false, 5s, interrupt)
                .status()
                .message()
                .find("function fw ended before it polled"),
            std::string::npos);
  EXPECT_NE(FindPollers("fw", sleeper.pid(), false, false, 100ms, interrupt)
                .status()
                .message()
                .find("no thread of function fw polls"),
            std::string::npos);
  EXPECT_NE(
      FindPollers("fw", sleeper.pid(), true, false, 100ms, interrupt)
          .status()
          .message()
          .find("no thread of function fw waits for packets: none wakes up 40 times a second"),
      std::string::npos);
}

}  // namespace
}  // namespace unis
