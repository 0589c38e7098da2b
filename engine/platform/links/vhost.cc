#include "engine/platform/links/vhost.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "engine/platform/links/kinds.h"
#include "engine/platform/packet_memory.h"

namespace unis {

// The driver counts in its own memory what it offers, and the device there what it used: of what
// the driver sends the difference waits, and of what it receives the difference is room.
Occupancy VhostLink::occupancy(unsigned direction) const {
  if (!queues_) return Occupancy::Unreadable(slots_);
  return direction == 0 ? queues_->from_driver.Sent() : queues_->to_driver.Received(buffers_);
}

// Only once the driver's program has started its port it offers buffers, all at once, and as many
// as it asked for descriptors. Its chains are closed meanwhile. Later, after a message of the
// driver's or a new device, packets may wait there when it is looked at.
absl::StatusOr<std::unique_ptr<Link::Found>> VhostLink::Find(pid_t pid, unsigned end) const {
  auto found = std::make_unique<Located>();
  found->queues = server_ ? server_->queues() : relay_->queues();
  if (queues_ && found->queues == queues_) return nullptr;
  if (found->queues) found->buffers = found->queues->Buffers();
  if (found->buffers == 0 || (end == 0 && !relay_->carries()))
    return absl::NotFoundError(fmt::format(
        "link {}: process {} or the one at the other end has not started its port", name_, pid));
  return found;
}

void VhostLink::Take(std::unique_ptr<Found> found) {
  Forget(1);
  auto& located = static_cast<Located&>(*found);
  queues_ = std::move(located.queues);
  buffers_ = located.buffers;
}

void VhostLink::Forget(unsigned) {
  if (queues_) replaced_.push_back(std::exchange(queues_, nullptr));
}

namespace {

class VhostLinks final : public LinkKind {
 public:
  std::string name() const override { return "vhost"; }
  bool in_group() const override { return false; }
  v1::LinkConfig::SettingsCase settings() const override { return v1::LinkConfig::kVhost; }
  bool engine_has_end(const v1::LinkConfig& config) const override {
    return config.vhost().device_socket().empty();
  }
  std::uint32_t packets(const v1::LinkConfig&) const override { return 2 * kBurst; }
  absl::Status Check(const v1::LinkConfig& config, bool foreign) const override {
    if (foreign) return WrongLink(config, "is a vhost, which cannot be foreign");
    if (!config.has_slots()) return WrongLink(config, "has no slots");
    if (config.vhost().driver_socket().empty()) return WrongLink(config, "has no socket");
    if (std::has_single_bit(config.slots()) && config.slots() <= VhostQueue::kMostSlots)
      return absl::OkStatus();
    return WrongLink(config, fmt::format("is a vhost: it has a power of two of slots, at most {}",
                                         VhostQueue::kMostSlots));
  }
  absl::StatusOr<std::unique_ptr<Link>> Make(const v1::LinkConfig& config, bool,
                                             rte_mempool* pool) const override {
    const v1::Vhost& at = config.vhost();
    if (!engine_has_end(config)) {
      auto relay = VhostRelay::Listen(at.driver_socket(), at.device_socket(), config.slots());
      if (!relay.ok()) return WrongLink(config, std::string(relay.status().message()));
      return std::make_unique<VhostLink>(config.name(), config.slots(), *std::move(relay));
    }
    auto server = VhostServer::Listen(at.driver_socket(), config.slots(), pool);
    if (!server.ok()) return WrongLink(config, std::string(server.status().message()));
    return std::make_unique<VhostLink>(config.name(), config.slots(), *std::move(server));
  }
};

}  // namespace

const LinkKind& VhostKind() {
  static const VhostLinks kind;
  return kind;
}

}  // namespace unis
