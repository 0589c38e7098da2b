#include "engine/controller/switch_cost.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "engine/controller/spinners_for_test.h"
#include "engine/base/eal_for_test.h"

namespace unis {
namespace {

class SwitchCostTest : public ControllerTest {
 protected:
  void SetUp() override {
    ControllerTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    ASSERT_TRUE(StartTestEal());
  }

  static std::vector<std::string> ThreadsAndTheirClasses() {
    std::vector<std::string> threads;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) {
      const std::string tid = entry.path().filename();
      threads.push_back(tid + " " + DescribeScheduling(std::stoi(tid)));
    }
    std::sort(threads.begin(), threads.end());
    return threads;
  }
};

TEST_F(SwitchCostTest, ValuesArePlausibleTogether) {
  const auto cost = MeasureSwitchCost(LastCpu(), 40);
  ASSERT_TRUE(cost.ok()) << cost.status();
  EXPECT_GT(cost->call_ns, 0);
  EXPECT_GT(cost->yield_ns, 0);
  EXPECT_GT(cost->until_running_ns_q1, 0);
  EXPECT_LE(cost->until_running_ns_q1, cost->until_running_ns);
  EXPECT_LE(cost->until_running_ns, cost->until_running_ns_q3);
  // The raised thread is told by an interrupt from within the call.
  EXPECT_GT(cost->until_running_ns_q3, cost->call_ns / 10);
}

// More rounds than the ladder of priorities has steps.
TEST_F(SwitchCostTest, LeavesNoThreadBehind) {
  const auto before = ThreadsAndTheirClasses();
  ASSERT_TRUE(MeasureSwitchCost(LastCpu(), 70).ok());
  EXPECT_EQ(ThreadsAndTheirClasses(), before);
  EXPECT_EQ(DescribeScheduling(getpid()), "other");
}

TEST_F(SwitchCostTest, ACpuThatDoesNotExistIsAnError) {
  const auto before = ThreadsAndTheirClasses();
  for (const unsigned cpu : {CPU_SETSIZE - 1U, 1'000'000U}) {
    const auto cost = MeasureSwitchCost(cpu, 5);
    EXPECT_EQ(cost.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(cost.status().message().find(std::to_string(cpu)), std::string::npos);
  }
  EXPECT_EQ(ThreadsAndTheirClasses(), before);
}

}  // namespace
}  // namespace unis
