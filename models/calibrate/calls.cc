// What system calls take that switch to nobody.
#include <fcntl.h>
#include <fmt/format.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "engine/base/unique_fd.h"
#include "models/calibrate/sampling.h"
#include "models/calibrate/scheduling.h"
#include "models/calibrate/sections.h"

namespace unis {
namespace {

constexpr double kCallsNs = 1e6;  // of a sample
constexpr std::size_t kCallSamples = 31;

}  // namespace

void MeasureCalls(const Settings& settings, const Report& report) {
  const PinnedTo pinned(settings.cpu);
  const auto measure = [&](const char* name, auto call) {
    report(With(
        {.group = "call", .name = name, .labels = {}, .provider = kClock, .ns = {}, .missing = {}},
        SampleCalls(settings.samples(kCallSamples), kCallsNs, call)));
  };
  measure("getppid", [] { syscall(SYS_getppid); });
  measure("clock_gettime", [] { NowNs(); });
  measure("clock_gettime by system call", [] {
    timespec now{};
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
  });
  measure("sched_yield", [] { sched_yield(); });
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return;
  const UniqueFd from(ends[0]), to(ends[1]);
  measure("write and read of a pipe", [&] {
    char byte = 0;
    if (write(to.get(), &byte, 1) != 1 || read(from.get(), &byte, 1) != 1) return;
  });
}

}  // namespace unis
