#include "engine/base/file_memory.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <string>
#include <vector>

namespace unis {
namespace {

constexpr std::size_t kBytes = 64 << 10;

UniqueFd MemoryFile(std::size_t bytes) {
  UniqueFd file(memfd_create("other", MFD_CLOEXEC));
  (void)ftruncate(file.get(), static_cast<off_t>(bytes));
  return file;
}

TEST(FileMemory, IsWhatTheOtherWrites) {
  const UniqueFd file = MemoryFile(kBytes);
  const auto memory = FileMemory::Map(file, kBytes - 100);
  ASSERT_TRUE(memory.ok()) << memory.status();
  ASSERT_EQ(pwrite(file.get(), "seen", 4, 5000), 4);
  EXPECT_EQ(std::memcmp(memory->data() + 5000, "seen", 4), 0);
}

TEST(FileMemory, WhereTheFileIsTruncatedThereAreZeros) {
  const UniqueFd file = MemoryFile(kBytes), other = MemoryFile(kBytes);
  const auto memory = FileMemory::Map(file, kBytes), untouched = FileMemory::Map(other, kBytes);
  ASSERT_TRUE(memory.ok() && untouched.ok());
  memory->data()[0] = untouched->data()[0] = std::byte{7};
  ASSERT_EQ(ftruncate(file.get(), 0), 0);
  EXPECT_EQ(memory->data()[0], std::byte{0});
  memory->data()[kBytes - 1] = std::byte{9};
  EXPECT_EQ(memory->data()[kBytes - 1], std::byte{9});
  EXPECT_EQ(untouched->data()[0], std::byte{7});
}

TEST(FileMemory, AnotherBusErrorStillEndsTheProcess) {
  const UniqueFd file = MemoryFile(kBytes);
  const pid_t child = fork();
  if (child == 0) {
    const auto memory = FileMemory::Map(file, kBytes);
    void* const own = mmap(nullptr, kBytes, PROT_READ, MAP_SHARED, file.get(), 0);
    (void)ftruncate(file.get(), 0);
    _exit(*static_cast<volatile char*>(own) == 1 ? 1 : 2);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
#ifndef __SANITIZE_ADDRESS__
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS) << status;
#endif
}

TEST(FileMemory, WhatIsNoMemoryOrTooShortIsRefused) {
  const auto refused = [](const UniqueFd& file, std::size_t bytes) {
    return std::string(FileMemory::Map(file, bytes).status().message());
  };
  EXPECT_NE(refused(UniqueFd(open("/proc/self/stat", O_RDWR)), 10).find("no file"),
            std::string::npos);
  EXPECT_NE(refused(UniqueFd(open("/dev/zero", O_RDWR)), 10).find("no file"), std::string::npos);
  EXPECT_NE(refused(UniqueFd(), 10).find("no file"), std::string::npos);
  EXPECT_NE(refused(MemoryFile(kBytes), kBytes + 1).find("are wanted"), std::string::npos);
  EXPECT_NE(refused(MemoryFile(kBytes), 0).find("are wanted"), std::string::npos);
  EXPECT_NE(refused(MemoryFile(kBytes), ~std::size_t{0}).find("are wanted"), std::string::npos);
}

TEST(FileMemory, ThereIsRoomForManyAndAgainWhenTheyHaveGone) {
  const UniqueFd file = MemoryFile(kBytes);
  for (int round = 0; round < 2; ++round) {
    std::vector<FileMemory> all;
    for (std::size_t i = 0; i < FileMemory::kMost; ++i) {
      auto memory = FileMemory::Map(file, kBytes);
      ASSERT_TRUE(memory.ok()) << memory.status() << " " << i;
      all.push_back(*std::move(memory));
    }
    EXPECT_EQ(FileMemory::Map(file, kBytes).status().code(), absl::StatusCode::kResourceExhausted);
  }
}

}  // namespace
}  // namespace unis
