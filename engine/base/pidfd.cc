#include "engine/base/pidfd.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>

#include <cerrno>

namespace unis {
namespace {

constexpr unsigned kThread = 0200;  // PIDFD_THREAD, O_EXCL: not in the headers of older kernels

UniqueFd Open(pid_t id, unsigned flags) {
  return UniqueFd(static_cast<int>(syscall(SYS_pidfd_open, id, flags)));
}

}  // namespace

absl::StatusOr<Pidfd> Pidfd::OfProcess(pid_t pid) {
  UniqueFd fd = Open(pid, 0);
  if (fd.valid()) return Pidfd(std::move(fd));
  return absl::ErrnoToStatus(errno, fmt::format("cannot open process {}", pid));
}

absl::StatusOr<Pidfd> Pidfd::OfThread(pid_t tid) {
  UniqueFd fd = Open(tid, kThread);
  if (fd.valid()) return Pidfd(std::move(fd));
  return absl::ErrnoToStatus(errno, fmt::format("cannot open thread {}", tid));
}

bool Pidfd::Signal(int signal) const noexcept {
  return syscall(SYS_pidfd_send_signal, fd_.get(), signal, nullptr, 0) == 0;
}

bool Pidfd::ended() const noexcept {
  pollfd readable{.fd = fd_.get(), .events = POLLIN, .revents = 0};
  return poll(&readable, 1, 0) > 0;
}

bool Pidfd::Queue(int signal, int value) const noexcept {
  siginfo_t info{};
  info.si_signo = signal;
  info.si_code = SI_QUEUE;
  info.si_pid = getpid();
  info.si_uid = getuid();
  info.si_value.sival_int = value;
  return syscall(SYS_pidfd_send_signal, fd_.get(), signal, &info, 0) == 0;
}

}  // namespace unis
