// A vhost-user link between two functions: one is the driver, and has the queues in its memory, the
// other the device, which works on them. The engine is between the two while they come to know each
// other, and passes no packet: to the driver it is the device, and to the device the driver.
//
// So both only ever connect to the engine, which is always there. Whichever dies, the other stays
// as it is: the next one is told what the engine knows. And the engine knows where the queues are,
// so it can tell how full they are.
#pragma once

#include <absl/status/statusor.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "engine/base/unique_fd.h"
#include "engine/platform/links/peer_socket.h"
#include "engine/platform/links/vhost_device.h"
#include "engine/platform/links/vhost_queue.h"
#include "engine/platform/links/vhost_socket.h"

namespace unis {

class VhostRelay {
 public:
  // Listens at both paths, which only their owner may connect to.
  static absl::StatusOr<std::unique_ptr<VhostRelay>> Listen(const std::string& driver_socket,
                                                            const std::string& device_socket,
                                                            std::uint32_t slots);
  ~VhostRelay();
  VhostRelay(const VhostRelay&) = delete;
  VhostRelay& operator=(const VhostRelay&) = delete;

  // To look at. Null: the driver has not started them.
  std::shared_ptr<const VhostQueues> queues() const;
  bool carries() const noexcept { return carries_.load(std::memory_order_acquire); }

 private:
  struct Side {
    std::string path;
    UniqueFd listener;
    UniqueFd peer = UniqueFd();  // one at a time; the next waits
    bool told = false;           // that none can be taken
    const UniqueFd& waits_for() const { return peer.valid() ? peer : listener; }
  };

  VhostRelay(Side driver, Side device, std::uint32_t slots, UniqueFd end);
  void Serve();  // the thread
  static bool Accept(Side& side);
  void LookAtDriver();
  void LookAtDevice();
  bool Obey();  // what the driver says; false: it is to be sent away
  void SendDriverAway();
  void SendDeviceAway();
  void StartDevice();
  void StopDevice();
  bool Tell(const VhostDevice::Order& order);
  void Set(std::shared_ptr<VhostQueues> queues);

  const std::uint32_t slots_;
  Side driver_, device_;
  UniqueFd end_;
  std::optional<VhostDevice> known_;  // what the driver has said
  VhostLog log_;
  mutable std::mutex mutex_;  // of queues_
  std::shared_ptr<VhostQueues> queues_;
  std::atomic<bool> carries_ = false;
  std::thread thread_;
};

}  // namespace unis
