#include "engine/platform/links/vhost_relay.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <ctime>
#include <utility>
#include <vector>

namespace unis {
namespace {

using Request = VhostRequest;

constexpr int kAnswerMs = 1000;  // for an answer of the device's
constexpr timespec kBetweenPeers{.tv_sec = 0, .tv_nsec = 10'000'000};

bool SaysSomething(const UniqueFd& peer, int patience_ms) {
  pollfd waiting{.fd = peer.get(), .events = POLLIN, .revents = 0};
  return poll(&waiting, 1, patience_ms) > 0;
}

}  // namespace

absl::StatusOr<std::unique_ptr<VhostRelay>> VhostRelay::Listen(const std::string& driver_socket,
                                                               const std::string& device_socket,
                                                               std::uint32_t slots) {
  UniqueFd end(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!end.valid()) return absl::InternalError("cannot make an eventfd");
  auto driver = ListenForPeer(driver_socket, SOCK_STREAM);
  if (!driver.ok()) return driver.status();
  auto device = ListenForPeer(device_socket, SOCK_STREAM);
  if (!device.ok()) {
    unlink(driver_socket.c_str());
    return device.status();
  }
  return std::unique_ptr<VhostRelay>(new VhostRelay(
      {.path = driver_socket, .listener = *std::move(driver)},
      {.path = device_socket, .listener = *std::move(device)}, slots, std::move(end)));
}

VhostRelay::VhostRelay(Side driver, Side device, std::uint32_t slots, UniqueFd end)
    : slots_(slots),
      driver_(std::move(driver)),
      device_(std::move(device)),
      end_(std::move(end)),
      thread_([this] { Serve(); }) {}

VhostRelay::~VhostRelay() {
  (void)eventfd_write(end_.get(), 1);
  thread_.join();
  unlink(driver_.path.c_str());
  unlink(device_.path.c_str());
}

std::shared_ptr<const VhostQueues> VhostRelay::queues() const {
  const std::lock_guard lock(mutex_);
  return queues_;
}

void VhostRelay::Set(std::shared_ptr<VhostQueues> queues) {
  const std::lock_guard lock(mutex_);
  queues_.swap(queues);
}

void VhostRelay::Serve() {
  pthread_setname_np(pthread_self(), "unis-vhost");
  for (;;) {
    std::array<pollfd, 3> waiting = {
        {{.fd = end_.get(), .events = POLLIN, .revents = 0},
         {.fd = driver_.waits_for().get(), .events = POLLIN, .revents = 0},
         {.fd = device_.waits_for().get(), .events = POLLIN, .revents = 0}}};
    if (poll(waiting.data(), waiting.size(), -1) < 0 && errno != EINTR) return;
    if (waiting[0].revents != 0) return;
    if (waiting[1].revents != 0) LookAtDriver();
    if (waiting[2].revents != 0) LookAtDevice();
  }
}

// Who cannot be taken still waits at the next poll().
bool VhostRelay::Accept(Side& side) {
  side.peer = AcceptPeer(side.listener, side.path, side.told);
  if (!side.peer.valid()) nanosleep(&kBetweenPeers, nullptr);
  return side.peer.valid();
}

void VhostRelay::LookAtDriver() {
  if (driver_.peer.valid()) {
    if (!Obey()) SendDriverAway();
    return;
  }
  if (Accept(driver_)) known_.emplace(slots_);
}

// A device says nothing unasked: it has gone, if it is not a new one.
void VhostRelay::LookAtDevice() {
  if (device_.peer.valid()) {
    if (SaysSomething(device_.peer, 0)) SendDeviceAway();
    return;
  }
  if (Accept(device_)) StartDevice();
}

// The device holds the driver's memory as long as it is connected.
void VhostRelay::SendDriverAway() {
  SendDeviceAway();
  Set(nullptr);
  known_.reset();
  driver_.peer = UniqueFd();
  nanosleep(&kBetweenPeers, nullptr);
}

void VhostRelay::SendDeviceAway() {
  carries_ = false;
  device_.peer = UniqueFd();
  nanosleep(&kBetweenPeers, nullptr);
}

// Whatever the driver says, the device does not work on its queues while it is obeyed: it may
// change them.
bool VhostRelay::Obey() {
  VhostMessage message{};
  std::vector<UniqueFd> files;
  if (!HearVhost(driver_.peer, message, files)) return false;
  StopDevice();
  const auto answer = known_->Answer(message, std::move(files));
  const auto queues = answer.ok() ? known_->Queues() : answer.status();
  if (!queues.ok()) {
    log_.SentAway(driver_.path, queues.status());
    return false;
  }
  Set(*queues);
  StartDevice();
  return !*answer || SayVhost(driver_.peer, **answer);
}

void VhostRelay::StartDevice() {
  if (!queues_ || !device_.peer.valid()) return;
  queues_->to_driver.TakeUp();
  queues_->from_driver.TakeUp();
  known_->Stop(*queues_);
  for (const VhostDevice::Order& order : known_->Orders()) {
    if (Tell(order)) continue;
    SendDeviceAway();
    return;
  }
  carries_ = true;
}

void VhostRelay::StopDevice() {
  if (!carries_.exchange(false)) return;
  for (std::uint32_t at = 0; at < VhostDevice::kQueues; ++at) {
    VhostDevice::Order order{.message = {}, .files = {}, .answered = true};
    order.message.request = Request::kGetVringBase;
    order.message.flags = kVhostVersion;
    order.message.bytes = sizeof(order.message.vring);
    order.message.vring = {.index = at, .number = 0};
    if (Tell(order)) continue;
    SendDeviceAway();
    break;
  }
  queues_->to_driver.TakeUp();
  queues_->from_driver.TakeUp();
  known_->Stop(*queues_);
}

// False: the device does not obey.
bool VhostRelay::Tell(const VhostDevice::Order& order) {
  if (!SayVhost(device_.peer, order.message, order.files)) return false;
  if (!order.answered) return true;
  VhostMessage answer{};
  std::vector<UniqueFd> files;
  if (!SaysSomething(device_.peer, kAnswerMs) || !HearVhost(device_.peer, answer, files))
    return false;
  if (answer.request != order.message.request || (answer.flags & kVhostReply) == 0) return false;
  switch (order.message.request) {
    case Request::kGetFeatures:
      return (VhostDevice::kFeatures & ~answer.number) == 0;
    case Request::kGetProtocolFeatures:
      return (answer.number & kVhostReplyAck) != 0;
    case Request::kGetVringBase:
      return true;
    default:
      return answer.number == 0;
  }
}

}  // namespace unis
