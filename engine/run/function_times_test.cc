#include "engine/run/function_times.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "engine/base/dice_for_test.h"

namespace unis {
namespace {

constexpr Nanoseconds kMs = 1'000'000;

// A thread as the kernel sees it: a wait is counted when it has ended.
class KernelThread {
 public:
  void Run(Nanoseconds time) {
    seen_.times.waited_ns += static_cast<std::uint64_t>(std::exchange(waits_, 0));
    seen_.times.ran_ns += static_cast<std::uint64_t>(time);
    Pass(ran, time, false);
  }
  void Wait(Nanoseconds time) {
    waits_ += time;
    Pass(waited, time, false);
  }
  void Sleep(Nanoseconds time) {
    if (!seen_.sleeps) ++seen_.sleeps_begun;
    seen_.times.waited_ns += static_cast<std::uint64_t>(std::exchange(waits_, 0));
    Pass(slept, time, true);
  }
  void Stop(Nanoseconds time) {
    ++seen_.sleeps_begun;
    Pass(waited, time, false);
    seen_.stopped = true;
  }
  const FunctionTimes::Thread& seen() const { return seen_; }
  FunctionTimes::Thread& seen() { return seen_; }

  Nanoseconds now = kMs, ran = 0, waited = 0, slept = 0;

 private:
  void Pass(Nanoseconds& state, Nanoseconds time, bool sleeps) {
    state += time;
    now += time;
    seen_.sleeps = sleeps;
    seen_.stopped = false;
  }

  FunctionTimes::Thread seen_{.tid = 7, .start_time = 1, .times = {}};
  Nanoseconds waits_ = 0;
};

class FunctionTimesTest : public testing::Test {
 protected:
  void Look() { times_.Look("a", counters_, {&thread_.seen(), 1}, thread_.now); }
  v1::FunctionTime Time() const { return times_.Of("a"); }

  FunctionTimes times_;
  FunctionTimes::Counters counters_{.cost_ns = 100};
  KernelThread thread_;
};

std::uint64_t Sum(const v1::FunctionTime& time) {
  return time.busy_ns() + time.spinning_ns() + time.run_delay_ns() + time.backpressured_ns() +
         time.blocked_ns();
}

TEST_F(FunctionTimesTest, TheStatesAreThoseOfTheKernelAndOfThePackets) {
  Look();
  thread_.Wait(3 * kMs);
  thread_.Run(2 * kMs);
  thread_.Sleep(5 * kMs);
  counters_.packets = 15'000;  // 1.5 ms
  counters_.waited_for_room_ns = kMs;
  Look();
  const v1::FunctionTime time = Time();
  EXPECT_EQ(time.busy_ns(), 1'500'000U);
  EXPECT_EQ(time.spinning_ns(), 500'000U);
  EXPECT_EQ(time.run_delay_ns(), 2'000'000U);
  EXPECT_EQ(time.backpressured_ns(), 1'000'000U);
  EXPECT_EQ(time.blocked_ns(), 5'000'000U);
  EXPECT_EQ(time.elapsed_ns(), 10'000'000U);
}

TEST_F(FunctionTimesTest, WhatWasBeforeTheFirstLookDoesNotCount) {
  thread_.Run(50 * kMs);
  Look();
  EXPECT_EQ(Time().elapsed_ns(), 0U);
}

// The kernel says nothing of a wait that goes on.
TEST_F(FunctionTimesTest, WhoGetsNoCpuWaitsAndDoesNotSleep) {
  thread_.Run(kMs);
  Look();
  for (int look = 0; look < 5; ++look) {
    thread_.Wait(200 * kMs);
    Look();
    EXPECT_EQ(Time().blocked_ns(), 0U);
  }
  thread_.Run(10 * kMs);
  Look();
  thread_.Sleep(100 * kMs);
  Look();
  EXPECT_EQ(Time().run_delay_ns(), 1'000'000'000U);
  EXPECT_EQ(Time().blocked_ns(), 100'000'000U) << "the wait is not counted twice";
}

// One that polls is looked at in the middle of waits that the kernel has not counted yet.
TEST_F(FunctionTimesTest, WhoBeginsNoSleepHasNotSlept) {
  Look();
  for (int look = 0; look < 5; ++look) {
    thread_.Run(4 * kMs);
    thread_.Wait(70 * kMs);
    Look();
    EXPECT_EQ(Time().blocked_ns(), 0U);
    EXPECT_EQ(Time().run_delay_ns(), static_cast<std::uint64_t>(thread_.waited));
  }
  thread_.Run(kMs);
  thread_.Sleep(30 * kMs);
  Look();
  thread_.Sleep(10 * kMs);
  thread_.Run(kMs);
  Look();
  EXPECT_EQ(Time().blocked_ns(), 40'000'000U) << "nothing of it was counted as a wait";
  EXPECT_EQ(Time().run_delay_ns(), 350'000'000U);
}

// The kernel does not count a stop by a signal as a wait.
TEST_F(FunctionTimesTest, WhoIsStoppedForOthersWaits) {
  thread_.Run(kMs);
  thread_.seen().by_signals = true;
  Look();
  thread_.Run(kMs);
  thread_.now += 4 * kMs;
  Look();
  EXPECT_EQ(Time().run_delay_ns(), 4'000'000U);
  EXPECT_EQ(Time().spinning_ns(), 1'000'000U);
  // It stays stopped while all rest.
  thread_.seen().stopped = true;
  thread_.seen().parked = 50 * kMs;
  thread_.now += 60 * kMs;
  Look();
  EXPECT_EQ(Time().run_delay_ns(), 14'000'000U);
  EXPECT_EQ(Time().blocked_ns(), 50'000'000U);
}

TEST_F(FunctionTimesTest, WhoWasStoppedByASignalWaitsAndThenIsAsBefore) {
  thread_.Run(kMs);
  Look();
  thread_.Wait(5 * kMs);
  Look();
  thread_.Run(kMs);
  thread_.Stop(4 * kMs);
  Look();
  thread_.Stop(60 * kMs);
  Look();
  EXPECT_EQ(Time().run_delay_ns(), 69'000'000U);
  EXPECT_EQ(Time().blocked_ns(), 0U);
  for (int turn = 0; turn < 10; ++turn) {
    thread_.Wait(10 * kMs);
    thread_.Run(kMs);
    Look();
  }
  EXPECT_EQ(Time().run_delay_ns(), 169'000'000U);
  EXPECT_EQ(Time().blocked_ns(), 0U);
}

// The time of a function is that of all its threads. The time of a thread that has ended stays.
TEST_F(FunctionTimesTest, EachThreadOfAFunctionHasItsTime) {
  KernelThread other;
  other.seen().tid = 8;
  const auto look = [&](std::vector<FunctionTimes::Thread> threads) {
    times_.Look("a", counters_, threads, thread_.now);
  };
  look({thread_.seen(), other.seen()});
  thread_.Run(6 * kMs);
  thread_.Sleep(4 * kMs);
  other.Run(2 * kMs);
  other.Wait(5 * kMs);
  other.Run(3 * kMs);
  counters_.packets = 70'000;  // 7 ms, of both
  look({other.seen(), thread_.seen()});
  EXPECT_EQ(Time().busy_ns(), 7'000'000U);
  EXPECT_EQ(Time().spinning_ns(), 4'000'000U);
  EXPECT_EQ(Time().run_delay_ns(), 5'000'000U);
  EXPECT_EQ(Time().blocked_ns(), 4'000'000U);
  thread_.Run(kMs);
  look({thread_.seen()});
  EXPECT_EQ(Time().elapsed_ns(), 21'000'000U);
  EXPECT_EQ(Sum(Time()), 21'000'000U);
}

TEST_F(FunctionTimesTest, CostsThatAreTooHighDoNotMakeMoreOfTheTime) {
  Look();
  thread_.Run(kMs);
  counters_.packets = 1'000'000'000'000;
  counters_.waited_for_room_ns = 1'000'000'000;
  Look();
  EXPECT_EQ(Time().busy_ns(), 1'000'000U);
  EXPECT_EQ(Sum(Time()), 1'000'000U);
}

TEST_F(FunctionTimesTest, PacketsThatAreCountedAnewAreWorkToo) {
  counters_.packets = 1'000'000;
  Look();
  counters_.packets = 0;
  thread_.Run(kMs);
  Look();
  counters_.packets = 2'000;  // 0.2 ms
  thread_.Run(kMs);
  Look();
  EXPECT_EQ(Time().busy_ns(), 200'000U);
}

TEST_F(FunctionTimesTest, OneThatComesAgainGoesOnAndOneThatIsForgottenBeginsAtNothing) {
  Look();
  thread_.Run(kMs);
  Look();
  thread_.seen().tid = 8;  // another, which has run for long
  thread_.seen().times.ran_ns = 1'000'000'000;
  Look();
  thread_.Run(kMs);
  Look();
  EXPECT_EQ(Time().spinning_ns(), 2'000'000U);
  times_.Forget("a");
  EXPECT_EQ(Time().elapsed_ns(), 0U);
}

// A function on links that nobody can look into.
TEST_F(FunctionTimesTest, NobodyKnowsWhetherItWorksWhereNobodyCountsItsPackets) {
  counters_.packets.reset();
  Look();
  thread_.Run(3 * kMs);
  Look();
  EXPECT_FALSE(Time().has_busy_ns());
  EXPECT_EQ(Time().spinning_ns(), 3'000'000U) << "and it is with the time that it had a CPU";
  EXPECT_EQ(Time().elapsed_ns(), 3'000'000U);
}

// Looks come at random moments of random runs, waits and sleeps. Each counter only grows. The sum
// is the time that passed. No state is wrong by more than the longest wait.
class RandomFunctionTimesTest : public FunctionTimesTest,
                                public testing::WithParamInterface<int> {};
INSTANTIATE_TEST_SUITE_P(Seeds, RandomFunctionTimesTest, testing::Range(0, 50));

TEST_P(RandomFunctionTimesTest, SumToTheTimeThatPassed) {
  Dice dice(static_cast<std::uint64_t>(GetParam()));
  Look();
  const Nanoseconds begin = thread_.now;
  Nanoseconds wait = 0, longest = 0;
  for (int step = 0; step < 400; ++step) {
    const auto time = static_cast<Nanoseconds>(dice.Between(1, 30)) * kMs;
    switch (dice.Between(0, 3)) {
      case 0:
        thread_.Run(time);
        wait = 0;
        break;
      case 1:
        thread_.Sleep(time);
        wait = 0;
        break;
      case 2:
        thread_.Wait(time);
        longest = std::max(longest, wait += time);
        break;
      default:
        const v1::FunctionTime before = Time();
        *counters_.packets += dice.Between(0, 100'000);
        counters_.waited_for_room_ns += dice.Between(0, 20'000'000);
        Look();
        const v1::FunctionTime now = Time();
        EXPECT_GE(now.busy_ns(), before.busy_ns());
        EXPECT_GE(now.spinning_ns(), before.spinning_ns());
        EXPECT_GE(now.run_delay_ns(), before.run_delay_ns());
        EXPECT_GE(now.backpressured_ns(), before.backpressured_ns());
        EXPECT_GE(now.blocked_ns(), before.blocked_ns());
    }
  }
  Look();
  const v1::FunctionTime time = Time();
  EXPECT_EQ(Sum(time), time.elapsed_ns());
  EXPECT_EQ(time.elapsed_ns(), static_cast<std::uint64_t>(thread_.now - begin));
  const auto near = [](std::uint64_t seen, Nanoseconds truth, Nanoseconds error) {
    EXPECT_NEAR(static_cast<double>(seen), static_cast<double>(truth), static_cast<double>(error));
  };
  near(time.busy_ns() + time.spinning_ns(), thread_.ran, 0);
  near(time.run_delay_ns() + time.backpressured_ns(), thread_.waited, longest);
  near(time.blocked_ns(), thread_.slept, longest);
}

}  // namespace
}  // namespace unis
