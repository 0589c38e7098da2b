#include "engine/platform/links/vhost_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace unis {
namespace {

using Request = VhostRequest;

constexpr std::uint64_t kFileQueueMask = 0xff;
// Before VIRTIO 1 the header lacks the number of buffers.
constexpr std::uint32_t kNewHeaderBytes = 12, kOldHeaderBytes = 10;

// What a message that a backend obeys has behind its header.
std::optional<std::uint32_t> LeastBytes(Request request) {
  switch (request) {
    case Request::kGetFeatures:
    case Request::kSetOwner:
    case Request::kResetOwner:
    case Request::kGetProtocolFeatures:
    case Request::kGetQueueNum:
      return 0;
    case Request::kSetFeatures:
    case Request::kSetProtocolFeatures:
    case Request::kSetVringKick:
    case Request::kSetVringCall:
    case Request::kSetVringErr:
      return sizeof(VhostMessage::number);
    case Request::kSetVringNum:
    case Request::kSetVringBase:
    case Request::kGetVringBase:
    case Request::kSetVringEnable:
      return sizeof(VhostMessage::Vring);
    case Request::kSetVringAddr:
      return sizeof(VhostMessage::Address);
    case Request::kSetMemTable:
      return 2 * sizeof(std::uint32_t);
  }
  return std::nullopt;
}

}  // namespace

void VhostDevice::Stop(const VhostQueues& queues) {
  vrings_[0].next = queues.to_driver.next();
  vrings_[1].next = queues.from_driver.next();
}

VhostMessage VhostDevice::AnswerTo(const VhostMessage& message, std::uint64_t number) {
  VhostMessage answer{};
  answer.request = message.request;
  answer.flags = kVhostVersion | kVhostReply;
  answer.bytes = sizeof(answer.number);
  answer.number = number;
  return answer;
}

absl::StatusOr<std::optional<VhostMessage>> VhostDevice::Answer(const VhostMessage& message,
                                                                std::vector<UniqueFd>&& files) {
  const std::optional<std::uint32_t> least = LeastBytes(message.request);
  if (!least || message.bytes < *least)
    return absl::InvalidArgumentError(
        fmt::format("a message of type {} with {} bytes is not of the protocol as it was agreed",
                    static_cast<std::uint32_t>(message.request), message.bytes));
  std::optional<VhostMessage> answer;
  if (auto status = Obey(message, std::move(files), answer); !status.ok()) return status;
  if (!answer && (message.flags & kVhostNeedReply) != 0) answer = AnswerTo(message, 0);
  return answer;
}

absl::Status VhostDevice::Obey(const VhostMessage& message, std::vector<UniqueFd>&& files,
                               std::optional<VhostMessage>& answer) {
  switch (message.request) {
    case Request::kGetFeatures:
      answer = AnswerTo(message, kFeatures);
      break;
    case Request::kGetProtocolFeatures:
      answer = AnswerTo(message, kVhostReplyAck);
      break;
    case Request::kGetQueueNum:
      answer = AnswerTo(message, 1);
      break;
    case Request::kSetFeatures:
      if ((message.number & ~kFeatures) != 0)
        return absl::InvalidArgumentError(
            fmt::format("features {:#x} that are not offered", message.number & ~kFeatures));
      features_ = message.number;
      break;
    case Request::kResetOwner:
      for (Vring& vring : vrings_) vring = Vring();
      most_offered_ = NothingOffered();
      break;
    case Request::kSetMemTable: {
      auto memory = VhostMemory::Map(message.table, files);
      if (!memory.ok()) return memory.status();
      memory_ = *std::move(memory);
      table_ = message.table;
      files_ = std::move(files);
      break;
    }
    case Request::kSetOwner:
    case Request::kSetProtocolFeatures:
      break;
    default:
      return ObeyVring(message, std::move(files), answer);
  }
  return absl::OkStatus();
}

absl::Status VhostDevice::ObeyVring(const VhostMessage& message, std::vector<UniqueFd>&& files,
                                    std::optional<VhostMessage>& answer) {
  const bool file = message.request == Request::kSetVringKick ||
                    message.request == Request::kSetVringCall ||
                    message.request == Request::kSetVringErr;
  // Messages about a queue begin with its number, beside which those with a descriptor have a flag.
  const std::uint64_t at = file ? message.number & kFileQueueMask : message.vring.index;
  if (at >= kQueues) return absl::InvalidArgumentError(fmt::format("queue {} of 2", at));
  Vring& vring = vrings_[at];
  const std::uint32_t number = message.vring.number;
  switch (message.request) {
    case Request::kSetVringNum:
      if (number != slots_)
        return absl::InvalidArgumentError(
            fmt::format("a queue of {} descriptors on a link of {} slots", number, slots_));
      vring.sized = true;
      break;
    case Request::kSetVringAddr:
      vring.address = message.address;
      break;
    case Request::kSetVringBase:
      vring.next = static_cast<std::uint16_t>(number);
      break;
    case Request::kGetVringBase:
      vring.kicked = false;
      if (at == 0) most_offered_ = NothingOffered();  // it may start with others
      answer = AnswerTo(message, 0);
      answer->vring = {.index = static_cast<std::uint32_t>(at), .number = vring.next};
      break;
    case Request::kSetVringKick:
      vring.kicked = true;
      vring.kick = files.empty() ? UniqueFd() : std::move(files[0]);
      break;
    case Request::kSetVringCall:
      vring.call = files.empty() ? UniqueFd() : std::move(files[0]);
      break;
    case Request::kSetVringEnable:
      vring.enabled = number != 0;
      break;
    default:
      break;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<VhostQueues>> VhostDevice::Queues() const {
  // Queues have to be enabled only where features of the protocol were agreed on.
  const bool enabled = (features_ & kVhostProtocolFeatures) == 0;
  const bool started = std::ranges::all_of(vrings_, [&](const Vring& vring) {
    return vring.sized && vring.address && vring.kicked && (vring.enabled || enabled);
  });
  if (!started || !memory_) return nullptr;
  auto to_driver = QueueAt(0), from_driver = QueueAt(1);
  for (const auto* queue : {&to_driver, &from_driver})
    if (!queue->ok()) return queue->status();
  auto queues =
      std::make_shared<VhostQueues>(*std::move(to_driver), *std::move(from_driver), most_offered_);
  (void)queues->Buffers();  // before a device may put packets there
  return queues;
}

std::vector<VhostDevice::Order> VhostDevice::Orders() const {
  std::vector<Order> orders;
  const auto add = [&](Request request, std::uint32_t bytes, bool answered = false) {
    Order& order = orders.emplace_back();
    order.message.request = request;
    order.message.flags = kVhostVersion | (answered && bytes > 0 ? kVhostNeedReply : 0);
    order.message.bytes = bytes;
    order.answered = answered;
    return &order;
  };
  const auto number = [&](Request request, std::uint64_t value) {
    add(request, sizeof(value))->message.number = value;
  };
  const auto vring = [&](Request request, std::uint32_t at, std::uint32_t value, bool answered) {
    add(request, sizeof(VhostMessage::Vring), answered)->message.vring = {.index = at,
                                                                          .number = value};
  };
  const auto file = [&](Request request, std::uint32_t at, const UniqueFd& descriptor) {
    Order& order = *add(request, sizeof(VhostMessage::number));
    order.message.number = at | (descriptor.valid() ? 0 : kVhostNoFile);
    if (descriptor.valid()) order.files.push_back(descriptor.get());
  };
  add(Request::kSetOwner, 0);
  add(Request::kGetFeatures, 0, true);
  add(Request::kGetProtocolFeatures, 0, true);
  number(Request::kSetProtocolFeatures, kVhostReplyAck);
  for (std::uint32_t at = 0; at < kQueues; ++at) file(Request::kSetVringCall, at, vrings_[at].call);
  number(Request::kSetFeatures, features_);
  Order& table = *add(Request::kSetMemTable,
                      static_cast<std::uint32_t>(2 * sizeof(std::uint32_t) +
                                                 table_.count * sizeof(VhostMessage::Region)),
                      true);
  table.message.table = table_;
  for (const UniqueFd& of_region : files_) table.files.push_back(of_region.get());
  for (std::uint32_t at = 0; at < kQueues; ++at) {
    const Vring& known = vrings_[at];
    vring(Request::kSetVringNum, at, slots_, false);
    vring(Request::kSetVringBase, at, known.next, false);
    add(Request::kSetVringAddr, sizeof(VhostMessage::Address))->message.address = *known.address;
    file(Request::kSetVringKick, at, known.kick);
  }
  for (std::uint32_t at = 0; at < kQueues; ++at)
    vring(Request::kSetVringEnable, at, 1, at == kQueues - 1);
  return orders;
}

absl::StatusOr<VhostQueue> VhostDevice::QueueAt(std::size_t number) const {
  const Vring& vring = vrings_[number];
  const bool old = (features_ & kVirtioVersion1) == 0;
  return VhostQueue::At(memory_, *vring.address, slots_, old ? kOldHeaderBytes : kNewHeaderBytes,
                        vring.next);
}

}  // namespace unis
