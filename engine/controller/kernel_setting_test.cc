#include "engine/controller/kernel_setting.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace unis {
namespace {

namespace fs = std::filesystem;

class KernelSettingTest : public testing::Test {
 protected:
  KernelSettingTest() { Put("950000"); }
  ~KernelSettingTest() override { fs::remove(path_); }

  void Put(const std::string& text) const { std::ofstream(path_) << text << '\n'; }
  std::string Content() const {
    std::string text;
    std::ifstream(path_) >> text;
    return text;
  }

  fs::path path_ =
      fs::temp_directory_path() / ("unis-kernel-setting-test-" + std::to_string(getpid()));
};

TEST_F(KernelSettingTest, ChangesAndRestores) {
  KernelSetting setting(path_);
  EXPECT_EQ(setting.Read().value(), 950000);
  ASSERT_TRUE(setting.Change(-1).ok());
  EXPECT_EQ(Content(), "-1");
  ASSERT_TRUE(setting.Restore().ok());
  EXPECT_EQ(Content(), "950000");
}

TEST_F(KernelSettingTest, RestoresWhenItGoes) {
  {
    KernelSetting setting(path_);
    ASSERT_TRUE(setting.Change(100).ok());
    ASSERT_EQ(Content(), "100");
  }
  EXPECT_EQ(Content(), "950000");
}

TEST_F(KernelSettingTest, KeepsTheOriginalValueOverSeveralChanges) {
  KernelSetting setting(path_);
  for (const long value : {-1L, 20L, 950000L, 7L}) {
    ASSERT_TRUE(setting.Change(value).ok());
    ASSERT_EQ(Content(), std::to_string(value));
  }
  ASSERT_TRUE(setting.Restore().ok());
  EXPECT_EQ(Content(), "950000");
}

TEST_F(KernelSettingTest, RestoresOnlyWhatItChanged) {
  {
    KernelSetting setting(path_);
    ASSERT_TRUE(setting.Change(950000).ok());  // as it is
    Put("3");                                  // somebody else
    ASSERT_TRUE(setting.Restore().ok());
  }
  EXPECT_EQ(Content(), "3");
}

TEST_F(KernelSettingTest, RestoresOnce) {
  KernelSetting setting(path_);
  ASSERT_TRUE(setting.Change(5).ok());
  ASSERT_TRUE(setting.Restore().ok());
  Put("4");
  ASSERT_TRUE(setting.Restore().ok());
  EXPECT_EQ(Content(), "4");
  ASSERT_TRUE(setting.Change(6).ok());  // and starts afresh
  ASSERT_TRUE(setting.Restore().ok());
  EXPECT_EQ(Content(), "4");
}

TEST_F(KernelSettingTest, SaysWhichFileItCannotRead) {
  fs::remove(path_);
  KernelSetting missing(path_);
  EXPECT_NE(missing.Read().status().message().find(path_.string()), std::string::npos);
  EXPECT_EQ(missing.Change(1).code(), absl::StatusCode::kNotFound);
  EXPECT_FALSE(fs::exists(path_)) << "a setting that the kernel lacks was made";
  Put("many");
  EXPECT_FALSE(missing.Read().ok());
  EXPECT_FALSE(missing.Change(1).ok());
  EXPECT_EQ(Content(), "many");
}

TEST_F(KernelSettingTest, SaysWhatTheKernelRefuses) {
  // Nobody may write this one.
  KernelSetting setting("/proc/sys/kernel/random/entropy_avail");
  const auto before = setting.Read();
  ASSERT_TRUE(before.ok());
  const auto status = setting.Change(*before + 1);
  EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_NE(status.message().find("entropy_avail"), std::string::npos);
  EXPECT_TRUE(setting.Restore().ok()) << "nothing was changed";
}

}  // namespace
}  // namespace unis
