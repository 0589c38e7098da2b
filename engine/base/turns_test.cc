#include "engine/base/turns.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engine/base/unique_fd.h"

namespace unis {
namespace {

// As the plug-in makes it, in this process.
TEST(PlacesOfTurnsTest, AFreePlaceIsNobodys) {
  const UniqueFd file(memfd_create(UNIS_TURNS_FILE, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(file.get(), sizeof(unis_turns)), 0);
  ASSERT_EQ(fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
  void* const memory =
      mmap(nullptr, sizeof(unis_turns), PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  ASSERT_NE(memory, MAP_FAILED);
  auto* const shm = static_cast<unis_turns*>(memory);
  shm->version = UNIS_TURNS_VERSION;
  shm->threads[1].tid = 7;
  const auto turns = Turns::Find(getpid());
  ASSERT_TRUE(turns.ok()) << turns.status();
  EXPECT_NE((*turns)->Of(7), nullptr);
  EXPECT_EQ((*turns)->Of(8), nullptr);
  EXPECT_EQ((*turns)->Of(0), nullptr);
  EXPECT_EQ((*turns)->Of(-1), nullptr);
  munmap(memory, sizeof(unis_turns));
}

}  // namespace
}  // namespace unis
