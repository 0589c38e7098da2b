#include "engine/platform/links/packet_receiver.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <sstream>
#include <string_view>

namespace unis {
namespace {

namespace fs = std::filesystem;

// Calls visit(descriptor, inode) for each open socket of a process, until it returns false. An
// error: its open files cannot be listed.
template <typename Visit>
std::error_code ForEachSocket(pid_t pid, Visit visit) {
  constexpr std::string_view kBegin = "socket:[";
  std::error_code error;
  fs::directory_iterator file(fmt::format("/proc/{}/fd", pid), error);
  for (; !error && file != fs::directory_iterator(); file.increment(error)) {
    std::error_code gone;
    const std::string target = fs::read_symlink(file->path(), gone);
    if (gone || !target.starts_with(kBegin)) continue;
    const ino_t inode = std::strtoull(target.c_str() + kBegin.size(), nullptr, 10);
    if (!visit(std::atoi(file->path().filename().c_str()), inode)) break;
  }
  return error;
}

UniqueFd Duplicate(const UniqueFd& process, int descriptor) {
  return UniqueFd(static_cast<int>(syscall(SYS_pidfd_getfd, process.get(), descriptor, 0)));
}

// A number may be another file's descriptor by now; an ordinary file could become shorter under a
// mapping.
bool IsSocket(const UniqueFd& socket, ino_t inode, int wanted) {
  struct stat status {};
  int domain = 0;
  socklen_t bytes = sizeof(domain);
  return fstat(socket.get(), &status) == 0 && S_ISSOCK(status.st_mode) && status.st_ino == inode &&
         getsockopt(socket.get(), SOL_SOCKET, SO_DOMAIN, &domain, &bytes) == 0 && domain == wanted;
}

// The device is looked up in the network namespace of the socket, which need not be ours.
bool IsBoundTo(const UniqueFd& socket, const std::string& device) {
  sockaddr_ll bound{};
  socklen_t bytes = sizeof(bound);
  ifreq named{};
  device.copy(named.ifr_name, IFNAMSIZ - 1);
  return getsockname(socket.get(), reinterpret_cast<sockaddr*>(&bound), &bytes) == 0 &&
         ioctl(socket.get(), SIOCGIFINDEX, &named) == 0 && bound.sll_ifindex == named.ifr_ifindex;
}

// Calls take(descriptor, duplicate, inode) for each open socket of a process, or the one of inode
// `only`. NotFound: the process has ended. Other errors do not go away.
template <typename Take>
absl::Status DuplicateSockets(pid_t pid, Take take, ino_t only = 0) {
  const auto failed = [pid](int code) {
    return absl::ErrnoToStatus(code, fmt::format("cannot duplicate sockets of process {}", pid));
  };
  const UniqueFd process(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  if (!process.valid()) return failed(errno);
  int denied = 0;  // errno
  const auto error = ForEachSocket(pid, [&](int descriptor, ino_t inode) {
    if (only != 0 && inode != only) return true;
    UniqueFd socket = Duplicate(process, descriptor);
    if (socket.valid())
      take(descriptor, std::move(socket), inode);
    else if (errno != EBADF)  // closed meanwhile
      denied = errno;
    return denied == 0 && only == 0;
  });
  if (denied == 0) denied = error.value();
  return denied == 0 ? absl::OkStatus() : failed(denied);
}

}  // namespace

bool HeldSocket::HeldBy(pid_t pid) const {
  bool held = false;
  (void)ForEachSocket(pid, [&](int, ino_t other) {
    held = other == inode;
    return !held;
  });
  return held;
}

absl::StatusOr<std::vector<HeldSocket>> FindPacketSockets(pid_t pid, const std::string& device,
                                                          std::uint32_t sockets) {
  std::map<int, HeldSocket> held;  // by descriptor
  auto status = DuplicateSockets(pid, [&](int descriptor, UniqueFd socket, ino_t inode) {
    if (IsSocket(socket, inode, AF_PACKET) && IsBoundTo(socket, device))
      held.emplace(descriptor, HeldSocket{std::move(socket), inode});
  });
  if (!status.ok()) return status;
  if (held.size() != sockets)
    return absl::NotFoundError(fmt::format("process {} has {} packet sockets on {}, and {} are due",
                                           pid, held.size(), device, sockets));
  std::vector<HeldSocket> found;
  for (auto& [descriptor, socket] : held) found.push_back(std::move(socket));
  return found;
}

absl::StatusOr<HeldSocket> FindSocket(pid_t pid, int domain, ino_t inode) {
  UniqueFd found;
  auto status = DuplicateSockets(
      pid, [&](int, UniqueFd socket, ino_t) { found = std::move(socket); }, inode);
  if (!status.ok()) return status;
  if (!found.valid() || !IsSocket(found, inode, domain))
    return absl::NotFoundError(fmt::format("process {} has no socket {} of {}", pid, inode,
                                           domain == AF_XDP ? "AF_XDP" : "AF_PACKET"));
  return HeldSocket{std::move(found), inode};
}

absl::StatusOr<NetworkDevices> NetworkDevices::Of(pid_t pid) {
  const std::string path = fmt::format("/proc/{}/net/dev", pid);
  UniqueFd table(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!table.valid()) return absl::ErrnoToStatus(errno, "cannot read " + path);
  return NetworkDevices(std::move(table));
}

std::uint64_t NetworkDevices::Unsent(const std::string& device) const {
  constexpr std::size_t kColumn = 11;  // behind the name, "drop" of what is sent
  std::array<char, 4096> part;
  std::string table;
  lseek(table_.get(), 0, SEEK_SET);
  for (ssize_t bytes; (bytes = read(table_.get(), part.data(), part.size())) > 0;)
    table.append(part.data(), bytes);
  std::istringstream lines(table);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t end = line.find(':');
    if (end == std::string::npos) continue;
    if (line.substr(0, end).substr(line.find_first_not_of(' ')) != device) continue;
    std::istringstream columns(line.substr(end + 1));
    std::uint64_t value = 0;
    for (std::size_t column = 0; column <= kColumn; ++column) columns >> value;
    return columns ? value : 0;
  }
  return 0;
}

}  // namespace unis
