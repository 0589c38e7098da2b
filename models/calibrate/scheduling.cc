#include "models/calibrate/scheduling.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <span>
#include <string>
#include <thread>

#include "engine/base/unique_fd.h"

namespace unis {
namespace {

using std::chrono_literals::operator""ms;

constexpr rlim_t kMostRealTimeUs = 500'000;
constexpr auto kRest = 30ms;

cpu_set_t Only(unsigned cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  return set;
}

void WriteAll(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(fd, text.data(), text.size());
    if (written <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

std::string ReadAll(int fd) {
  std::string text(4096, '\0');
  std::size_t length = 0;
  while (true) {
    const ssize_t found = read(fd, text.data() + length, text.size() - length);
    if (found < 0 && errno == EINTR) continue;
    if (found <= 0) break;
    length += static_cast<std::size_t>(found);
    if (length == text.size()) text.resize(2 * length);
  }
  text.resize(length);
  return text;
}

[[noreturn]] void Child(int fd, pid_t parent, unsigned seconds,
                        const std::function<Samples()>& work) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  alarm(seconds);
  const Samples samples = work();
  if (samples.ok()) {
    const auto bytes = std::as_bytes(std::span(*samples));
    WriteAll(fd, "+");
    WriteAll(fd, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  } else {
    WriteAll(fd, "-" + std::string(samples.status().message()));
  }
  _exit(0);
}

}  // namespace

PinnedTo::PinnedTo(unsigned cpu) {
  sched_getaffinity(0, sizeof(before_), &before_);
  const cpu_set_t set = Only(cpu);
  there_ = sched_setaffinity(0, sizeof(set), &set) == 0;
}

PinnedTo::~PinnedTo() { sched_setaffinity(0, sizeof(before_), &before_); }

absl::Status RunOn(unsigned cpu, const SchedulingClass& in) {
  const cpu_set_t set = Only(cpu);
  if (sched_setaffinity(0, sizeof(set), &set) != 0)
    return absl::FailedPreconditionError(
        fmt::format("the kernel refuses CPU {}: {}", cpu, strerror(errno)));
  if (in.real_time()) {
    if (cpu == 0)
      return absl::FailedPreconditionError(
          "no real-time class is tried on CPU 0, on which the rest of the machine relies");
    const rlimit most{kMostRealTimeUs, kMostRealTimeUs};
    setrlimit(RLIMIT_RTTIME, &most);
  }
  const sched_param parameter{.sched_priority = in.real_time() ? 1 : 0};
  if (sched_setscheduler(0, in.policy, &parameter) != 0)
    return absl::FailedPreconditionError(fmt::format("the kernel refuses class {}: {}{}", in.name,
                                                     strerror(errno),
                                                     errno == EPERM ? "; needs CAP_SYS_NICE" : ""));
  return absl::OkStatus();
}

Samples InChild(unsigned seconds, const std::function<Samples()>& work) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    return absl::InternalError(fmt::format("cannot make a pipe: {}", strerror(errno)));
  UniqueFd from(ends[0]), to(ends[1]);
  const pid_t parent = getpid(), child = fork();
  if (child < 0) return absl::InternalError(fmt::format("cannot fork: {}", strerror(errno)));
  if (child == 0) Child(to.get(), parent, seconds, work);
  to = UniqueFd();
  const std::string said = ReadAll(from.get());
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFSIGNALED(status))
    return absl::InternalError(fmt::format("it was ended by signal {} ({})", WTERMSIG(status),
                                           strsignal(WTERMSIG(status))));
  if (said.empty()) return absl::InternalError("it ended without a word");
  if (said[0] == '-') return absl::FailedPreconditionError(said.substr(1));
  std::vector<double> samples((said.size() - 1) / sizeof(double));
  memcpy(samples.data(), said.data() + 1, samples.size() * sizeof(double));
  return samples;
}

void Rest(const SchedulingClass& after) {
  if (after.real_time()) std::this_thread::sleep_for(kRest);
}

}  // namespace unis
