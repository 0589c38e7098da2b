// A link that is vhost-user: virtqueues in the memory of a function, a virtio driver, both ways, by
// copying. The device is the engine, or another function.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/monitor/occupancy.h"
#include "engine/platform/links/link.h"
#include "engine/platform/links/vhost_relay.h"
#include "engine/platform/links/vhost_server.h"

namespace unis {

class VhostLink final : public Link {
 public:
  VhostLink(std::string name, std::uint32_t slots, std::unique_ptr<VhostServer> server)
      : name_(std::move(name)), slots_(slots), server_(std::move(server)) {}
  VhostLink(std::string name, std::uint32_t slots, std::unique_ptr<VhostRelay> relay)
      : name_(std::move(name)), slots_(slots), relay_(std::move(relay)) {}

  LinkEnd* end() noexcept override { return server_.get(); }
  Occupancy occupancy(unsigned direction) const override;
  // Between two functions the device alone knows.
  std::uint64_t Dropped(unsigned direction) override {
    return server_ ? server_->dropped(direction) : 0;
  }
  absl::StatusOr<std::unique_ptr<Found>> Find(pid_t pid, unsigned end) const override;
  void Take(std::unique_ptr<Found> found) override;
  void Forget(unsigned end) override;
  void DropReplaced() override { replaced_.clear(); }

 private:
  struct Located final : Found {
    std::shared_ptr<const VhostQueues> queues;
    std::uint32_t buffers = 0;  // that the driver offers while no packet waits
  };

  const std::string name_;
  const std::uint32_t slots_;
  std::unique_ptr<VhostServer> server_;        // null: two functions have the ends
  std::unique_ptr<VhostRelay> relay_;          // null: the engine has one
  std::shared_ptr<const VhostQueues> queues_;  // null: they cannot be read
  std::uint32_t buffers_ = 0;                  // of them
  std::vector<std::shared_ptr<const VhostQueues>> replaced_;
};

}  // namespace unis
