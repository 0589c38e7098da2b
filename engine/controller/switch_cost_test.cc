#include "engine/controller/switch_cost.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "engine/base/eal_for_test.h"
#include "engine/controller/scheduling_for_test.h"
#include "engine/controller/spinners_for_test.h"

namespace unis {
namespace {

class SwitchCostTest : public ControllerTest {
 protected:
  void SetUp() override {
    ControllerTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    ASSERT_TRUE(StartTestEal());
  }

  static void* SharedPage() {
    return mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  }
  static std::string LastCpuText() { return "CPUs " + std::to_string(LastCpu()); }
  static std::vector<std::string> ThreadsAndTheirClasses() {
    std::vector<std::string> threads;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) {
      const std::string tid = entry.path().filename();
      threads.push_back(tid + " " + SchedulingOf(std::stoi(tid)));
    }
    std::sort(threads.begin(), threads.end());
    return threads;
  }

  const std::vector<unsigned> allowed_{LastCpu()};
};

TEST_F(SwitchCostTest, ValuesArePlausibleTogether) {
  const auto cost = MeasureSwitchCost(LastCpu(), allowed_, 40);
  ASSERT_TRUE(cost.ok()) << cost.status();
  EXPECT_GT(cost->call_ns, 0);
  EXPECT_GT(cost->yield_ns, 0);
  // The current thread runs on until the other one has its CPU.
  EXPECT_GT(cost->until_preempted_ns, 0);
  EXPECT_LE(cost->until_preempted_ns, cost->until_running_ns);
  // The raised thread is told by an interrupt from within the call.
  EXPECT_GT(cost->until_running_ns, cost->call_ns / 10);
}

// More rounds than the ladder of priorities has steps.
TEST_F(SwitchCostTest, LeavesNoThreadBehindAndTheCallerWhereItWas) {
  const auto before = ThreadsAndTheirClasses();
  ASSERT_TRUE(MeasureSwitchCost(LastCpu(), allowed_, 70).ok());
  EXPECT_EQ(ThreadsAndTheirClasses(), before);
}

TEST_F(SwitchCostTest, OnlyTheCpusOfTheFunctionsAreSpunOn) {
  const auto before = ThreadsAndTheirClasses();
  bool measured = false;
  for (const unsigned cpu : {0U, CPU_SETSIZE - 1U, 1'000'000U}) {
    const auto cost = MeasureSwitchCost(cpu, allowed_, 5, [&] { measured = true; });
    EXPECT_EQ(cost.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(cost.status().message().find(std::to_string(cpu)), std::string::npos);
  }
  const unsigned missing = CPU_SETSIZE - 1;
  EXPECT_FALSE(MeasureSwitchCost(missing, {missing}, 5, [&] { measured = true; }).ok());
  EXPECT_FALSE(measured);
  EXPECT_EQ(ThreadsAndTheirClasses(), before);
}

// A caller that spins there waits for threads that would never let it run again.
TEST_F(SwitchCostTest, TheCallerLeavesTheCpu) {
  cpu_set_t before, only, both;
  ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
  CPU_ZERO(&only);
  CPU_SET(LastCpu(), &only);
  both = only;
  CPU_SET(0, &both);
  ASSERT_EQ(sched_setaffinity(0, sizeof(only), &only), 0);
  EXPECT_EQ(MeasureSwitchCost(LastCpu(), allowed_, 5).status().code(),
            absl::StatusCode::kFailedPrecondition);
  ASSERT_EQ(sched_setaffinity(0, sizeof(both), &both), 0);
  unsigned seen_on = 0;
  const auto look = [&] { seen_on = std::max(seen_on, static_cast<unsigned>(sched_getcpu())); };
  EXPECT_TRUE(MeasureSwitchCost(LastCpu(), allowed_, 5, look).ok());
  EXPECT_LT(seen_on, LastCpu());
  ASSERT_EQ(sched_setaffinity(0, sizeof(before), &before), 0);
}

// All rounds would take 14 hours.
TEST_F(SwitchCostTest, EndsHoweverManyRoundsAreAsked) {
  constexpr unsigned kRounds = 1'000'000;
  unsigned calls = 0;  // at least one a round
  (void)MeasureSwitchCost(LastCpu(), allowed_, kRounds, [&] {
    ++calls;
    std::this_thread::sleep_for(50ms);
  });
  EXPECT_LT(calls, kRounds);
}

TEST_F(SwitchCostTest, IsBrokenOff) {
  const auto before = ThreadsAndTheirClasses();
  for (const unsigned last : {0U, 3U, 12U}) {  // of 10 rounds, then it measures yields
    unsigned asked = 0;
    const auto cost = MeasureSwitchCost(
        LastCpu(), allowed_, 10, [] {}, [&] { return asked++ < last; });
    EXPECT_EQ(cost.status().code(), absl::StatusCode::kCancelled) << cost.status();
    EXPECT_EQ(asked, last + 1);
  }
  EXPECT_EQ(ThreadsAndTheirClasses(), before);
}

// Somebody else's real-time thread has the CPU: an error, and nobody waits for the end of it.
TEST_F(SwitchCostTest, ACpuThatIsTakenIsAnError) {
  const auto before = ThreadsAndTheirClasses();
  std::atomic<bool>* const stop = new (SharedPage()) std::atomic<bool>(false);
  const ChildProcess hog([stop] {
    alarm(5);
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(LastCpu(), &set);
    sched_setaffinity(0, sizeof(set), &set);
    while (!*stop) continue;
  });
  ASSERT_TRUE(Eventually([&] { return SchedulingOf(hog.pid()).ends_with(LastCpuText()); }));
  SetScheduling(hog.pid(), SCHED_FIFO, 90, 0);
  const auto cost = MeasureSwitchCost(LastCpu(), allowed_, 3);
  EXPECT_EQ(StateOf(hog.pid()), 'R') << "the measurement waited for the end of the other one";
  *stop = true;
  EXPECT_EQ(cost.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(ThreadsAndTheirClasses(), before);
}

}  // namespace
}  // namespace unis
