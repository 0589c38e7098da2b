#include "engine/controller/freezer.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>

namespace unis {
namespace fs = std::filesystem;

namespace {

// Controllers may be mounted together: "cpu,freezer".
bool HasWord(const std::string& list, const std::string& wanted) {
  std::istringstream words(list);
  for (std::string word; std::getline(words, word, ',');)
    if (word == wanted) return true;
  return false;
}

}  // namespace

std::optional<Freezer> FindFreezer(std::istream& mounts) {
  std::optional<Freezer> unified;
  for (std::string line; std::getline(mounts, line);) {
    std::istringstream words(line);
    std::string device, mount, type, options;
    words >> device >> mount >> type >> options;
    if (type == "cgroup" && HasWord(options, "freezer")) return Freezer{mount, 1};
    if (type == "cgroup2") unified = Freezer{mount, 2};
  }
  return unified;
}

std::optional<fs::path> PlaceIn(const Freezer& freezer, std::istream& cgroups) {
  for (std::string line; std::getline(cgroups, line);) {
    const auto first = line.find(':');
    const auto second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool ours = freezer.version == 2 ? controllers.empty() : HasWord(controllers, "freezer");
    if (!ours) continue;
    const fs::path place = fs::path(line.substr(second + 1)).relative_path();
    if (std::find(place.begin(), place.end(), "..") != place.end()) return std::nullopt;
    return place;
  }
  return std::nullopt;
}

absl::StatusOr<Freezer> FreezerOfMachine() {
  std::ifstream mounts("/proc/mounts");
  if (const auto freezer = FindFreezer(mounts); freezer) return *freezer;
  return absl::FailedPreconditionError(
      "controller cgroup needs a cgroup freezer, and none is mounted; use controller priority or "
      "signal");
}

absl::StatusOr<fs::path> CgroupOf(pid_t pid, const Freezer& freezer) {
  std::ifstream cgroups(fmt::format("/proc/{}/cgroup", pid));
  if (!cgroups) return absl::NotFoundError(fmt::format("process {} has ended", pid));
  if (auto place = PlaceIn(freezer, cgroups); place) return *std::move(place);
  return absl::FailedPreconditionError(
      fmt::format("/proc/{}/cgroup does not tell where below {} that process is, so it could not "
                  "be put back there; use controller priority or signal",
                  pid, freezer.mount.string()));
}

}  // namespace unis
