#include "engine/platform/links/vhost_server.h"

#include <sys/socket.h>

#include <utility>
#include <vector>

namespace unis {

absl::StatusOr<std::unique_ptr<VhostServer>> VhostServer::Listen(const std::string& socket,
                                                                 std::uint32_t slots,
                                                                 rte_mempool* pool) {
  auto peers = PeerServer::Listen(socket, SOCK_STREAM);
  if (!peers.ok()) return peers.status();
  return std::unique_ptr<VhostServer>(new VhostServer(slots, pool, *std::move(peers)));
}

VhostServer::VhostServer(std::uint32_t slots, rte_mempool* pool, std::unique_ptr<PeerServer> peers)
    : slots_(slots), pool_(pool), peers_(std::move(peers)) {
  peers_->Start("unis-vhost", [this](const UniqueFd& driver) {
    Talk(driver);
    Exchange(nullptr);
  });
}

std::uint16_t VhostServer::Receive(rte_mbuf** packets, std::uint16_t count) noexcept {
  if (!LinkUp() || rte_spinlock_trylock(&receiving_) == 0) return 0;
  const std::uint16_t received =
      queues_ ? queues_->from_driver.Receive(packets, count, pool_, from_driver_dropped_)
              : std::uint16_t{0};
  rte_spinlock_unlock(&receiving_);
  return received;
}

std::uint16_t VhostServer::Send(rte_mbuf** packets, std::uint16_t count) noexcept {
  if (!LinkUp() || rte_spinlock_trylock(&sending_) == 0) return 0;
  const std::uint16_t sent =
      queues_ ? queues_->to_driver.Send(packets, count, to_driver_dropped_) : std::uint16_t{0};
  rte_spinlock_unlock(&sending_);
  return sent;
}

std::uint32_t VhostServer::Room() noexcept {
  if (!LinkUp() || rte_spinlock_trylock(&sending_) == 0) return 0;
  const std::uint32_t room = queues_ ? queues_->to_driver.Offered() : 0;
  rte_spinlock_unlock(&sending_);
  return room;
}

std::shared_ptr<const VhostQueues> VhostServer::queues() noexcept {
  rte_spinlock_lock(&sending_);
  std::shared_ptr<const VhostQueues> queues = queues_;
  rte_spinlock_unlock(&sending_);
  return queues;
}

// Whatever the driver says, nobody works on its queues while it is obeyed: it may change them.
void VhostServer::Talk(const UniqueFd& driver) {
  VhostDevice device(slots_);
  while (peers_->Wait(driver)) {
    VhostMessage message{};
    std::vector<UniqueFd> files;
    if (!HearVhost(driver, message, files)) return;
    if (const auto stopped = Exchange(nullptr)) device.Stop(*stopped);
    const auto answer = device.Answer(message, std::move(files));
    const auto queues = answer.ok() ? device.Queues() : answer.status();
    if (!queues.ok()) {
      log_.SentAway(socket(), queues.status());
      return;
    }
    if (*queues) {
      (*queues)->from_driver.LookByOurselves();
      (*queues)->to_driver.LookByOurselves();
    }
    Exchange(*queues);
    if (*answer && !SayVhost(driver, **answer)) return;
  }
}

// The spinlocks are held for two assignments; who finds one taken comes again.
std::shared_ptr<VhostQueues> VhostServer::Exchange(std::shared_ptr<VhostQueues> queues) {
  rte_spinlock_lock(&sending_);
  rte_spinlock_lock(&receiving_);
  std::swap(queues_, queues);
  up_.store(queues_ != nullptr, std::memory_order_release);
  rte_spinlock_unlock(&receiving_);
  rte_spinlock_unlock(&sending_);
  return queues;
}

}  // namespace unis
