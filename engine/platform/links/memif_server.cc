#include "engine/platform/links/memif_server.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "engine/platform/links/memif_handshake.h"

namespace unis {
namespace {

constexpr int kBacklog = 8;
constexpr timespec kBetweenClients{.tv_sec = 0, .tv_nsec = 10'000'000};

absl::Status Failed(const char* what, const std::string& socket) {
  return absl::InternalError(fmt::format("cannot {} {}: {}", what, socket, std::strerror(errno)));
}

// A message, and the first descriptor that came with it; the others are closed. False: the client
// is gone, or said something else.
bool Hear(int client, MemifMessage& message, UniqueFd& file) {
  constexpr std::size_t kRoom = CMSG_SPACE(sizeof(int));
  alignas(cmsghdr) std::array<char, kRoom> control{};
  iovec bytes{.iov_base = &message, .iov_len = sizeof(message)};
  msghdr header{};
  header.msg_iov = &bytes;
  header.msg_iovlen = 1;
  header.msg_control = control.data();
  header.msg_controllen = control.size();
  const ssize_t heard = recvmsg(client, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  for (cmsghdr* at = CMSG_FIRSTHDR(&header); at != nullptr; at = CMSG_NXTHDR(&header, at)) {
    if (at->cmsg_level != SOL_SOCKET || at->cmsg_type != SCM_RIGHTS) continue;
    for (std::size_t i = 0; CMSG_LEN((i + 1) * sizeof(int)) <= at->cmsg_len; ++i) {
      int number = -1;
      std::memcpy(&number, CMSG_DATA(at) + i * sizeof(int), sizeof(int));
      UniqueFd came(number);
      if (!file.valid()) file = std::move(came);
    }
  }
  return heard == static_cast<ssize_t>(sizeof(message)) && (header.msg_flags & MSG_TRUNC) == 0;
}

bool Say(int client, const MemifMessage& message) {
  return send(client, &message, sizeof(message), MSG_DONTWAIT | MSG_NOSIGNAL) ==
         static_cast<ssize_t>(sizeof(message));
}

}  // namespace

absl::StatusOr<std::unique_ptr<MemifServer>> MemifServer::Listen(const std::string& socket,
                                                                 std::uint32_t id,
                                                                 const MemifShape& shape,
                                                                 rte_mempool* pool) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (socket.empty() || socket.size() >= sizeof(address.sun_path))
    return absl::InvalidArgumentError(fmt::format("the path of a socket has up to {} bytes: {}",
                                                  sizeof(address.sun_path) - 1, socket));
  std::memcpy(address.sun_path, socket.c_str(), socket.size());
  UniqueFd listener(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  UniqueFd end(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!listener.valid() || !end.valid()) return Failed("make", socket);
  // Bound under this mode, so that nobody connects before it is set by name.
  if (fchmod(listener.get(), S_IRUSR | S_IWUSR) != 0) return Failed("protect", socket);
  if (bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0)
    return Failed("bind", socket);
  if (listen(listener.get(), kBacklog) != 0) {
    unlink(socket.c_str());
    return Failed("listen at", socket);
  }
  return std::unique_ptr<MemifServer>(
      new MemifServer(socket, id, shape, pool, std::move(listener), std::move(end)));
}

MemifServer::MemifServer(std::string socket, std::uint32_t id, const MemifShape& shape,
                         rte_mempool* pool, UniqueFd listener, UniqueFd end)
    : socket_(std::move(socket)),
      id_(id),
      shape_(shape),
      pool_(pool),
      listener_(std::move(listener)),
      end_(std::move(end)),
      thread_([this] { Serve(); }) {}

MemifServer::~MemifServer() {
  (void)eventfd_write(end_.get(), 1);
  thread_.join();
  unlink(socket_.c_str());
}

std::uint16_t MemifServer::Receive(rte_mbuf** packets, std::uint16_t count) noexcept {
  if (!LinkUp() || rte_spinlock_trylock(&receiving_) == 0) return 0;
  const std::uint16_t received = memory_ ? memory_->Receive(packets, count, pool_) : 0;
  rte_spinlock_unlock(&receiving_);
  return received;
}

std::uint16_t MemifServer::Send(rte_mbuf** packets, std::uint16_t count) noexcept {
  if (!LinkUp() || rte_spinlock_trylock(&sending_) == 0) return 0;
  const std::uint16_t sent = memory_ ? memory_->Send(packets, count) : 0;
  rte_spinlock_unlock(&sending_);
  return sent;
}

std::uint32_t MemifServer::Room() noexcept {
  if (!LinkUp() || rte_spinlock_trylock(&sending_) == 0) return 0;
  const std::uint32_t room = memory_ ? memory_->Room() : 0;
  rte_spinlock_unlock(&sending_);
  return room;
}

// One client at a time; the next waits. Not more than a hundred a second, or one that comes and
// goes for ever would have the CPU.
void MemifServer::Serve() {
  pthread_setname_np(pthread_self(), "unis-memif");
  while (Wait(listener_)) {
    const UniqueFd client(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (client.valid()) Talk(client);
    Take(nullptr);
    nanosleep(&kBetweenClients, nullptr);
  }
}

void MemifServer::Talk(const UniqueFd& client) {
  MemifHandshake handshake(id_, shape_);
  if (!Say(client.get(), handshake.Hello())) return;
  while (Wait(client)) {
    MemifMessage message{};
    UniqueFd file;
    if (!Hear(client.get(), message, file)) return;
    const auto answer = handshake.Answer(message, file);
    // Before the client knows: what it then sends is received.
    if (auto memory = handshake.TakeMemory()) Take(std::move(memory));
    if (!answer || !Say(client.get(), *answer)) return;
    if (answer->type == MemifMessageType::kDisconnect) return;
  }
}

bool MemifServer::Wait(const UniqueFd& on) const {
  std::array<pollfd, 2> waiting = {{{.fd = end_.get(), .events = POLLIN, .revents = 0},
                                    {.fd = on.get(), .events = POLLIN, .revents = 0}}};
  while (poll(waiting.data(), waiting.size(), -1) < 0 && errno == EINTR) {
  }
  return waiting[0].revents == 0;
}

// The spinlocks are held for two assignments; who finds one taken comes again.
void MemifServer::Take(std::unique_ptr<MemifMemory> memory) {
  rte_spinlock_lock(&sending_);
  rte_spinlock_lock(&receiving_);
  std::swap(memory_, memory);
  up_.store(memory_ != nullptr, std::memory_order_release);
  rte_spinlock_unlock(&receiving_);
  rte_spinlock_unlock(&sending_);
}

}  // namespace unis
