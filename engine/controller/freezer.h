// Where the kernel's cgroup freezer is, version 1 or 2, and where in it a process is.
#pragma once

#include <absl/status/statusor.h>
#include <sys/types.h>

#include <filesystem>
#include <istream>
#include <optional>

namespace unis {

struct Freezer {
  std::filesystem::path mount;
  int version;  // of cgroups
};

// From lines of /proc/mounts; one of version 1 is taken first, for it is not in version 2 then.
std::optional<Freezer> FindFreezer(std::istream& mounts);
// Below the mount, from lines "ID:CONTROLLERS:PATH" of /proc/PID/cgroup; empty: right at the mount.
// Nothing where no line is of the freezer, or the process is above what we see of it.
std::optional<std::filesystem::path> PlaceIn(const Freezer& freezer, std::istream& cgroups);

// The same of this machine; an error is a sentence.
absl::StatusOr<Freezer> FreezerOfMachine();
absl::StatusOr<std::filesystem::path> CgroupOf(pid_t pid, const Freezer& freezer);

}  // namespace unis
