// Unix sockets at which the engine waits for the program at the other end of a link.
#pragma once

#include <absl/status/statusor.h>
#include <sys/socket.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "engine/base/unique_fd.h"

namespace unis {

// Listens at a path, to which only its owner may connect. `type`: SOCK_STREAM or SOCK_SEQPACKET. An
// error leaves no file.
absl::StatusOr<UniqueFd> ListenForPeer(const std::string& path, int type);
// One that has come; not valid: none has, or we have no descriptor left for it. Then it goes on
// waiting, and poll() does not: who calls in a loop sleeps in between. The log is `told` that once.
UniqueFd AcceptPeer(const UniqueFd& listener, const std::string& path, bool& told);
// Adds the descriptors that came with a message.
void TakeFiles(msghdr& header, std::vector<UniqueFd>& files);

// Serves one peer at a time, by a thread of its own; the next waits.
class PeerServer {
 public:
  static absl::StatusOr<std::unique_ptr<PeerServer>> Listen(const std::string& path, int type);
  // Ends the thread, and removes the file. An owner of which `talk` uses more has it last.
  ~PeerServer();
  PeerServer(const PeerServer&) = delete;
  PeerServer& operator=(const PeerServer&) = delete;

  // Calls `talk` with each peer, which returns when the peer hangs up or Wait() is false. Once.
  // `name`: of the thread.
  void Start(const char* name, std::function<void(const UniqueFd& peer)> talk);
  // By `talk`, till there is something to read. False: we end.
  bool Wait(const UniqueFd& on) const;
  const std::string& path() const noexcept { return path_; }

 private:
  PeerServer(std::string path, UniqueFd listener, UniqueFd end)
      : path_(std::move(path)), listener_(std::move(listener)), end_(std::move(end)) {}

  const std::string path_;
  const UniqueFd listener_, end_;
  std::thread thread_;
};

}  // namespace unis
