// Child processes for tests, which end with the test.
#pragma once

#include <linux/sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <fstream>
#include <functional>
#include <string>
#include <system_error>
#include <utility>

namespace unis {

// 'R', 'S', 'T', … of /proc/PID/stat, of processes whose name has no spaces.
inline char StateOf(pid_t pid) {
  std::string word, state;
  std::ifstream("/proc/" + std::to_string(pid) + "/stat") >> word >> word >> state;
  return state.empty() ? '?' : state.front();
}

class ChildProcess {
 public:
  // Runs `main` and ends; without one it sleeps. `number` asks for a certain process number, which
  // must be free: so a number can be seen used again.
  explicit ChildProcess(
      const std::function<void()>& main = [] { pause(); }, pid_t number = 0) {
    const pid_t parent = getpid();
    // The C library and the thread sanitizer see to their locks only in fork().
    const pid_t pid = number > 0 ? Clone(number) : fork();
    if (pid < 0) throw std::system_error(errno, std::generic_category(), "cannot make a process");
    if (pid == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() == parent) main();
      _exit(0);
    }
    pid_ = pid;
  }
  ~ChildProcess() { End(); }
  ChildProcess(ChildProcess&& other) noexcept : pid_(std::exchange(other.pid_, 0)) {}
  ChildProcess& operator=(ChildProcess&&) = delete;

  pid_t pid() const { return pid_; }
  void Kill() const {
    if (pid_ > 0) kill(pid_, SIGKILL);
  }
  // Killed, and no zombie is left; its number is free.
  void End() {
    Kill();
    if (pid_ > 0) waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }

 private:
  static pid_t Clone(pid_t number) {
    clone_args args{};
    args.exit_signal = SIGCHLD;
    args.set_tid = reinterpret_cast<std::uint64_t>(&number);
    args.set_tid_size = 1;
    return static_cast<pid_t>(syscall(SYS_clone3, &args, sizeof(args)));
  }

  pid_t pid_ = 0;
};

}  // namespace unis
