#include "engine/base/capabilities.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <string>
#include <thread>

#include "engine/base/machine_for_test.h"
#include "engine/base/sanitizer.h"

namespace unis {
namespace {

// A line of a thread's status; "self" of this process' first one.
std::string Of(const std::string& thread, const std::string& key) {
  std::ifstream status("/proc/" + thread + "/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(key + ":")) return line.substr(line.find_last_of(" \t") + 1);
  return "";
}

constexpr std::array kOne = {Capability{CAP_SYS_NICE, "sys_nice", ""}};
constexpr const char* kOnlyOne = "0000000000800000";  // bit 23

// In a child, for it is for good; the code that it ends with tells what was wrong.
int InAChild(const auto& check) {
  const pid_t child = fork();
  if (child == 0) _exit(check());
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(CapabilitiesTest, WhatIsNotKeptIsGoneForGoodAndForAllThreadsToCome) {
#if UNIS_THREAD_SANITIZER
  GTEST_SKIP() << "the thread sanitizer lets no child begin a thread; other builds run this";
#endif
  UNIS_NEED_ROOT();
  EXPECT_EQ(InAChild([] {
              const auto missing = KeepOnly(kOne);
              if (!missing.ok() || !missing->empty()) return 1;
              std::string later;
              std::thread([&] { later = Of("thread-self", "CapEff"); }).join();
              if (Of("self", "CapEff") != kOnlyOne || later != kOnlyOne) return 2;
              if (Of("self", "CapPrm") != kOnlyOne || Of("self", "CapBnd") != kOnlyOne) return 3;
              if (Of("self", "NoNewPrivs") != "1") return 4;
              return setuid(1) == 0 || errno != EPERM ? 5 : 0;
            }),
            0);
}

TEST(CapabilitiesTest, SaysWhichOfThoseWantedItDoesNotHave) {
  UNIS_NEED_ROOT();
  EXPECT_EQ(InAChild([] {
              if (!KeepOnly(kOne).ok()) return 1;
              const auto missing = KeepOnly(kUnisdCapabilities);
              if (!missing.ok()) return 2;
              if (missing->size() != kUnisdCapabilities.size() - 1) return 3;
              return Of("self", "CapEff") == kOnlyOne ? 0 : 4;
            }),
            0);
}

}  // namespace
}  // namespace unis
