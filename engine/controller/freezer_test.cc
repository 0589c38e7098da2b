#include "engine/controller/freezer.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <sstream>
#include <string>

namespace unis {
namespace {

std::optional<Freezer> Found(const std::string& mounts) {
  std::istringstream lines(mounts);
  return FindFreezer(lines);
}

std::optional<std::filesystem::path> Place(int version, const std::string& cgroups) {
  std::istringstream lines(cgroups);
  return PlaceIn({.mount = "/mnt", .version = version}, lines);
}

TEST(FreezerTest, IsFoundAloneAndAmongOthers) {
  const std::string unified = "cgroup2 /u cgroup2 rw 0 0\n";
  EXPECT_EQ(Found("cgroup /f cgroup rw,relatime,freezer 0 0\n")->mount, "/f");
  const auto together = Found(unified + "cgroup /cf cgroup rw,cpu,freezer,pids 0 0\n");
  EXPECT_EQ(together->mount, "/cf");
  EXPECT_EQ(together->version, 1);
  EXPECT_EQ(Found(unified)->version, 2);
  EXPECT_EQ(Found(unified + "cgroup /x cgroup rw,name=freezerlike 0 0\n")->mount, "/u");
  EXPECT_FALSE(Found("proc /proc proc rw 0 0\n"));
}

TEST(FreezerTest, AProcessIsFoundWhereItIs) {
  EXPECT_EQ(Place(1, "7:pids:/p\n6:freezer:/a/b\n0::/u\n"), "a/b");
  EXPECT_EQ(Place(1, "6:cpu,freezer,pids:/a/b\n"), "a/b") << "controllers mounted together";
  EXPECT_EQ(Place(1, "6:freezer:/\n"), "") << "right at the mount";
  EXPECT_EQ(Place(1, "6:freezer:/docker:x/y\n"), "docker:x/y");
  EXPECT_EQ(Place(2, "6:freezer:/a\n0::/u/v\n"), "u/v");
}

// Right at the mount is not where such a process is, nor may it be put there.
TEST(FreezerTest, AProcessThatIsNotToBeFoundIsSaidSo) {
  EXPECT_FALSE(Place(1, "7:pids:/p\n0::/u\n"));
  EXPECT_FALSE(Place(1, "6:name=freezerlike:/a\n"));
  EXPECT_FALSE(Place(1, ""));
  EXPECT_FALSE(Place(1, "6:freezer:/../elsewhere\n")) << "outside our cgroup namespace";
  EXPECT_FALSE(CgroupOf(-1, {.mount = "/mnt", .version = 1}).ok());
}

}  // namespace
}  // namespace unis
