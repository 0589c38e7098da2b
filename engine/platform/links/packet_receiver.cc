#include "engine/platform/links/packet_receiver.h"

#include <fmt/format.h>
#include <net/if.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string_view>

namespace unis {
namespace {

namespace fs = std::filesystem;

// The packet sockets that are bound to a device, in the network namespace of a process.
std::set<ino_t> SocketsOn(pid_t pid, unsigned device) {
  std::set<ino_t> inodes;
  std::ifstream table(fmt::format("/proc/{}/net/packet", pid));
  std::string line;
  std::getline(table, line);  // sk RefCnt Type Proto Iface R Rmem User Inode
  while (std::getline(table, line)) {
    std::istringstream words(line);
    std::string skipped;
    unsigned bound = 0;
    ino_t inode = 0;
    for (int i = 0; i < 4; ++i) words >> skipped;
    words >> bound >> skipped >> skipped >> skipped >> inode;
    if (words && bound == device) inodes.insert(inode);
  }
  return inodes;
}

// Calls visit(descriptor, inode) for each open socket of a process, until it returns false.
template <typename Visit>
void ForEachSocket(pid_t pid, Visit visit) {
  constexpr std::string_view kBegin = "socket:[";
  std::error_code error;
  fs::directory_iterator file(fmt::format("/proc/{}/fd", pid), error);
  for (; !error && file != fs::directory_iterator(); file.increment(error)) {
    std::error_code gone;
    const std::string target = fs::read_symlink(file->path(), gone);
    if (gone || !target.starts_with(kBegin)) continue;
    const ino_t inode = std::strtoull(target.c_str() + kBegin.size(), nullptr, 10);
    if (!visit(std::atoi(file->path().filename().c_str()), inode)) return;
  }
}

UniqueFd Duplicate(const UniqueFd& process, int descriptor) {
  return UniqueFd(static_cast<int>(syscall(SYS_pidfd_getfd, process.get(), descriptor, 0)));
}

// A number may be another file's descriptor by now; an ordinary file could become shorter under a
// mapping.
bool IsPacketSocket(const UniqueFd& socket, ino_t inode) {
  struct stat status {};
  int domain = 0;
  socklen_t bytes = sizeof(domain);
  return fstat(socket.get(), &status) == 0 && S_ISSOCK(status.st_mode) && status.st_ino == inode &&
         getsockopt(socket.get(), SOL_SOCKET, SO_DOMAIN, &domain, &bytes) == 0 &&
         domain == AF_PACKET;
}

}  // namespace

bool HeldSocket::HeldBy(pid_t pid) const {
  bool held = false;
  ForEachSocket(pid, [&](int, ino_t other) {
    held = other == inode;
    return !held;
  });
  return held;
}

absl::StatusOr<std::vector<HeldSocket>> FindPacketSockets(pid_t pid, const std::string& device,
                                                          std::uint32_t sockets) {
  const std::set<ino_t> inodes = SocketsOn(pid, if_nametoindex(device.c_str()));
  std::map<int, ino_t> held;  // by descriptor
  ForEachSocket(pid, [&](int descriptor, ino_t inode) {
    if (inodes.contains(inode)) held.emplace(descriptor, inode);
    return true;
  });
  if (held.size() != sockets)
    return absl::NotFoundError(fmt::format("process {} has {} packet sockets on {}, and {} are due",
                                           pid, held.size(), device, sockets));
  const UniqueFd process(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  std::vector<HeldSocket> found;
  for (const auto& [descriptor, inode] : held) {
    UniqueFd socket = Duplicate(process, descriptor);
    if (!socket.valid())
      return absl::ErrnoToStatus(
          errno, fmt::format("cannot duplicate descriptor {} of process {}", descriptor, pid));
    if (!IsPacketSocket(socket, inode))
      return absl::NotFoundError("a descriptor is no packet socket any more");
    found.push_back({std::move(socket), inode});
  }
  return found;
}

}  // namespace unis
