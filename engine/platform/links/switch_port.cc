#include "engine/platform/links/switch_port.h"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <utility>

namespace unis {
namespace {

// Packets that the switch may have taken and not passed on yet: a burst of Open vSwitch's is 32.
constexpr std::uint32_t kInHand = 64;

bool Ended(const UniqueFd& process) {
  pollfd ended{.fd = process.get(), .events = POLLIN, .revents = 0};
  return poll(&ended, 1, 0) != 0;
}

}  // namespace

pid_t SwitchPort::Pid() const {
  pid_t pid = 0;
  std::ifstream(pid_file_) >> pid;
  return pid;
}

absl::Status SwitchPort::Follow() {
  const std::lock_guard lock(following_);
  return Find();
}

// What waits in the socket of a switch that ended never comes out of it. Its drops end here; the
// next socket has its own.
absl::Status SwitchPort::Find() {
  if (sockets_ && !Ended(process_)) return absl::OkStatus();
  if (sockets_) dropped_ += sockets_->TakeAbandoned() + sockets_->TakeDrops();
  sockets_.reset();
  const pid_t pid = Pid();
  if (pid <= 0) return absl::NotFoundError("no process is named in " + pid_file_);
  process_ = UniqueFd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  auto found = FindPacketSockets(pid, device_, 1);
  if (!found.ok()) return found.status();
  sockets_ = std::make_unique<FollowedSockets>(*std::move(found));
  return absl::OkStatus();
}

std::uint32_t SwitchPort::Room(std::uint32_t most, std::uint32_t free,
                               std::uint32_t capacity) noexcept {
  const std::unique_lock lock(following_, std::try_to_lock);
  if (!lock || !sockets_) return 0;
  const std::uint32_t ahead = sockets_->Waiting() + std::min(kInHand, capacity / 4);
  return sockets_->Room(std::min(most, free - std::min(free, ahead)), 0);
}

std::uint64_t SwitchPort::Dropped() {
  const std::lock_guard lock(following_);
  (void)Find();
  if (sockets_) dropped_ += sockets_->TakeDrops();
  return dropped_;
}

}  // namespace unis
