#include "engine/controller/kernel_setting.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/eventually_for_test.h"
#include "engine/base/machine_for_test.h"
#include "engine/base/proc.h"
#include "engine/base/process_for_test.h"

namespace unis {
namespace {

namespace fs = std::filesystem;

class KernelSettingTest : public testing::Test {
 protected:
  KernelSettingTest() {
    fs::create_directories(folder_);
    setenv("UNIS_MACHINE_DIR", (folder_ / "machine").c_str(), 1);
    Put("950000");
  }
  ~KernelSettingTest() override {
    unsetenv("UNIS_MACHINE_DIR");
    fs::remove_all(folder_);
  }

  void Put(const std::string& text) const { std::ofstream(setting_.path) << text << '\n'; }
  static std::string Content(const fs::path& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  // −2: another process is writing it.
  long Value() const { return setting_.Read().value_or(-2); }
  bool OnRecord() const { return fs::exists(Record()); }
  fs::path Record() const { return folder_ / "machine" / setting_.name; }

  // It puts back first what a run left that was killed.
  void ARunComesAndGoes() const { EXPECT_TRUE(Lease::Take(setting_, -1).ok()); }
  // Another run, which holds the setting until it is killed.
  ChildProcess OtherRun(long value) const {
    ChildProcess other([this, value] {
      const auto lease = Lease::Take(setting_, value);
      if (lease.ok()) pause();
    });
    const std::string holder = "holder " + std::to_string(other.pid());
    EXPECT_TRUE(Eventually([&] { return Content(Record()).find(holder) != std::string::npos; }));
    EXPECT_TRUE(Eventually([&] { return Value() == value; }));
    return other;
  }

  fs::path folder_ = fs::temp_directory_path() / ("unis-setting-test-" + std::to_string(getpid()));
  KernelSetting setting_{.name = "throttle", .path = folder_ / "throttle"};
};

TEST_F(KernelSettingTest, RunsThatKeepTheirStateElsewhereShareTheLedger) {
  setenv("UNIS_RUN_DIR", (folder_ / "one").c_str(), 1);
  auto lease = Lease::Take(setting_, -1);
  ASSERT_TRUE(lease.ok()) << lease.status();
  setenv("UNIS_RUN_DIR", (folder_ / "other").c_str(), 1);
  const ChildProcess other = OtherRun(-1);
  unsetenv("UNIS_RUN_DIR");
  ASSERT_TRUE(lease->Release().ok());
  EXPECT_EQ(Value(), -1) << "the other run needs it";
}

TEST_F(KernelSettingTest, ALeaseHoldsAValueAndPutsBackTheOneOfBefore) {
  auto lease = Lease::Take(setting_, -1);
  ASSERT_TRUE(lease.ok()) << lease.status();
  EXPECT_EQ(Value(), -1);
  ASSERT_TRUE(lease->Release().ok());
  EXPECT_EQ(Value(), 950000);
  EXPECT_FALSE(OnRecord());
  Put("4");
  EXPECT_TRUE(lease->Release().ok()) << "a second time";
  EXPECT_EQ(Value(), 4);
}

TEST_F(KernelSettingTest, ALeaseThatIsMovedIsStillOne) {
  std::optional<Lease> kept;
  {
    Lease lease = Lease::Take(setting_, -1).value();
    kept.emplace(std::move(lease));
  }
  EXPECT_EQ(Value(), -1);
  kept.reset();
  EXPECT_EQ(Value(), 950000);
}

TEST_F(KernelSettingTest, LeasesOfOneRunAreCounted) {
  auto run = Lease::Take(setting_, -1).value();
  { const auto estimate = Lease::Take(setting_, -1).value(); }
  EXPECT_EQ(Value(), -1) << "a shorter lease has put back what a longer one needs";
  ASSERT_TRUE(run.Release().ok());
  EXPECT_EQ(Value(), 950000);
}

TEST_F(KernelSettingTest, TheFirstRunThatEndsLeavesItToTheSecond) {
  std::array<int, 2> go{};
  ASSERT_EQ(pipe(go.data()), 0);
  const auto until_told = [&] {
    auto lease = Lease::Take(setting_, -1);
    char byte = 0;
    if (lease.ok() && read(go[0], &byte, 1) == 1) (void)lease->Release();
  };
  const ChildProcess first(until_told);
  ASSERT_TRUE(Eventually([&] { return Value() == -1; }));
  auto second = Lease::Take(setting_, -1).value();
  ASSERT_EQ(write(go[1], "", 1), 1);
  EXPECT_TRUE(Eventually([&] { return !ProcessRuns(first.pid()); }));
  EXPECT_EQ(Value(), -1) << "put back under a run that needs it";
  ASSERT_TRUE(second.Release().ok());
  EXPECT_EQ(Value(), 950000) << "the last one knows the value of before";
  close(go[0]);
  close(go[1]);
}

TEST_F(KernelSettingTest, ARunThatWasKilledDoesNotCount) {
  auto other = OtherRun(-1);
  auto lease = Lease::Take(setting_, -1).value();
  other.End();
  ASSERT_TRUE(lease.Release().ok());
  EXPECT_EQ(Value(), 950000);
  EXPECT_FALSE(OnRecord());
}

TEST_F(KernelSettingTest, TheNextRunKnowsWhatAKilledOneFound) {
  OtherRun(-1).End();
  ASSERT_EQ(Value(), -1);
  {
    const auto lease = Lease::Take(setting_, 7).value();
    EXPECT_EQ(Value(), 7);
  }
  EXPECT_EQ(Value(), 950000);
}

TEST_F(KernelSettingTest, TheNextRunPutsBackForDeadHoldersOnly) {
  auto other = OtherRun(-1);
  ARunComesAndGoes();
  EXPECT_EQ(Value(), -1);
  other.End();
  ARunComesAndGoes();
  EXPECT_EQ(Value(), 950000);
  EXPECT_FALSE(OnRecord());
}

TEST_F(KernelSettingTest, TheNumberOfAKilledRunMayBeAnothersNow) {
  auto other = OtherRun(-1);
  const pid_t number = other.pid();
  other.End();
  UNIS_NEED_ROOT();  // to choose the number of a process
  // Start times are counted in ticks: the stranger starts in another one.
  std::this_thread::sleep_for(std::chrono::milliseconds(3000 / sysconf(_SC_CLK_TCK)));
  const ChildProcess stranger([] { pause(); }, number);
  ARunComesAndGoes();
  EXPECT_EQ(Value(), 950000);
}

// What is written here is read by others (see the header).
TEST_F(KernelSettingTest, TheRecordIsAsDocumented) {
  const auto lease = Lease::Take(setting_, -1).value();
  const auto stat = StatOfProcess(getpid());
  EXPECT_EQ(Content(Record()), "path " + setting_.path.string() + "\nbefore 950000\nvalue -1\n" +
                                   "holder " + std::to_string(getpid()) + " " +
                                   std::to_string(stat->start_time) + "\n");
}

TEST_F(KernelSettingTest, OneValueAtATime) {
  const auto other = OtherRun(20);
  const auto lease = Lease::Take(setting_, 30);
  EXPECT_EQ(lease.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(lease.status().message().find(std::to_string(other.pid())), std::string::npos);
  EXPECT_EQ(Value(), 20);
}

// What somebody else sets while a run holds the number.
TEST_F(KernelSettingTest, RestoresOnlyWhatItChanged) {
  for (const long value : {-1L, 950000L}) {  // another one, and the one that is there
    Put("950000");
    {
      const auto lease = Lease::Take(setting_, value).value();
      Put("3");
    }
    EXPECT_EQ(Value(), 3);
    EXPECT_FALSE(OnRecord());
  }
  Put("950000");
}

TEST_F(KernelSettingTest, TheNextRunPutsBackWhatSomebodyElseHasSet) {
  OtherRun(-1).End();
  Put("3");
  { const auto lease = Lease::Take(setting_, -1).value(); }
  EXPECT_EQ(Value(), 3) << "after a run that was killed";
  {
    const auto first = Lease::Take(setting_, -1).value();
    Put("4");
    const auto second = Lease::Take(setting_, -1).value();
    EXPECT_EQ(Value(), -1);
  }
  EXPECT_EQ(Value(), 4) << "beside one that runs";
}

// The end of a run waits for nobody; what it cannot put back the next command does.
TEST_F(KernelSettingTest, ALockThatIsHeldOnIsNotWaitedForForEver) {
  auto first = Lease::Take(setting_, -1).value();
  std::vector<Lease> leases;
  for (int i = 0; i < 2; ++i) leases.push_back(Lease::Take(setting_, -1).value());
  ChildProcess other([this] {
    alarm(20);
    const int folder = open((folder_ / "machine").c_str(), O_RDONLY | O_DIRECTORY);
    flock(folder, LOCK_EX);
    pause();
  });
  const auto locked = [this] {
    const int folder = open((folder_ / "machine").c_str(), O_RDONLY | O_DIRECTORY);
    const bool free = flock(folder, LOCK_EX | LOCK_NB) == 0;
    close(folder);
    return !free;
  };
  ASSERT_TRUE(Eventually(locked));
  for (const absl::Status& status :
       {first.Release(), Lease::Release(std::move(leases)), Lease::Take(setting_, -1).status()}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
    EXPECT_NE(status.message().find((folder_ / "machine").string()), std::string::npos) << status;
  }
  EXPECT_EQ(StateOf(other.pid()), 'S') << "it was waited for the end of the other one";
  other.End();
  EXPECT_TRUE(first.Release().ok()) << "tried again";
  EXPECT_TRUE(OnRecord()) << "the others were given up for good";
}

TEST_F(KernelSettingTest, SaysWhichFileItCannotRead) {
  fs::remove(setting_.path);
  const auto missing = Lease::Take(setting_, 1);
  EXPECT_EQ(missing.status().code(), absl::StatusCode::kNotFound);
  EXPECT_NE(missing.status().message().find(setting_.path.string()), std::string::npos);
  EXPECT_FALSE(fs::exists(setting_.path)) << "a setting that the kernel lacks was made";
  EXPECT_FALSE(OnRecord());
  Put("many");
  EXPECT_FALSE(Lease::Take(setting_, 1).ok());
  EXPECT_EQ(Content(setting_.path), "many\n");
}

TEST_F(KernelSettingTest, WhatTheKernelRefusesLeavesNothing) {
  // Nobody may write this one.
  const KernelSetting refused{.name = "refused", .path = "/proc/sys/kernel/random/poolsize"};
  ASSERT_TRUE(refused.Read().ok());
  const auto lease = Lease::Take(refused, *refused.Read() + 1);
  EXPECT_EQ(lease.status().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_NE(lease.status().message().find("poolsize"), std::string::npos);
  EXPECT_FALSE(fs::exists(folder_ / "machine" / "refused"));
}

TEST_F(KernelSettingTest, AFairServerRestsWhereThereIsOne) {
  const fs::path runtime = folder_ / "cpu1" / "runtime", other = folder_ / "cpu3" / "runtime";
  for (const fs::path& path : {runtime, other}) {
    fs::create_directories(path.parent_path());
    std::ofstream(path) << "50000000\n";
  }
  {
    const auto lease = SuspendFairServer(1, folder_);
    EXPECT_TRUE(lease.ok()) << lease.status();
    EXPECT_FALSE(SuspendFairServer(2, folder_).ok()) << "the kernel has none there";
    EXPECT_EQ(Content(runtime), "0");
    EXPECT_EQ(Content(other), "50000000\n") << "not a CPU of the functions";
  }
  EXPECT_EQ(Content(runtime), "50000000");
  EXPECT_TRUE(fs::is_empty(folder_ / "machine"));
}

}  // namespace
}  // namespace unis
