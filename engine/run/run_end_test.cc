// The end of a run, whatever it is doing: at once, and with everything as it was found.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/prctl.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include "engine/controller/kernel_setting.h"
#include "engine/controller/scheduling_for_test.h"
#include "engine/run/run_for_test.h"

namespace unis {
namespace {

// Far below what the calls were told to last, far above what a busy machine needs.
constexpr auto kSoon = std::chrono::seconds(8);

class RunEndTest : public RunTest {
 protected:
  // Releases while `call` is under way.
  void EndsAtOnce(const std::function<absl::Status()>& call) {
    absl::Status status;
    std::thread caller = UnderWay([&] { return status = call(); });
    const auto begin = TestClock::now();
    run_->Release();
    EXPECT_LT(TestClock::now() - begin, kSoon);
    caller.join();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  }
  void EverythingIsBack() {
    for (const ChildProcess& function : functions_) {
      EXPECT_EQ(sched_getscheduler(function.pid()), SCHED_OTHER);
      EXPECT_NE(StateOf(function.pid()), 'T');
      cpu_set_t cpus;
      sched_getaffinity(function.pid(), sizeof(cpus), &cpus);
      EXPECT_EQ(CPU_COUNT(&cpus), CPU_COUNT(&affinity_));
    }
    EXPECT_EQ(RtRuntime().Read().value(), throttle_);
    EXPECT_EQ(Stats().phase(), v1::RUN_PHASE_RELEASED);
    EXPECT_EQ(Start().code(), absl::StatusCode::kUnavailable);
  }
  void SetUp() override {
    throttle_ = RtRuntime().Read().value();
    RunTest::SetUp();
    sched_getaffinity(0, sizeof(affinity_), &affinity_);
  }

  long throttle_ = 0;
  cpu_set_t affinity_;  // which children inherit
};

TEST_F(RunEndTest, MeasureIsBrokenOff) {
  BringUp();
  EXPECT_EQ(RtRuntime().Read().value(), -1);
  EndsAtOnce([&] { return Measure(60'000).status(); });
  EverythingIsBack();
}

TEST_F(RunEndTest, TraceIsBrokenOff) {
  BringUp();
  EndsAtOnce([&] {
    v1::TraceRequest request;
    request.set_duration_ns(60'000'000'000);
    return run_->Trace(request).status();
  });
  EverythingIsBack();
}

TEST_F(RunEndTest, EstimateIsBrokenOff) {
  ASSERT_TRUE(run_->Deploy(Chain({"a", "b"})).ok());
  ASSERT_TRUE(Attach("a", Spawn("a", 0)).ok());
  ASSERT_TRUE(Attach("b", Spawn("b", 1)).ok());
  EndsAtOnce([&] {
    v1::EstimateRequest request;
    request.add_functions("a");
    request.add_functions("b");
    request.set_rounds(100'000);
    return run_->Estimate(request).status();
  });
  EverythingIsBack();
}

// Packets that a stopped function holds keep the chain from draining.
TEST_F(RunEndTest, SettleIsBrokenOff) {
  BringUp();
  StopSecond();
  EndsAtOnce([&] {
    v1::SettleRequest request;
    request.set_timeout_ns(60'000'000'000);
    absl::Status status;
    const auto end = TestClock::now() + kSoon;
    do status = run_->Settle(request).status();  // gives up when nothing has moved for a while
    while (status.ok() && TestClock::now() < end);
    return status;
  });
  kill(functions_[1].pid(), SIGCONT);
  EverythingIsBack();
}

TEST_F(RunEndTest, AttachIsBrokenOff) {
  ASSERT_TRUE(run_->Deploy(Chain({"a"})).ok());
  functions_.emplace_back();  // never polls
  absl::Status status;
  std::thread caller = UnderWay([&] {
    v1::AttachRequest request;
    request.set_function("a");
    request.set_pid(functions_[0].pid());
    request.set_timeout_ns(60'000'000'000);
    return status = run_->Attach(request).status();
  });
  const auto begin = TestClock::now();
  run_->Release();
  EXPECT_LT(TestClock::now() - begin, kSoon);
  caller.join();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
}

TEST_F(RunEndTest, StopTakesTheAccountAndPutsBack) {
  BringUp();
  ASSERT_TRUE(Measure(100).ok());
  v1::SettleRequest request;
  request.set_timeout_ns(20'000'000'000);
  const auto account = run_->Stop(request);
  ASSERT_TRUE(account.ok()) << account.status();
  EXPECT_TRUE(account->exact());
  EXPECT_EQ(account->unaccounted(), 0);
  EXPECT_GT(account->delivered(), 0U);
  EverythingIsBack();
  run_->Release();  // any number of times
  EverythingIsBack();
}

TEST_F(RunEndTest, StopsAlsoWithoutADeployment) {
  EXPECT_TRUE(run_->Stop({}).ok());
  EXPECT_EQ(Stats().phase(), v1::RUN_PHASE_RELEASED);
}

TEST_F(RunEndTest, AStartThatFailsPutsBack) {
  ASSERT_TRUE(run_->Deploy(Chain({"a", "b"})).ok());
  const pid_t a = Spawn("a", 0), b = Spawn("b", 1);
  ASSERT_TRUE(Attach("a", a).ok());
  ASSERT_TRUE(Attach("b", b).ok());
  EXPECT_FALSE(Start(v1::POLICY_COOPERATIVE).ok());
  EXPECT_EQ(RtRuntime().Read().value(), throttle_);
  EXPECT_EQ(Stats().phase(), v1::RUN_PHASE_DEPLOYED);
  EXPECT_TRUE(Start().ok());
}

TEST_F(RunEndTest, MeasuringASwitchIsBrokenOff) {
  ASSERT_TRUE(run_->Deploy(Chain({"a"})).ok());
  EndsAtOnce([&] {
    v1::SwitchCostRequest request;
    request.set_cpu(LastCpu());
    request.set_rounds(1'000'000);
    return run_->MeasureSwitchCost(request).status();
  });
  EverythingIsBack();
}

// Its number may be another's by now, who is none of ours.
TEST_F(RunEndTest, ADeadFunctionKeepsNobodyFromBeingPutBackAndItsNumberIsForgotten) {
  BringUp();
  const pid_t number = functions_[0].pid();
  functions_[0].End();
  const ChildProcess stranger([] { pause(); }, number);
  SetScheduling(number, SCHED_BATCH, 0, 3);
  cpu_set_t first;
  CPU_ZERO(&first);
  CPU_SET(0, &first);
  sched_setaffinity(number, sizeof(first), &first);
  const std::string before = SchedulingOf(number);
  run_->Release();
  EXPECT_EQ(SchedulingOf(number), before);
  EXPECT_EQ(sched_getscheduler(functions_[1].pid()), SCHED_OTHER);
  EXPECT_EQ(RtRuntime().Read().value(), throttle_);
}

// Ports take an engine whose beats stand still for a dead one.
TEST_F(RunEndTest, AStartThatFailsLeavesNoBeats) {
  ASSERT_TRUE(run_->Deploy(Chain({"a"})).ok());
  ASSERT_TRUE(Attach("a", Spawn("a", 0)).ok());
  EXPECT_TRUE(Says(Start(v1::POLICY_COOPERATIVE), "does not co-operate"));
  const auto* const zone = rte_memzone_lookup(UNIS_HEARTBEAT);
  ASSERT_NE(zone, nullptr);
  EXPECT_EQ(static_cast<const unis_heartbeat*>(zone->addr)->beats, 0U);
  EXPECT_TRUE(Start().ok());
}

// Exiting threads of a function are raised before all others; a stranger's with its number are not.
TEST_F(RunEndTest, TheNumberOfADeadFunctionIsAskedForNoMore) {
  BringUp();
  const pid_t number = functions_[0].pid();
  functions_[0].End();
  run_->Look();
  const ChildProcess stranger([] {}, number);
  ASSERT_TRUE(Eventually([&] { return StateOf(number) == 'Z'; }));
  run_->Look();
  EXPECT_EQ(sched_getscheduler(number) & ~SCHED_RESET_ON_FORK, SCHED_OTHER);
}

// Whoever looks meanwhile is answered, and the functions are free.
TEST_F(RunEndTest, TheEndWaitsForNobodyWhoHoldsTheLedger) {
  const auto folder =
      std::filesystem::temp_directory_path() / ("unis-end-" + std::to_string(getpid()));
  setenv("UNIS_MACHINE_DIR", (folder / "machine").c_str(), 1);
  BringUp();
  const ChildProcess other([&] {
    alarm(30);
    const int ledger = open((folder / "machine").c_str(), O_RDONLY | O_DIRECTORY);
    if (flock(ledger, LOCK_EX) == 0) prctl(PR_SET_NAME, "locked");
    pause();
  });
  const auto locked = [&] {
    std::string name;
    std::ifstream("/proc/" + std::to_string(other.pid()) + "/comm") >> name;
    return name == "locked";
  };
  ASSERT_TRUE(Eventually(locked));
  std::atomic<bool> ended = false;
  std::thread ending([&] {
    run_->Release();
    ended = true;
  });
  EXPECT_TRUE(Eventually([&] { return Stats().phase() == v1::RUN_PHASE_RELEASED && !ended; }));
  EXPECT_EQ(sched_getscheduler(functions_[0].pid()), SCHED_OTHER);
  ending.join();
  EXPECT_EQ(StateOf(other.pid()), 'S') << "it was waited for the end of the other one";
  EXPECT_EQ(RtRuntime().Read().value(), -1) << "on record for the next command";
  for (const auto& record : std::filesystem::directory_iterator(folder / "machine")) {
    std::string word, path, before;
    std::ifstream(record.path()) >> word >> path >> word >> before;
    std::ofstream(path) << before;
  }
  EXPECT_EQ(RtRuntime().Read().value(), throttle_);
  unsetenv("UNIS_MACHINE_DIR");
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace unis
