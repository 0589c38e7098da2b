#include "engine/platform/links/memif_server.h"

#include <sys/socket.h>

#include <array>
#include <utility>
#include <vector>

#include "engine/platform/links/memif_handshake.h"

namespace unis {
namespace {

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
  std::vector<UniqueFd> came;
  TakeFiles(header, came);
  if (!came.empty()) file = std::move(came.front());
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
  auto peers = PeerServer::Listen(socket, SOCK_SEQPACKET);
  if (!peers.ok()) return peers.status();
  return std::unique_ptr<MemifServer>(new MemifServer(id, shape, pool, *std::move(peers)));
}

MemifServer::MemifServer(std::uint32_t id, const MemifShape& shape, rte_mempool* pool,
                         std::unique_ptr<PeerServer> peers)
    : id_(id), shape_(shape), pool_(pool), peers_(std::move(peers)) {
  peers_->Start("unis-memif", [this](const UniqueFd& client) {
    Talk(client);
    Take(nullptr);
  });
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

void MemifServer::Talk(const UniqueFd& client) {
  MemifHandshake handshake(id_, shape_);
  if (!Say(client.get(), handshake.Hello())) return;
  while (peers_->Wait(client)) {
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
