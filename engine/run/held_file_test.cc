// The file as the guard reads it: by offsets, from another opening of it.
#include "engine/run/held_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <vector>

#include "engine/base/process_for_test.h"
#include "engine/controller/scheduling_for_test.h"

namespace unis {
namespace {

namespace fs = std::filesystem;

class HeldFileTest : public testing::Test {
 protected:
  void SetUp() override {
    path_ = fs::temp_directory_path() / ("held" + std::to_string(getpid()));
    auto held = HeldFile::Create(path_);
    ASSERT_TRUE(held.ok()) << held.status();
    held_ = *std::move(held);
  }
  void TearDown() override { fs::remove(path_); }

  template <typename T>
  T At(std::size_t offset) const {
    const UniqueFd file(open(path_.c_str(), O_RDONLY));
    T value{};
    EXPECT_EQ(pread(file.get(), &value, sizeof(value), static_cast<off_t>(offset)), sizeof(value));
    return value;
  }
  void SayReturned() const {
    const UniqueFd file(open(path_.c_str(), O_WRONLY));
    const std::uint32_t yes = 1;
    ASSERT_EQ(pwrite(file.get(), &yes, sizeof(yes), 16), sizeof(yes));
  }
  static std::size_t OfThread(std::size_t i) { return 64 + 32 * 64 + i * 160; }

  fs::path path_;
  HeldFile held_;
};

HeldThread Hold(const ChildProcess& child) {
  auto held = HeldThread::Take("nf", child.pid(), child.pid());
  EXPECT_TRUE(held.ok()) << held.status();
  return *std::move(held);
}

TEST_F(HeldFileTest, StandsWhereTheGuardReads) {
  EXPECT_EQ(At<std::uint32_t>(0), 0x444c4548U);
  EXPECT_EQ(At<std::uint32_t>(4), 3U);
  held_.Watch(2);
  held_.beat(0).Add(7);
  held_.beat(1).Add(9);
  EXPECT_EQ(At<std::uint32_t>(8), 2U);
  EXPECT_EQ(At<std::uint64_t>(64), 7U);
  EXPECT_EQ(At<std::uint64_t>(128), 9U);
  {
    const HeldFile::Changing changing(held_);
    EXPECT_EQ(At<std::uint32_t>(12), 1U);
  }
  EXPECT_EQ(At<std::uint32_t>(12), 0U);
}

TEST_F(HeldFileTest, TellsWhatAThreadWasBeforeForAsLongAsItIsHeld) {
  const ChildProcess child;
  const sched_param none{};
  SetSlice(child.pid(), 23'000'000);
  ASSERT_EQ(sched_setscheduler(child.pid(), SCHED_BATCH, &none), 0);
  const std::uint64_t slice = SliceOf(child.pid());  // 0 where the kernel knows none
  const HeldThread thread = Hold(child);
  {
    const auto note = held_.Add(thread);
    ASSERT_TRUE(note.ok());
    EXPECT_EQ(At<std::int32_t>(OfThread(0)), child.pid());
    EXPECT_EQ(At<std::int32_t>(OfThread(0) + 4), child.pid());
    EXPECT_EQ(At<std::uint64_t>(OfThread(0) + 8), StatOfProcess(child.pid())->start_time);
    EXPECT_EQ(At<std::int32_t>(OfThread(0) + 16), SCHED_BATCH);
    EXPECT_EQ(At<std::int32_t>(OfThread(0) + 20), 0);
    EXPECT_EQ(At<std::int32_t>(OfThread(0) + 24), 0);
    EXPECT_EQ(At<std::uint32_t>(OfThread(0) + 28), slice);
    cpu_set_t cpus;
    ASSERT_EQ(sched_getaffinity(child.pid(), sizeof(cpus), &cpus), 0);
    const auto noted = At<cpu_set_t>(OfThread(0) + 32);
    EXPECT_TRUE(CPU_EQUAL(&noted, &cpus));
    const auto second = held_.Add(thread);
    EXPECT_EQ(At<std::int32_t>(OfThread(1)), child.pid());
  }
  EXPECT_EQ(At<std::int32_t>(OfThread(0)), 0);
  EXPECT_EQ(At<std::int32_t>(OfThread(1)), 0);
}

TEST_F(HeldFileTest, NotesMayMove) {
  const ChildProcess child;
  const HeldThread thread = Hold(child);
  HeldFile::Note kept;
  {
    auto note = held_.Add(thread);
    ASSERT_TRUE(note.ok());
    kept = *std::move(note);
  }
  EXPECT_EQ(At<std::int32_t>(OfThread(0)), child.pid());
  kept = {};
  EXPECT_EQ(At<std::int32_t>(OfThread(0)), 0);
}

TEST_F(HeldFileTest, RefusesWhatItHasNoRoomFor) {
  const ChildProcess child;
  const HeldThread thread = Hold(child);
  std::vector<HeldFile::Note> notes;
  for (std::size_t i = 0; i < HeldLayout::kThreads; ++i) {
    auto note = held_.Add(thread);
    ASSERT_TRUE(note.ok());
    notes.push_back(*std::move(note));
  }
  EXPECT_TRUE(absl::IsResourceExhausted(held_.Add(thread).status()));
  notes.pop_back();
  EXPECT_TRUE(held_.Add(thread).ok());
}

TEST_F(HeldFileTest, ReturnedIsTakenOnce) {
  EXPECT_FALSE(held_.TakeReturned());
  SayReturned();
  EXPECT_TRUE(held_.TakeReturned());
  EXPECT_FALSE(held_.TakeReturned());
  EXPECT_EQ(At<std::uint32_t>(16), 0U);
}

// What lay there before is not written through: it may be somebody else's.
TEST_F(HeldFileTest, IsMadeAnewAndForItsOwnerAlone) {
  const fs::path other = path_.string() + ".other";
  std::ofstream(other) << "mine";
  fs::remove(path_);
  fs::create_symlink(other, path_);
  const auto held = HeldFile::Create(path_);
  ASSERT_TRUE(held.ok()) << held.status();
  EXPECT_EQ(fs::file_size(other), 4U);
  EXPECT_EQ(fs::status(path_).permissions(), fs::perms::owner_read | fs::perms::owner_write);
  fs::remove(other);
}

TEST(HeldFileWithoutPlace, SaysWhereItCannotBe) {
  const auto held = HeldFile::Create("/nowhere/held");
  EXPECT_NE(held.status().message().find("/nowhere/held"), std::string::npos);
}

}  // namespace
}  // namespace unis
