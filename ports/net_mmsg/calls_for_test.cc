#include "net_mmsg/calls_for_test.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>

namespace unis {

thread_local Calls calls;
std::atomic<bool> is_blocking;

namespace {

void NoteWait(bool waits) {
  if (!waits) return;
  ++calls.blocking;
  is_blocking = true;
}

template <typename... Arguments>
int Call(long number, Arguments... arguments) {
  return static_cast<int>(syscall(number, arguments...));
}

}  // namespace
}  // namespace unis

using unis::Call;
using unis::calls;
using unis::NoteWait;

// What the driver calls instead of the C library's, because the test's own symbols come first.
extern "C" {
int recvmmsg(int socket, mmsghdr* messages, unsigned count, int flags, timespec* limit) {
  ++calls.vector;
  NoteWait((flags & MSG_DONTWAIT) == 0);
  return Call(SYS_recvmmsg, socket, messages, count, flags, limit);
}
int sendmmsg(int socket, mmsghdr* messages, unsigned count, int flags) {
  ++calls.vector;
  return Call(SYS_sendmmsg, socket, messages, count, flags);
}
ssize_t recv(int socket, void* to, std::size_t bytes, int flags) {
  ++calls.single;
  NoteWait((flags & MSG_DONTWAIT) == 0);
  return Call(SYS_recvfrom, socket, to, bytes, flags, nullptr, nullptr);
}
ssize_t send(int socket, const void* from, std::size_t bytes, int flags) {
  ++calls.single;
  return Call(SYS_sendto, socket, from, bytes, flags, nullptr, 0);
}
int poll(pollfd* sockets, nfds_t count, int limit_ms) {
  ++calls.polls;
  NoteWait(true);
  return Call(SYS_poll, sockets, count, limit_ms);
}
}
