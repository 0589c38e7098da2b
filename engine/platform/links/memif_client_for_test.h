// A memif's client in plain system calls, which can be told to do wrong.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <bit>
#include <cstring>
#include <string>

#include "engine/base/unique_fd.h"
#include "engine/platform/links/memif_message.h"
#include "engine/platform/links/memif_region.h"

namespace unis {

class MemifClientForTest {
 public:
  MemifClientForTest(const std::string& socket, const MemifShape& shape)
      : shape_(shape), socket_(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, socket.c_str(), socket.size());
    connected_ =
        connect(socket_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
    MakeMemory();
  }
  ~MemifClientForTest() {
    if (memory_ != MAP_FAILED) munmap(memory_, shape_.RegionBytes());
  }
  MemifClientForTest(const MemifClientForTest&) = delete;
  MemifClientForTest& operator=(const MemifClientForTest&) = delete;

  bool connected() const { return connected_; }
  int socket() const { return socket_.get(); }
  int file() const { return file_.get(); }
  std::byte* memory() const { return static_cast<std::byte*>(memory_); }

  void Say(const void* bytes, std::size_t size, int file = -1) const {
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    iovec part{.iov_base = const_cast<void*>(bytes), .iov_len = size};
    msghdr header{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    if (file >= 0) {
      header.msg_control = control;
      header.msg_controllen = sizeof(control);
      cmsghdr* const at = CMSG_FIRSTHDR(&header);
      at->cmsg_level = SOL_SOCKET;
      at->cmsg_type = SCM_RIGHTS;
      at->cmsg_len = CMSG_LEN(sizeof(int));
      std::memcpy(CMSG_DATA(at), &file, sizeof(int));
    }
    (void)sendmsg(socket_.get(), &header, MSG_NOSIGNAL);
  }
  // What the server says next; kDisconnect if it hangs up.
  MemifMessage Hear() const {
    MemifMessage message{};
    if (recv(socket_.get(), &message, sizeof(message), 0) != sizeof(message))
      message.type = MemifMessageType::kDisconnect;
    return message;
  }
  MemifMessage Ask(const MemifMessage& message, int file = -1) const {
    Say(&message, sizeof(message), file);
    return Hear();
  }

  MemifMessage Init() const {
    MemifMessage message = Of(MemifMessageType::kInit);
    message.init.version = kMemifVersion;
    return message;
  }
  MemifMessage Region() const {
    MemifMessage message = Of(MemifMessageType::kAddRegion);
    message.region.bytes = shape_.RegionBytes();
    return message;
  }
  MemifMessage Ring(bool to_server) const {
    MemifMessage message = Of(MemifMessageType::kAddRing);
    message.ring.flags = to_server ? kMemifToServer : 0;
    message.ring.offset = static_cast<std::uint32_t>(to_server ? 0 : shape_.RingBytes());
    message.ring.log2_slots = static_cast<std::uint8_t>(std::countr_zero(shape_.slots));
    return message;
  }
  static MemifMessage Of(MemifMessageType type) {
    MemifMessage message{};
    message.type = type;
    return message;
  }
  // As a right client; whether the server is content.
  bool ShakeHands() const {
    if (Hear().type != MemifMessageType::kHello) return false;
    for (const auto& [message, file] :
         {std::pair{Init(), -1}, std::pair{Region(), file_.get()},
          std::pair{Ring(true), file_.get()}, std::pair{Ring(false), file_.get()}})
      if (Ask(message, file).type != MemifMessageType::kAck) return false;
    return Ask(Of(MemifMessageType::kConnect)).type == MemifMessageType::kConnected;
  }

 private:
  void MakeMemory() {
    file_ = UniqueFd(memfd_create("client", MFD_ALLOW_SEALING | MFD_CLOEXEC));
    (void)ftruncate(file_.get(), static_cast<off_t>(shape_.RegionBytes()));
    (void)fcntl(file_.get(), F_ADD_SEALS, F_SEAL_SHRINK);
    memory_ =
        mmap(nullptr, shape_.RegionBytes(), PROT_READ | PROT_WRITE, MAP_SHARED, file_.get(), 0);
  }

  MemifShape shape_;
  UniqueFd socket_, file_;
  void* memory_ = MAP_FAILED;
  bool connected_ = false;
};

}  // namespace unis
