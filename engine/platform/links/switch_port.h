// A port of a switch that is a process, as that of Open vSwitch's userspace datapath: what comes
// there waits in a packet socket of that process, which alone tells what it had no room for.
#pragma once

#include <absl/status/status.h>
#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "engine/base/unique_fd.h"
#include "engine/platform/links/packet_socket.h"

namespace unis {

class SwitchPort {
 public:
  // `pid_file` has the number of the process.
  SwitchPort(std::string pid_file, std::string device)
      : pid_file_(std::move(pid_file)), device_(std::move(device)) {}

  // Finds the socket, also that of a switch that was started again. NotFound: it is not there yet.
  absl::Status Follow();
  // How many of `most` packets have room at this port and at the receiver behind the switch.
  // `free`: slots of the receiver's ring, of `capacity`, that were seen free. 0: there is no
  // switch. Any thread; it does not wait.
  std::uint32_t Room(std::uint32_t most, std::uint32_t free, std::uint32_t capacity) noexcept;
  // Packets for which there was no room, ever. A few system calls; also follows.
  std::uint64_t Dropped();

 private:
  absl::Status Find();  // locked
  pid_t Pid() const;

  const std::string pid_file_, device_;
  std::mutex following_;  // for what is below
  UniqueFd process_;      // that has them
  std::unique_ptr<FollowedSockets> sockets_;
  std::uint64_t dropped_ = 0;
};

}  // namespace unis
