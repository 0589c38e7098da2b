#include "engine/server/proc.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>

namespace unis {
namespace {

// The state of a process or thread, one letter; 0: gone.
char StateIn(const std::string& stat_file) {
  std::ifstream file(stat_file);
  std::string stat;
  if (!std::getline(file, stat)) return 0;
  const auto name_end = stat.rfind(')');  // the name may hold anything
  return name_end != std::string::npos && name_end + 2 < stat.size() ? stat[name_end + 2] : '\0';
}

}  // namespace

bool ThreadExists(pid_t pid, pid_t tid) {
  std::error_code error;
  return std::filesystem::exists(fmt::format("/proc/{}/task/{}", pid, tid), error);
}

bool ProcessRuns(pid_t pid) {
  const char state = StateIn(fmt::format("/proc/{}/stat", pid));
  return state != 0 && state != 'Z';
}

bool ThreadStopped(pid_t pid, pid_t tid) {
  return StateIn(fmt::format("/proc/{}/task/{}/stat", pid, tid)) == 'T';
}

std::uint64_t CpuTimeNs(pid_t pid, pid_t tid) {
  std::ifstream file(fmt::format("/proc/{}/task/{}/schedstat", pid, tid));
  std::uint64_t ns = 0;
  file >> ns;
  return ns;
}

ContextSwitches ContextSwitchesOf(pid_t pid, pid_t tid) {
  std::ifstream file(fmt::format("/proc/{}/task/{}/status", pid, tid));
  ContextSwitches switches;
  for (std::string word; file >> word;) {
    if (word == "voluntary_ctxt_switches:") file >> switches.voluntary;
    if (word == "nonvoluntary_ctxt_switches:") file >> switches.involuntary;
  }
  return switches;
}

}  // namespace unis
