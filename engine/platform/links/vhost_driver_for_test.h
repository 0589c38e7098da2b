// A virtio driver in plain system calls, which can be told to do wrong.
#pragma once

#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "engine/base/unique_fd.h"
#include "engine/platform/links/vhost_message.h"
#include "engine/platform/links/vhost_socket.h"

namespace unis {

class VhostDriverForTest {
 public:
  static constexpr std::size_t kBufferBytes = 2048, kHeaderBytes = 12;
  static constexpr std::uint64_t kUser = 0x5000'0000, kGuest = 0x7000'0000;
  using Request = VhostRequest;

  VhostDriverForTest(const std::string& socket, std::uint32_t slots)
      : slots_(slots), socket_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, socket.c_str(), socket.size());
    connected_ =
        connect(socket_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
    file_ = UniqueFd(memfd_create("driver", MFD_CLOEXEC));
    (void)ftruncate(file_.get(), static_cast<off_t>(Bytes()));
    memory_ = static_cast<std::byte*>(
        mmap(nullptr, Bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, file_.get(), 0));
  }
  ~VhostDriverForTest() { munmap(memory_, Bytes()); }
  VhostDriverForTest(const VhostDriverForTest&) = delete;
  VhostDriverForTest& operator=(const VhostDriverForTest&) = delete;

  bool connected() const { return connected_; }
  const UniqueFd& socket() const { return socket_; }
  const UniqueFd& file() const { return file_; }
  std::byte* memory() const { return memory_; }
  // Two queues, one behind the other, and behind them their buffers.
  std::size_t QueueBytes() const { return UsedAt() + (4 + 8 * slots_ + 63) / 64 * 64; }
  std::size_t Bytes() const {
    return (2 * QueueBytes() + 2 * slots_ * kBufferBytes + 4095) & ~4095;
  }

  static VhostMessage Of(Request request, std::uint32_t bytes = 0) {
    VhostMessage message{};
    message.request = request;
    message.flags = kVhostVersion;
    message.bytes = bytes;
    return message;
  }
  static VhostMessage Number(Request request, std::uint64_t number) {
    VhostMessage message = Of(request, sizeof(number));
    message.number = number;
    return message;
  }
  static VhostMessage Vring(Request request, std::uint32_t index, std::uint32_t number) {
    VhostMessage message = Of(request, sizeof(VhostMessage::Vring));
    message.vring = {.index = index, .number = number};
    return message;
  }
  VhostMessage Address(std::uint32_t index) const {
    VhostMessage message = Of(Request::kSetVringAddr, sizeof(VhostMessage::Address));
    const std::uint64_t at = kUser + index * QueueBytes();
    message.address = {.index = index,
                       .flags = 0,
                       .descriptors = at,
                       .used = at + UsedAt(),
                       .available = at + AvailableAt(),
                       .log = 0};
    return message;
  }
  VhostMessage Table() const {
    VhostMessage message = Of(Request::kSetMemTable, 8 + sizeof(VhostMessage::Region));
    message.table.count = 1;
    message.table.regions[0] = {.guest = kGuest, .bytes = Bytes(), .user = kUser, .offset = 0};
    message.flags |= kVhostNeedReply;
    return message;
  }

  bool Say(const VhostMessage& message, const std::vector<int>& files = {}) const {
    return SayVhost(socket_, message, files);
  }
  // What the device says next; its request is 0 if it hangs up.
  VhostMessage Hear() const {
    VhostMessage message{};
    const auto header = static_cast<ssize_t>(kVhostHeaderBytes);
    if (recv(socket_.get(), &message, kVhostHeaderBytes, MSG_WAITALL) != header ||
        recv(socket_.get(), &message.number, message.bytes, MSG_WAITALL) !=
            static_cast<ssize_t>(message.bytes))
      message.request = Request{};
    return message;
  }
  VhostMessage Ask(const VhostMessage& message, const std::vector<int>& files = {}) const {
    return Say(message, files) ? Hear() : VhostMessage{};
  }
  // As a right driver, but for what `change` does to each message; whether the device is content.
  template <typename Change>
  bool Start(Change change) const {
    const UniqueFd kick(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    const auto say = [&](VhostMessage message, const std::vector<int>& files = {}) {
      change(message);
      return Say(message, files);
    };
    say(Of(Request::kSetOwner));
    const VhostMessage features = Ask(Of(Request::kGetFeatures));
    if (features.request != Request::kGetFeatures) return false;
    if (Ask(Of(Request::kGetProtocolFeatures)).number != kVhostReplyAck) return false;
    say(Number(Request::kSetProtocolFeatures, kVhostReplyAck));
    for (const std::uint32_t queue : {0U, 1U})
      say(Number(Request::kSetVringCall, queue), {kick.get()});
    say(Number(Request::kSetFeatures, features.number));
    VhostMessage table = Table();
    change(table);
    const VhostMessage answer = Ask(table, {file_.get()});
    if (answer.request != Request::kSetMemTable || answer.number != 0) return false;
    for (const std::uint32_t queue : {0U, 1U}) {
      say(Vring(Request::kSetVringNum, queue, slots_));
      say(Vring(Request::kSetVringBase, queue, 0));
      say(Address(queue));
      say(Number(Request::kSetVringKick, queue), {kick.get()});
    }
    say(Vring(Request::kSetVringEnable, 0, 1));
    VhostMessage last = Vring(Request::kSetVringEnable, 1, 1);
    last.flags |= kVhostNeedReply;
    change(last);
    return Ask(last).request == Request::kSetVringEnable;
  }
  bool Start() const {
    return Start([](VhostMessage&) {});
  }

  // Makes buffer `slot` of a queue available, of so many bytes from its begin.
  void Offer(std::uint32_t queue, std::uint16_t slot, std::uint32_t bytes) const {
    const bool receives = queue == 0;
    std::byte* const at = memory_ + queue * QueueBytes();
    const std::uint64_t address = kGuest + BufferAt(queue, slot);
    const std::uint32_t flags = receives ? 2 : 0;
    std::memcpy(at + 16 * slot, &address, 8);
    std::memcpy(at + 16 * slot + 8, &bytes, 4);
    std::memcpy(at + 16 * slot + 12, &flags, 4);
    auto* const index = Index(queue, AvailableAt());
    std::memcpy(at + AvailableAt() + 4 + 2 * (*index % slots_), &slot, 2);
    __atomic_store_n(index, static_cast<std::uint16_t>(*index + 1), __ATOMIC_RELEASE);
  }
  std::byte* Buffer(std::uint32_t queue, std::uint16_t slot) const {
    return memory_ + BufferAt(queue, slot);
  }
  void Send(std::uint16_t slot, std::span<const std::uint8_t> bytes) const {
    std::memcpy(Buffer(1, slot) + kHeaderBytes, bytes.data(), bytes.size());
    Offer(1, slot, static_cast<std::uint32_t>(kHeaderBytes + bytes.size()));
  }
  std::uint16_t Used(std::uint32_t queue) const {
    return __atomic_load_n(Index(queue, UsedAt()), __ATOMIC_ACQUIRE);
  }
  std::uint32_t UsedBytes(std::uint32_t queue, std::uint16_t position) const {
    std::uint32_t bytes = 0;
    const std::size_t at = UsedAt() + 4 + 8 * (position % slots_) + 4;
    std::memcpy(&bytes, memory_ + queue * QueueBytes() + at, 4);
    return bytes;
  }

 private:
  std::size_t AvailableAt() const { return 16 * slots_; }
  std::size_t UsedAt() const { return AvailableAt() + (4 + 2 * slots_ + 63) / 64 * 64; }
  std::size_t BufferAt(std::uint32_t queue, std::uint16_t slot) const {
    return 2 * QueueBytes() + (queue * slots_ + slot) * kBufferBytes;
  }
  std::uint16_t* Index(std::uint32_t queue, std::size_t ring) const {
    return reinterpret_cast<std::uint16_t*>(memory_ + queue * QueueBytes() + ring + 2);
  }

  std::size_t slots_;
  UniqueFd socket_, file_;
  std::byte* memory_ = nullptr;
  bool connected_ = false;
};

}  // namespace unis
