#include "engine/base/proc.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <signal.h>

#include <array>
#include <charconv>
#include <filesystem>
#include <string_view>

namespace unis {
namespace {

// A small file of /proc, without allocation. The end of a line that is long is cut off, as that of
// thousands of groups: what stands behind it is read all the same.
class Text {
 public:
  Text(int folder, const char* name) noexcept {
    const UniqueFd file(openat(folder, name, O_RDONLY | O_CLOEXEC));
    std::array<char, 4096> part;
    std::size_t column = 0;
    ssize_t bytes = part.size();
    while (file.valid() && bytes == ssize_t{part.size()}) {
      bytes = read(file.get(), part.data(), part.size());
      for (ssize_t i = 0; i < bytes; ++i) {
        column = part[i] == '\n' ? 0 : column + 1;
        if (column <= kLongest && size_ < buffer_.size()) buffer_[size_++] = part[i];
      }
    }
  }
  std::string_view view() const noexcept { return {buffer_.data(), size_}; }

 private:
  static constexpr std::size_t kLongest = 1024;
  std::array<char, 4096> buffer_;
  std::size_t size_ = 0;
};

std::uint64_t Number(std::string_view text) noexcept {
  std::uint64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

// The word at a position, counted from 0; words are separated by single spaces.
std::string_view Word(std::string_view line, int position) noexcept {
  for (; position > 0 && !line.empty(); --position)
    line.remove_prefix(std::min(line.find(' '), line.size() - 1) + 1);
  return line.substr(0, line.find(' '));
}

// The number in the line of a "status" file that starts with `key`.
std::uint64_t Value(std::string_view status, std::string_view key) noexcept {
  const auto at = status.find(key);
  if (at == std::string_view::npos) return 0;
  status.remove_prefix(at + key.size());
  status.remove_prefix(std::min(status.find_first_of("0123456789"), status.size()));
  return Number(status);
}

// The set of signals in the line that starts with `key`.
std::uint64_t Signals(std::string_view status, std::string_view key) noexcept {
  std::uint64_t set = 0;
  const auto at = status.find(key);
  if (at == std::string_view::npos) return 0;
  status.remove_prefix(at + key.size());
  std::from_chars(status.data(), status.data() + status.size(), set, 16);
  return set;
}

// Fields 3, 9 and 22; the name before them may hold anything, spaces and brackets too.
std::optional<ProcStat> ParseStat(std::string_view stat) noexcept {
  const auto name_end = stat.rfind(") ");
  if (name_end == std::string_view::npos) return std::nullopt;
  const auto fields = stat.substr(name_end + 2);
  if (fields.empty()) return std::nullopt;
  return ProcStat{.state = fields.front(),
                  .flags = Number(Word(fields, 9 - 3)),
                  .user_ticks = Number(Word(fields, 14 - 3)),
                  .system_ticks = Number(Word(fields, 15 - 3)),
                  .start_time = Number(Word(fields, 22 - 3))};
}

}  // namespace

std::optional<ProcStat> StatOfProcess(pid_t pid) {
  return ParseStat(Text(AT_FDCWD, fmt::format("/proc/{}/stat", pid).c_str()).view());
}

bool ProcessRuns(pid_t pid) {
  const auto stat = StatOfProcess(pid);
  return stat && stat->state != 'Z' && stat->state != 'X';
}

bool ProcessRuns(pid_t pid, std::uint64_t start_time) {
  const auto stat = StatOfProcess(pid);
  return stat && stat->state != 'Z' && stat->state != 'X' && stat->start_time == start_time;
}

bool ThreadExists(pid_t pid, pid_t tid) { return OpenTask(pid, tid).valid(); }

UniqueFd OpenTask(pid_t pid, pid_t tid) {
  const std::string path = fmt::format("/proc/{}/task/{}", pid, tid);
  return UniqueFd(open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
}

std::optional<ProcStat> StatOfTask(const UniqueFd& task) noexcept {
  return ParseStat(Text(task.get(), "stat").view());
}

// A number for each PID namespace that it is in, the innermost last; without such namespaces the
// kernel has only the line `Pid:`.
pid_t NumberInside(const UniqueFd& task) noexcept {
  constexpr std::string_view kNumbers = "\nNSpid:";
  const Text status(task.get(), "status");
  const auto at = status.view().find(kNumbers);
  if (at == std::string_view::npos) return static_cast<pid_t>(Value(status.view(), "\nPid:"));
  const auto rest = status.view().substr(at + kNumbers.size());
  const auto line = rest.substr(0, rest.find('\n'));
  return static_cast<pid_t>(Number(line.substr(line.find_last_of('\t') + 1)));
}

bool Dying(const UniqueFd& task) noexcept {
  constexpr std::uint64_t kExiting = 0x4;  // of the kernel's flags of a task
  if ((StatOfTask(task).value_or(ProcStat{}).flags & kExiting) != 0) return true;
  const Text status(task.get(), "status");
  const std::uint64_t pending =
      Signals(status.view(), "\nSigPnd:\t") | Signals(status.view(), "\nShdPnd:\t");
  return (pending >> (SIGKILL - 1) & 1) != 0;
}

void BoostExitingThreads(pid_t pid) {
  constexpr sched_param kBefore{.sched_priority = 50};  // tasks end at 49
  std::error_code error;
  const std::filesystem::path tasks = fmt::format("/proc/{}/task", pid);
  for (std::filesystem::directory_iterator entry(tasks, error), end; !error && entry != end;
       entry.increment(error)) {
    const auto tid = static_cast<pid_t>(Number(entry->path().filename().native()));
    if (Dying(OpenTask(pid, tid))) sched_setscheduler(tid, SCHED_FIFO, &kBefore);
  }
}

ThreadTimes TimesOf(const UniqueFd& task) noexcept {
  const Text times(task.get(), "schedstat");
  return {.ran_ns = Number(Word(times.view(), 0)), .waited_ns = Number(Word(times.view(), 1))};
}

ContextSwitches ContextSwitchesOf(const UniqueFd& task) noexcept {
  const Text status(task.get(), "status");
  return {.voluntary = Value(status.view(), "\nvoluntary_ctxt_switches:"),
          .involuntary = Value(status.view(), "\nnonvoluntary_ctxt_switches:")};
}

std::uint64_t OwnCpuTimeNs() noexcept {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(time.tv_nsec);
}

}  // namespace unis
