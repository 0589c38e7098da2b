// What the backend of a vhost-user link knows of the device that its frontend drives, and what it
// answers. The device has one queue each way and takes no offload.
#pragma once

#include <absl/status/statusor.h>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "engine/base/unique_fd.h"
#include "engine/platform/links/vhost_memory.h"
#include "engine/platform/links/vhost_message.h"
#include "engine/platform/links/vhost_queue.h"

namespace unis {

class VhostDevice {
 public:
  static constexpr std::uint64_t kFeatures =
      kVirtioPromiscuous | kVirtioVersion1 | kVirtioInOrder | kVhostProtocolFeatures;
  static constexpr std::size_t kQueues = 2;  // the driver receives by 0 and sends by 1

  explicit VhostDevice(std::uint32_t slots) : slots_(slots) {}

  // Nobody works on the queues from Stop() to Queues().
  void Stop(const VhostQueues& queues);
  // The answer, if the message wants one. An error: the frontend is sent away.
  absl::StatusOr<std::optional<VhostMessage>> Answer(const VhostMessage& message,
                                                     std::vector<UniqueFd>&& files);
  // Those that may be worked on; null: the frontend has not started all yet.
  absl::StatusOr<std::shared_ptr<VhostQueues>> Queues() const;

  // What tells another backend all that this one knows, in this order. Only while there are queues.
  struct Order {
    VhostMessage message;
    std::vector<int> files;  // valid as long as the device is told nothing
    bool answered;
  };
  std::vector<Order> Orders() const;

 private:
  struct Vring {
    std::optional<VhostMessage::Address> address;
    std::uint16_t next = 0;
    bool sized = false, kicked = false, enabled = false;
    UniqueFd kick, call;
  };

  absl::Status Obey(const VhostMessage& message, std::vector<UniqueFd>&& files,
                    std::optional<VhostMessage>& answer);
  absl::Status ObeyVring(const VhostMessage& message, std::vector<UniqueFd>&& files,
                         std::optional<VhostMessage>& answer);
  static std::shared_ptr<std::atomic<std::uint32_t>> NothingOffered() {
    return std::make_shared<std::atomic<std::uint32_t>>(0);
  }
  static VhostMessage AnswerTo(const VhostMessage& message, std::uint64_t number);
  absl::StatusOr<VhostQueue> QueueAt(std::size_t number) const;

  const std::uint32_t slots_;
  std::uint64_t features_ = 0;
  std::shared_ptr<const VhostMemory> memory_;
  VhostMessage::Table table_ = {};
  std::vector<UniqueFd> files_;  // of the table
  std::array<Vring, kQueues> vrings_;
  std::shared_ptr<std::atomic<std::uint32_t>> most_offered_ = NothingOffered();  // see VhostQueues
};

}  // namespace unis
