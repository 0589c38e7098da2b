#include "engine/platform/links/vhost_socket.h"

#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <utility>

#include "engine/platform/links/peer_socket.h"

namespace unis {
namespace {

constexpr int kRestOfMessageMs = 1000;  // for the rest of a message
constexpr std::size_t kControlBytes = CMSG_SPACE(sizeof(int) * kVhostMostRegions);

// Descriptors come with the first byte of a message.
bool HearBytes(const UniqueFd& peer, std::byte* into, std::size_t bytes,
               std::vector<UniqueFd>& files) {
  while (bytes > 0) {
    alignas(cmsghdr) std::array<char, kControlBytes> control{};
    iovec part{.iov_base = into, .iov_len = bytes};
    msghdr header{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = control.data();
    header.msg_controllen = control.size();
    const ssize_t heard = recvmsg(peer.get(), &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (heard > 0) {
      TakeFiles(header, files);
      if ((header.msg_flags & MSG_CTRUNC) != 0) return false;
      into += heard;
      bytes -= static_cast<std::size_t>(heard);
      continue;
    }
    if (heard == 0 || (errno != EAGAIN && errno != EINTR)) return false;
    pollfd waiting{.fd = peer.get(), .events = POLLIN, .revents = 0};
    if (poll(&waiting, 1, kRestOfMessageMs) == 0) return false;
  }
  return files.size() <= kVhostMostRegions;
}

}  // namespace

bool HearVhost(const UniqueFd& peer, VhostMessage& message, std::vector<UniqueFd>& files) {
  message = {};
  auto* const into = reinterpret_cast<std::byte*>(&message);
  if (!HearBytes(peer, into, kVhostHeaderBytes, files)) return false;
  if ((message.flags & kVhostVersionMask) != kVhostVersion ||
      message.bytes > sizeof(message) - kVhostHeaderBytes)
    return false;
  return HearBytes(peer, into + kVhostHeaderBytes, message.bytes, files);
}

bool SayVhost(const UniqueFd& peer, const VhostMessage& message, std::span<const int> files) {
  const std::size_t bytes = kVhostHeaderBytes + message.bytes;
  alignas(cmsghdr) std::array<char, kControlBytes> control{};
  iovec part{.iov_base = const_cast<VhostMessage*>(&message), .iov_len = bytes};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  if (!files.empty()) {
    header.msg_control = control.data();
    header.msg_controllen = CMSG_SPACE(files.size_bytes());
    cmsghdr* const at = CMSG_FIRSTHDR(&header);
    at->cmsg_level = SOL_SOCKET;
    at->cmsg_type = SCM_RIGHTS;
    at->cmsg_len = CMSG_LEN(files.size_bytes());
    std::memcpy(CMSG_DATA(at), files.data(), files.size_bytes());
  }
  return sendmsg(peer.get(), &header, MSG_DONTWAIT | MSG_NOSIGNAL) == static_cast<ssize_t>(bytes);
}

void VhostLog::SentAway(const std::string& path, const absl::Status& why) {
  const std::string words(why.message());
  if (std::exchange(last_, words) == words) return;
  spdlog::warn("{}: the driver there is sent away: {}", path, words);
}

}  // namespace unis
