#include "engine/controller/signal_controller.h"

#include <fmt/format.h>
#include <signal.h>

#include <cerrno>
#include <utility>

namespace unis {

SignalController::SignalController(std::vector<NfThread> nfs) : nfs_(std::move(nfs)) {}

absl::Status SignalController::Acquire() {
  for (const NfThread& nf : nfs_) {
    if (kill(nf.pid, SIGSTOP) != 0) {
      return absl::ErrnoToStatus(
          errno, fmt::format("cannot stop function {} (process {})", nf.name, nf.pid));
    }
  }
  return absl::OkStatus();
}

absl::Status SignalController::Release() {
  for (const NfThread& nf : nfs_) (void)kill(nf.pid, SIGCONT);
  return absl::OkStatus();
}

void SignalController::Start(CoreIndex, NfIndex first) noexcept {
  (void)kill(nfs_[first].pid, SIGCONT);
}

void SignalController::Switch(CoreIndex, NfIndex from, NfIndex to) noexcept {
  (void)kill(nfs_[from].pid, SIGSTOP);
  (void)kill(nfs_[to].pid, SIGCONT);
}

}  // namespace unis
