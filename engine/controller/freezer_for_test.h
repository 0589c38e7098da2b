// What tests need that freeze: a freezer in which they may make cgroups.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <string>

#include "engine/base/machine_for_test.h"
#include "engine/controller/freezer.h"

// In a test or SetUp().
#define UNIS_NEED_FREEZER() \
  UNIS_NEED(unis::MayMakeCgroups(), "no cgroup freezer is mounted in which cgroups can be made")

namespace unis {

// Empty: nowhere.
inline std::filesystem::path FreezerMount() {
  const auto freezer = FreezerOfMachine();
  return freezer.ok() ? freezer->mount : std::filesystem::path();
}

inline bool MayMakeCgroups() {
  if (FreezerMount().empty()) return false;
  const auto probe = FreezerMount() / ("unis-probe-" + std::to_string(getpid()));
  std::error_code error;
  const bool made = std::filesystem::create_directory(probe, error);
  std::filesystem::remove(probe, error);
  return made;
}

}  // namespace unis
