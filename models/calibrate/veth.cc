#include "models/calibrate/veth.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <sched.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>

namespace unis {
namespace {

constexpr std::uint16_t kEtherType = 0x88b5;  // for experiments, IEEE 802
constexpr std::size_t kEthernetHeader = 14, kLargestFrame = 2048;
constexpr int kSocketBytes = 8 << 20;  // each frame of 1514 B takes 2304

absl::Status Failed(const char* what) {
  return absl::FailedPreconditionError(fmt::format(
      "{}: {}{}", what, strerror(errno), errno == EPERM ? "; needs root (CAP_SYS_ADMIN)" : ""));
}

absl::Status Ip(std::vector<const char*> words) {
  words.insert(words.begin(), "ip");
  words.push_back(nullptr);
  pid_t child = 0;
  // posix_spawn takes what execv takes, and changes none of it.
  const int error =
      posix_spawnp(&child, "ip", nullptr, nullptr, const_cast<char* const*>(words.data()), environ);
  if (error != 0)
    return absl::FailedPreconditionError(fmt::format("cannot run ip: {}", strerror(error)));
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (status != 0) return absl::FailedPreconditionError("ip cannot make a pair of veth devices");
  return absl::OkStatus();
}

absl::StatusOr<UniqueFd> Socket(std::uint16_t protocol, unsigned interface) {
  UniqueFd made(socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!made.valid()) return Failed("cannot make a packet socket");
  sockaddr_ll address{};
  address.sll_family = AF_PACKET;
  address.sll_protocol = htons(protocol);
  address.sll_ifindex = static_cast<int>(interface);
  if (bind(made.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0)
    return Failed("cannot bind a packet socket");
  for (const int option : {SO_RCVBUFFORCE, SO_SNDBUFFORCE})
    if (setsockopt(made.get(), SOL_SOCKET, option, &kSocketBytes, sizeof(kSocketBytes)) != 0)
      return Failed("cannot give a packet socket its buffers");
  return made;
}

}  // namespace

absl::StatusOr<VethPair> VethPair::Make() {
  UniqueFd before(open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC));
  if (!before.valid()) return Failed("cannot open the network namespace");
  if (unshare(CLONE_NEWNET) != 0) return Failed("cannot make a network namespace");
  VethPair pair(std::move(before));  // goes back from now on
  // Else the kernel sends frames of its own.
  std::ofstream("/proc/sys/net/ipv6/conf/default/disable_ipv6") << 1;
  if (absl::Status made = Ip({"link", "add", "u0", "up", "type", "veth", "peer", "name", "u1"});
      !made.ok())
    return made;
  if (absl::Status up = Ip({"link", "set", "u1", "up"}); !up.ok()) return up;
  pair.first_ = if_nametoindex("u0");
  pair.second_ = if_nametoindex("u1");
  return pair;
}

VethPair::~VethPair() {
  if (before_.valid()) (void)setns(before_.get(), CLONE_NEWNET);
}

absl::StatusOr<FrameWay> FrameWay::Open(const VethPair& pair, bool bypass) {
  auto sender = Socket(0, pair.first());
  if (!sender.ok()) return sender.status();
  auto receiver = Socket(kEtherType, pair.second());
  if (!receiver.ok()) return receiver.status();
  const int on = bypass ? 1 : 0;
  if (setsockopt(sender->get(), SOL_PACKET, PACKET_QDISC_BYPASS, &on, sizeof(on)) != 0)
    return Failed("cannot bypass the queueing discipline");
  return FrameWay(*std::move(sender), *std::move(receiver));
}

Batches::Batches(std::size_t frames, std::size_t frame_bytes, unsigned batch)
    : frames_(frames), batch_(batch) {
  const std::size_t several = std::max(1U, batch);
  bytes_.resize(frame_bytes + several * kLargestFrame);
  std::fill_n(bytes_.begin(), 6, 0xff);  // to all
  bytes_[6] = 2;                         // from an address of nobody
  bytes_[kEthernetHeader - 2] = kEtherType >> 8;
  bytes_[kEthernetHeader - 1] = kEtherType & 0xff;
  sent_.assign(several, {bytes_.data(), frame_bytes});
  for (std::size_t i = 0; i < several; ++i)
    received_.push_back({bytes_.data() + frame_bytes + i * kLargestFrame, kLargestFrame});
  headers_.resize(several);
}

std::size_t Batches::Send(int socket) {
  std::size_t done = 0;
  for (std::size_t i = 0; i < headers_.size(); ++i)
    headers_[i].msg_hdr = {.msg_name = nullptr,
                           .msg_namelen = 0,
                           .msg_iov = &sent_[i],
                           .msg_iovlen = 1,
                           .msg_control = nullptr,
                           .msg_controllen = 0,
                           .msg_flags = 0};
  while (done < frames_) {
    const int sent =
        batch_ == 0
            ? (send(socket, sent_[0].iov_base, sent_[0].iov_len, 0) > 0 ? 1 : 0)
            : sendmmsg(socket, headers_.data(),
                       static_cast<unsigned>(std::min<std::size_t>(batch_, frames_ - done)), 0);
    if (sent <= 0) break;
    done += static_cast<std::size_t>(sent);
  }
  return done;
}

std::size_t Batches::Receive(int socket) {
  std::size_t done = 0;
  for (std::size_t i = 0; i < headers_.size(); ++i) {
    headers_[i].msg_hdr.msg_iov = &received_[i];
    headers_[i].msg_hdr.msg_iovlen = 1;
  }
  while (done < frames_) {
    const int received =
        batch_ == 0
            ? (recv(socket, received_[0].iov_base, received_[0].iov_len, MSG_DONTWAIT) > 0 ? 1 : 0)
            : recvmmsg(socket, headers_.data(),
                       static_cast<unsigned>(std::min<std::size_t>(batch_, frames_ - done)),
                       MSG_DONTWAIT, nullptr);
    if (received <= 0) break;
    done += static_cast<std::size_t>(received);
  }
  return done;
}

}  // namespace unis
