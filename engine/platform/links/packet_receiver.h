// What sockets of a function receive (AF_PACKET, AF_XDP), seen from outside: by descriptors of them
// that are ours.
#pragma once

#include <absl/status/statusor.h>
#include <sys/types.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/unique_fd.h"
#include "engine/monitor/occupancy.h"

namespace unis {

class PacketReceiver {
 public:
  virtual ~PacketReceiver() = default;

  // Brings occupancy() up to date. One thread, which calls it again and again.
  virtual void Look() noexcept = 0;
  virtual Occupancy occupancy() const = 0;
  // For how many of `most` packets, one behind the other, each of the sockets has room: of several
  // the kernel chooses one by the flow. `sent`: what was handed to the kernel so far, by whoever
  // alone sends there; see Feed(). Any thread.
  virtual std::uint32_t Room(std::uint32_t most, std::uint32_t sent) const noexcept = 0;
  // Read at the beginning of each look: what was handed to the kernel by then, all of it is at the
  // sockets.
  virtual void Feed(const std::uint32_t* sent) noexcept = 0;
  // Packets for which there was no room, since the last call or since the sockets were made. A
  // system call.
  virtual std::uint64_t TakeDrops() noexcept = 0;
  // Packets that wait for a process that is gone, and not those that come later. To be called once;
  // some system calls.
  virtual std::uint64_t TakeAbandoned() noexcept = 0;
  // Whether the process has the first of the sockets.
  virtual bool HeldBy(pid_t pid) const = 0;
};

// A socket of another process, by a descriptor of ours.
struct HeldSocket {
  UniqueFd descriptor;
  ino_t inode;

  bool HeldBy(pid_t pid) const;
};

// Those of AF_PACKET that `pid` has on a device of their network namespace, in the order of its
// descriptors. NotFound: it has not `sockets` of them yet.
absl::StatusOr<std::vector<HeldSocket>> FindPacketSockets(pid_t pid, const std::string& device,
                                                          std::uint32_t sockets);
// The one of that inode, in whatever network namespace. NotFound: it is not there, or not of that
// domain.
absl::StatusOr<HeldSocket> FindSocket(pid_t pid, int domain, ino_t inode);

// The devices of the network namespace in which a process is, also once that has ended.
class NetworkDevices {
 public:
  // NotFound: it has ended.
  static absl::StatusOr<NetworkDevices> Of(pid_t pid);

  // Packets that it dropped instead of sending them; 0: there is no such device.
  std::uint64_t Unsent(const std::string& device) const;

 private:
  explicit NetworkDevices(UniqueFd table) : table_(std::move(table)) {}
  UniqueFd table_;
};

}  // namespace unis
