// A process or thread by descriptor: a signal reaches it or nobody, however often its number is
// used again.
#pragma once

#include <absl/status/statusor.h>
#include <sys/types.h>

#include "engine/base/unique_fd.h"

namespace unis {

class Pidfd {
 public:
  static absl::StatusOr<Pidfd> OfProcess(pid_t pid);
  static absl::StatusOr<Pidfd> OfThread(pid_t tid);  // since Linux 6.9, else an error

  // False, and errno says why; ESRCH: it has ended. One system call, no allocation.
  bool Signal(int signal) const noexcept;
  // As sigqueue(): signals of one real-time number are not lost and arrive in their order.
  bool Queue(int signal, int value) const noexcept;
  // A process has ended once all of its threads have, also where nobody has waited for it.
  bool ended() const noexcept;

 private:
  explicit Pidfd(UniqueFd fd) : fd_(std::move(fd)) {}

  UniqueFd fd_;
};

}  // namespace unis
