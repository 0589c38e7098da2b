#include "engine/platform/links/peer_socket.h"

#include <fmt/format.h>
#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <utility>

namespace unis {
namespace {

constexpr int kBacklog = 8;
constexpr timespec kBetweenPeers{.tv_sec = 0, .tv_nsec = 10'000'000};

absl::Status SocketFailed(const char* what, const std::string& path) {
  return absl::InternalError(fmt::format("cannot {} {}: {}", what, path, std::strerror(errno)));
}

}  // namespace

absl::StatusOr<UniqueFd> ListenForPeer(const std::string& path, int type) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof(address.sun_path))
    return absl::InvalidArgumentError(fmt::format("the path of a socket has up to {} bytes: {}",
                                                  sizeof(address.sun_path) - 1, path));
  std::memcpy(address.sun_path, path.c_str(), path.size());
  UniqueFd listener(::socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!listener.valid()) return SocketFailed("make", path);
  // Bound under this mode, so that nobody connects before it is set by name.
  if (fchmod(listener.get(), S_IRUSR | S_IWUSR) != 0) return SocketFailed("protect", path);
  if (bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0)
    return SocketFailed("bind", path);
  if (listen(listener.get(), kBacklog) != 0) {
    const absl::Status failed = SocketFailed("listen at", path);
    unlink(path.c_str());
    return failed;
  }
  return listener;
}

UniqueFd AcceptPeer(const UniqueFd& listener, const std::string& path, bool& told) {
  UniqueFd peer(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  const bool lacking =
      !peer.valid() && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM);
  if (lacking && !told)
    spdlog::warn("{}: who connects there has to wait: {}", path, std::strerror(errno));
  told = lacking || (told && !peer.valid());
  return peer;
}

void TakeFiles(msghdr& header, std::vector<UniqueFd>& files) {
  for (cmsghdr* at = CMSG_FIRSTHDR(&header); at != nullptr; at = CMSG_NXTHDR(&header, at)) {
    if (at->cmsg_level != SOL_SOCKET || at->cmsg_type != SCM_RIGHTS) continue;
    for (std::size_t i = 0; CMSG_LEN((i + 1) * sizeof(int)) <= at->cmsg_len; ++i) {
      int number = -1;
      std::memcpy(&number, CMSG_DATA(at) + i * sizeof(int), sizeof(int));
      files.emplace_back(number);
    }
  }
}

absl::StatusOr<std::unique_ptr<PeerServer>> PeerServer::Listen(const std::string& path, int type) {
  UniqueFd end(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!end.valid()) return SocketFailed("make", path);
  auto listener = ListenForPeer(path, type);
  if (!listener.ok()) return listener.status();
  return std::unique_ptr<PeerServer>(new PeerServer(path, *std::move(listener), std::move(end)));
}

// Not more than a hundred peers a second, or one that comes and goes for ever would have the CPU.
void PeerServer::Start(const char* name, std::function<void(const UniqueFd& peer)> talk) {
  thread_ = std::thread([this, name, talk = std::move(talk)] {
    pthread_setname_np(pthread_self(), name);
    for (bool told = false; Wait(listener_);) {
      const UniqueFd peer = AcceptPeer(listener_, path_, told);
      if (peer.valid()) talk(peer);
      nanosleep(&kBetweenPeers, nullptr);
    }
  });
}

PeerServer::~PeerServer() {
  (void)eventfd_write(end_.get(), 1);
  if (thread_.joinable()) thread_.join();
  unlink(path_.c_str());
}

bool PeerServer::Wait(const UniqueFd& on) const {
  std::array<pollfd, 2> waiting = {{{.fd = end_.get(), .events = POLLIN, .revents = 0},
                                    {.fd = on.get(), .events = POLLIN, .revents = 0}}};
  while (poll(waiting.data(), waiting.size(), -1) < 0 && errno == EINTR) {
  }
  return waiting[0].revents == 0;
}

}  // namespace unis
